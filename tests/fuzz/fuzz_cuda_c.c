/* libFuzzer target of the reader of CUDA C's signatures: any bytes get kernels or a diagnostic, and so does each
 * template with arguments.
 *
 *     clang -g -O1 -fsanitize=fuzzer,address,undefined -Isrc -Iinclude tests/fuzz/fuzz_cuda_c.c
 * src/runtime/cuda_c/cuda_c.c src/base/?*.c -lm -pthread
 *     ./a.out -dict=tests/fuzz/cuda_c.dict -max_len=4096 CORPUS
 *
 * kernels/gelu.cu and any toolkit's samples are a good corpus to start from. */
#include "runtime/cuda_c/cuda_c.h"

#include "check.h"

static void check_kernel(const CudaCKernel *k) {
  CHECK(k->name && *k->name && k->line >= 1 && k->param_count >= 0);
  for (int i = 0; i < k->param_count; i++) {
    const CudaCParam *p = &k->params[i];
    CHECK(p->name && *p->name && p->type);
    CHECK(p->align >= 1 && !(p->align & (p->align - 1)));
    CHECK(!p->known || (unsigned)p->dtype < DT_COUNT);
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  Context *cx = context_create();
  if (!cx) return 0;
  const char *volatile name = NULL;
  const Source *volatile src = NULL;
  if (context_try(cx)) {
    src = source_from_text(cx, "fuzz.cu", (const char *)data, size);
    CudaCKernel *k;
    int n = cuda_c_kernels(cx, src, &k);
    for (int i = 0; i < n; i++) {
      check_kernel(&k[i]);
      if (k[i].is_template && !name) name = k[i].name;
    }
    context_end_try(cx);
  } else {
    check_one_error(cx);
  }
  if (name && context_try(cx)) {
    CudaCKernel *k = cuda_c_instance(cx, src, name, "float, 4");
    if (k) check_kernel(k);
    context_end_try(cx);
  }
  context_destroy(cx);
  return 0;
}
