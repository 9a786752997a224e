/* Opening the driver's library, and what its errors mean to a person. */
#include "rt/cuda/api.h"

#include <dlfcn.h>
#include <stdlib.h>

static const LibrarySymbol functions[] = {
#define X(field, symbol, needed, arguments) {symbol, offsetof(CudaApi, field), needed},
    CUDA_FUNCTIONS(X)
#undef X
};

static const struct {
  CuResult code;
  const char *hint;
  /* clang-format off */
} hints[] = {
    {CU_OUT_OF_MEMORY, "free device memory, or see with nvidia-smi who else uses the GPU"},
    {CU_NOT_INITIALIZED, "a child of fork cannot use the CUDA that its parent opened: let the parent open none before, or start the child by exec (Python's multiprocessing: by spawn)"},
    {CU_STUB_LIBRARY,
    "this libcuda is the CUDA toolkit's stub, for linking only: take its folder out of LD_LIBRARY_PATH, and install the "
                      "NVIDIA driver"},
    {CU_DEVICE_UNAVAILABLE, "another process holds the GPU in exclusive mode: wait for it, or set the compute mode to Default (nvidia-smi -c 0)"},
    {CU_NO_DEVICE, "see with nvidia-smi that there is a GPU and that CUDA_VISIBLE_DEVICES does not hide it; or use the device cpu"},
    {CU_INVALID_CONTEXT, "the context must be alive, and of the process that uses it"},
    {CU_CONTEXT_IS_DESTROYED, "a context must outlive the devices that were opened in it"},
    {CU_NO_BINARY_FOR_GPU, "the machine code is for another GPU"},
    {CU_NO_JIT_COMPILER, "the driver's PTX compiler (libnvidia-ptxjitcompiler) is missing: install it, or ptxas of the CUDA toolkit"},
    {CU_PTX_TOO_NEW, "the driver is too old for this PTX: update it, or install ptxas of the CUDA toolkit (NEREID_PTXAS names one)"},
    {CU_JIT_DISABLED, "unset CUDA_DISABLE_PTX_JIT, or install ptxas of the CUDA toolkit"},
    {CU_OUT_OF_RESOURCES, "the block needs more registers than the GPU has: use fewer warps (num_warps) or smaller tiles"},
    {CU_LAUNCH_TIMEOUT, "the kernel ran too long for a GPU that also drives a display"},
    {CU_SYSTEM_NOT_READY, "the system's NVIDIA services are not up (on NVSwitch machines: the fabric manager)"},
    {CU_DRIVER_MISMATCH, "the driver's library and its kernel module are of different versions: restart the machine after an update of the driver"},
    {999, "see with nvidia-smi and the kernel's log (dmesg) whether the driver works"},
};
/* clang-format on */

const char *cuda_hint(CuResult r) {
  if (r >= CU_CAPTURE_FIRST && r <= CU_CAPTURE_LAST)
    return "a stream of this context is capturing a CUDA graph: compile kernels (nereid_compile), allocate and "
           "synchronize before or after";
  for (size_t i = 0; i < sizeof hints / sizeof hints[0]; i++)
    if (hints[i].code == r) return hints[i].hint;
  return NULL;
}

bool cuda_is_sticky(CuResult r) {
  switch (r) {
    case 226: /* an error that was contained to this process */
    case CU_ILLEGAL_ADDRESS:
    case CU_LAUNCH_TIMEOUT:
    case CU_ASSERT:
    case CU_STACK_ERROR:
    case CU_ILLEGAL_INSTRUCTION:
    case CU_MISALIGNED_ADDRESS:
    case CU_INVALID_ADDRESS_SPACE:
    case CU_INVALID_PC:
    case CU_LAUNCH_FAILED:
    case 721: /* tensor memory leak */
    case 911: /* another device's fault */ return true;
    default: return false;
  }
}

void cuda_describe(const CudaApi *api, CuResult r, char *out, size_t size) {
  const char *name = NULL, *text = NULL;
  api->error_name(r, &name);
  api->error_string(r, &text);
  if (text && name) snprintf(out, size, "%s (%s)", text, name);
  else snprintf(out, size, "CUDA error %d", r);
}

bool cuda_api_open(CudaApi *api, char why[512], const char **hint) {
  const char *chosen = environment_get("NEREID_LIBCUDA"), *file = chosen && *chosen ? chosen : "libcuda.so.1";
  *api = (CudaApi){0};
  *hint = chosen && *chosen
              ? "NEREID_LIBCUDA names the driver's library; unset it for libcuda.so.1"
              : "install the NVIDIA driver, or use the device cpu; NEREID_LIBCUDA may name the driver's library";
  api->library = dlopen(file, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (!api->library) {
    const char *reason = dlerror(); /* "libcuda.so.1: cannot open shared object file: No such file or directory" */
    size_t n = strlen(file);
    if (reason && !strncmp(reason, file, n) && reason[n] == ':') reason += n + 1 + strspn(reason + n + 1, " ");
    snprintf(why, 512, "no NVIDIA driver: %s: %s", file, reason ? reason : "it cannot be opened");
    return false;
  }
  const char *missing = library_take(api->library, functions, sizeof functions / sizeof functions[0], api);
  if (missing) {
    snprintf(why, 512, "the NVIDIA driver is too old: %s has no %s", file, missing);
    *hint = "update the driver: CUDA 12 is needed";
    return false;
  }
  CuResult r = api->init(0);
  if (!r) return true;
  char text[256];
  cuda_describe(api, r, text, sizeof text);
  snprintf(why, 512, r == CU_NO_DEVICE ? "no NVIDIA GPU: %s" : "the NVIDIA driver does not start: %s", text);
  *hint = cuda_hint(r);
  return false;
}
