/* Arrays of a launch that is tried many times: which must look alike before each run, and whether all configurations
 * write the same.
 *
 * An array that the kernel reads and writes (in place, or by atomics) holds something else after each run: it is given
 * back what it held, from a copy. What a kernel only writes needs nothing. reset_to_zero and restore_value of
 * @triton.autotune say more, and go first.
 *
 * Whether two runs agree is found where the arrays are, by kernels of ours: elements that are neither equal, nor both
 * NaN, nor apart by no more than the tolerance of their type times the greater of the wanted element and the array's
 * mean are counted. The tolerance is wide, since another block adds up in another order: what is wrong is wrong by
 * more.
 */
#include <math.h>
#include <stdlib.h>

#include "measure/tune.h"

enum { COMPARE_BLOCK = 4096 };

static const char compare_text[] = "import triton\n"
                                   "import triton.language as tl\n"
                                   "\n"
                                   "@triton.jit\n"
                                   "def compare(x, y, n: tl.int64, tolerance: tl.float32, scale: tl.float32, differ, "
                                   "EXACT: tl.constexpr, BLOCK: tl.constexpr):\n"
                                   "    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)\n"
                                   "    a = tl.load(x + i, mask=i < n)\n"
                                   "    b = tl.load(y + i, mask=i < n)\n"
                                   "    if EXACT:\n"
                                   "        good = a == b\n"
                                   "    else:\n"
                                   "        a = a.to(tl.float32)\n"
                                   "        b = b.to(tl.float32)\n"
                                   "        near = tl.abs(a - b) <= tolerance * tl.maximum(tl.abs(b), scale)\n"
                                   "        good = (a == b) | near | ((a != a) & (b != b))\n"
                                   "    wrong = tl.sum(((i < n) & (good == 0)).to(tl.int64), axis=0)\n"
                                   "    if wrong > 0:\n"
                                   "        tl.atomic_add(differ, wrong)\n"
                                   "\n"
                                   "@triton.jit\n"
                                   "def total(x, n: tl.int64, out, BLOCK: tl.constexpr):\n"
                                   "    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)\n"
                                   "    a = tl.abs(tl.load(x + i, mask=i < n, other=0).to(tl.float32))\n"
                                   "    a = tl.where(a < float('inf'), a, 0.0)\n"
                                   "    tl.atomic_add(out, tl.sum(a / n.to(tl.float32), axis=0))\n";

static double tolerance(Dtype t) {
  switch (t) {
    case DT_F64:
    case DT_F32: return 2e-3; /* products of floats may be of tf32 */
    case DT_F16: return 1e-2;
    case DT_BF16: return 4e-2;
    default: return 0.26;
  }
}

/* ---- the launch's arrays ----------------------------------------------------------------------------------------- */

nereid_status array_unknown(const Call *c, int param, const char *what, nereid_error **error) {
  return error_set(error, NEREID_BAD_ARGUMENT,
                   "take its memory from nereid_alloc, tell the device of it with nereid_register, or set "
                   "nereid_arg.bytes; or take the first configuration that fits, with "
                   "options.no_autotune or NEREID_AUTOTUNE=0",
                   "%s '%s' of kernel '%s', but where that array ends is not known", what, c->kernel->names[param],
                   c->kernel->info.name);
}

TuneArray *arrays_find(TuneArrays *a, int param) {
  for (int i = 0; i < a->count; i++)
    if (a->at[i].param == param) return &a->at[i];
  return NULL;
}

int64_t array_bytes(nereid_device *d, const nereid_arg *a) {
  int64_t known = device_bytes_from(d, a->pointer);
  return a->bytes > 0 && (known < 0 || a->bytes < known) ? a->bytes : known;
}

nereid_status arrays_open(TuneArrays *a, nereid_device *d, const Call *c, nereid_error **error) {
  *a = (TuneArrays){.device = d};
  a->at = calloc((size_t)c->kernel->info.param_count + 1, sizeof *a->at);
  if (!a->at) return error_out_of_memory(error);
  for (int i = 0; i < c->kernel->info.param_count; i++) {
    const nereid_arg *arg = c->args[i];
    if (!arg || (arg->kind != NEREID_ARG_POINTER && arg->kind != NEREID_ARG_DESCRIPTOR) || !arg->pointer) continue;
    int64_t bytes = array_bytes(d, arg);
    a->at[a->count++] =
        (TuneArray){.param = i, .at = arg->pointer, .bytes = bytes > 0 ? bytes : 0, .dtype = (Dtype)arg->dtype};
  }
  return NEREID_OK;
}

void arrays_close(TuneArrays *a) {
  for (int i = 0; i < a->count; i++) nereid_free(a->device, a->at[i].before), nereid_free(a->device, a->at[i].wanted);
  nereid_free(a->device, a->found);
  nereid_module_free(a->module);
  free(a->at);
  *a = (TuneArrays){0};
}

