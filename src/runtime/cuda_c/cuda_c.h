/* cuda_c: modules of CUDA C. Private to the runtime.
 *
 * NVRTC compiles them (nvrtc.c); what it does not tell is which parameters a kernel has. These are read from the text
 * here, as far as a launch needs them: numbers and pointers, by C's and CUDA's names, typedefs and simple macros looked
 * up, template parameters put in.
 */
#ifndef NEREID_CUDA_C_H
#define NEREID_CUDA_C_H

#include "base/base.h"
#include "nereid.h"

typedef struct CudaCParam {
  const char *name, *type; /* "x", "const float *" */
  bool is_pointer;
  bool known; /* dtype says what it is, or what it points to */
  Dtype dtype;
  int align; /* of what it points to; 1: not known */
} CudaCParam;

typedef struct CudaCKernel {
  const char *name; /* "gelu", "ns::gelu"; without template arguments */
  int line;
  bool is_template, is_extern_c;
  int param_count;
  CudaCParam *params;
} CudaCKernel;

/* The __global__ functions of a text in their order; in cx's arena. Of a template the parameters whose types depend on
 * its arguments are not known. fails for what cannot be read. */
int cuda_c_kernels(Context *cx, const Source *src, CudaCKernel **out);
/* The template `k` with arguments "float, 4": its parameters with these put in. fails when it has another number of
 * them. */
CudaCKernel *cuda_c_instance(Context *cx, const Source *src, const char *name, const char *arguments);

/* ---- nvrtc.c ----------------------------------------------------------------------------------------------------- */

typedef struct NvrtcResult {
  const char *ptx, *lowered; /* the kernel's name in it */
  const void *cubin;
  size_t cubin_size;
  bool from_cache;
} NvrtcResult;
/* name: as a name expression of C++, "gelu<float>". arch: "sm_90a". fails with NVRTC's words; *phase says what a
 * failure is. All in cx's arena. */
void nvrtc_compile(Context *cx, const char *path, const char *text, const char *name, const char *arch,
                   NvrtcResult *out, volatile nereid_status *phase);

/* ---- nvrtc_cache.c ----------------------------------------------------------------------------------------------- */

/* The cache entry of such a compilation; NULL: it cannot be kept. library: a line that tells which NVRTC
 * it is. */
const char *nvrtc_place(Context *cx, const char *library, const char *path, const char *text, const char *name,
                        int option_count, const char *const *options);
bool nvrtc_find(Context *cx, const char *place, NvrtcResult *out);
void nvrtc_keep(Context *cx, const char *place, const NvrtcResult *r);

#endif