static nereid_status copy_of(TuneArrays *a, const TuneArray *x, void **to, nereid_error **error) {
  nereid_status status = *to ? NEREID_OK : nereid_alloc(a->device, x->bytes, to, error);
  return status ? status : nereid_copy_async(a->device, NULL, *to, x->at, x->bytes, error);
}

nereid_status arrays_save(TuneArrays *a, nereid_error **error) {
  nereid_status status = NEREID_OK;
  for (int i = 0; i < a->count && !status; i++)
    if (a->at[i].restores && !a->at[i].resets) status = copy_of(a, &a->at[i], &a->at[i].before, error);
  return status;
}

nereid_status arrays_prepare(TuneArrays *a, nereid_error **error) {
  nereid_status status = NEREID_OK;
  for (int i = 0; i < a->count && !status; i++) {
    TuneArray *x = &a->at[i];
    if (x->resets) status = nereid_fill_async(a->device, NULL, x->at, 0, x->bytes, error);
    else if (x->before) status = nereid_copy_async(a->device, NULL, x->at, x->before, x->bytes, error);
  }
  return status;
}

/* ---- agreement --------------------------------------------------------------------------------------------------- */

static nereid_status run_on(TuneArrays *a, const char *kernel, int64_t n, const nereid_arg *args, int count,
                            nereid_error **error) {
  const nereid_options plain = {.no_autotune = true};
  int64_t grid[3] = {cdiv(n, COMPARE_BLOCK), 1, 1};
  return nereid_launch(a->device, NULL, a->module, kernel, grid, args, count, &plain, error);
}

static nereid_status mean(TuneArrays *a, TuneArray *x, nereid_error **error) {
  if (dtype_is_int(x->dtype)) return NEREID_OK;
  int64_t n = x->bytes / dtype_bytes(x->dtype);
  float *sum = (float *)((char *)a->found + 64), got = 0;
  nereid_arg args[] = {nereid_pointer(x->wanted, (nereid_dtype)x->dtype), nereid_int(n),
                       nereid_pointer(sum, NEREID_F32), nereid_constexpr_int(COMPARE_BLOCK)};
  nereid_status status = nereid_fill_async(a->device, NULL, sum, 0, sizeof *sum, error);
  if (!status) status = run_on(a, "total", n, args, 4, error);
  if (!status) status = nereid_synchronize(a->device, error);
  if (!status) status = nereid_copy_to_host(a->device, &got, sum, sizeof got, error);
  x->scale = isfinite(got) ? got : 0;
  return status;
}

nereid_status arrays_expect(TuneArrays *a, nereid_error **error) {
  nereid_status status = NEREID_OK;
  if (!a->module) status = nereid_module_load_string("compare.py", compare_text, &a->module, error);
  if (!status && !a->found) status = nereid_alloc(a->device, 128, &a->found, error);
  for (int i = 0; i < a->count && !status; i++) {
    TuneArray *x = &a->at[i];
    if (!x->compared || x->bytes < dtype_bytes(x->dtype)) continue;
    status = copy_of(a, x, &x->wanted, error);
    if (!status) status = mean(a, x, error);
  }
  return status;
}

nereid_status arrays_compare(TuneArrays *a, const Call *c, char *why, size_t size, nereid_error **error) {
  nereid_status status = NEREID_OK;
  *why = 0;
  for (int i = 0; i < a->count && !status && !*why; i++) {
    const TuneArray *x = &a->at[i];
    if (!x->compared || !x->wanted) continue;
    int64_t n = x->bytes / dtype_bytes(x->dtype), differ = 0;
    nereid_arg args[] = {nereid_pointer(x->at, (nereid_dtype)x->dtype),
                         nereid_pointer(x->wanted, (nereid_dtype)x->dtype),
                         nereid_int(n),
                         nereid_float(tolerance(x->dtype)),
                         nereid_float(x->scale),
                         nereid_pointer(a->found, NEREID_I64),
                         nereid_constexpr_int(dtype_is_int(x->dtype)),
                         nereid_constexpr_int(COMPARE_BLOCK)};
    status = nereid_fill_async(a->device, NULL, a->found, 0, sizeof differ, error);
    if (!status) status = run_on(a, "compare", n, args, 8, error);
    if (!status) status = nereid_synchronize(a->device, error);
    if (!status) status = nereid_copy_to_host(a->device, &differ, a->found, sizeof differ, error);
    if (differ)
      snprintf(why, size, "%s: %lld of %lld elements differ from the first configuration's", c->kernel->names[x->param],
               (long long)differ, (long long)n);
  }
  return status;
}
