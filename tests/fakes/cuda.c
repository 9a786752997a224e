/* See fakes/cuda.h. One process, any number of threads (a lock around everything but the current context, which is a
 * thread's own). */
#define _GNU_SOURCE
#include "fakes/cuda.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define API __attribute__((visibility("default")))

/* clang-format off */
static FakeCuda fake = {.device_count = 1, .driver_version = 13000, .major = 9, .minor = 0, .shared_per_block = 232448, .max_threads = 1024, .memory = (size_t)1 << 30};
/* clang-format on */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

API FakeCuda *fake_cuda(void) { return &fake; }
API void fake_reset(void) { /* to a machine with one good GPU */
  fake = (FakeCuda){.device_count = 1,
                    .driver_version = 13000,
                    .major = 9,
                    .minor = 0,
                    .shared_per_block = 232448,
                    .max_threads = 1024,
                    .memory = (size_t)1 << 30};
}
API void fake_kernel(const char *name, FakeKernel run) {
  snprintf(fake.kernels[fake.kernel_count].name, sizeof fake.kernels[0].name, "%s", name);
  fake.kernels[fake.kernel_count++].run = run;
}

/* ---- every call begins so ---------------------------------------------------------------------------------------- */

typedef struct Context {
  int device;
} Context;
static Context primary[8] = {{0}, {1}, {2}, {3}, {4}, {5}, {6}, {7}};
static _Thread_local Context *stack[16];
static _Thread_local int depth;

/* A context that a caller made by himself. */
API void *fake_context(void) {
  static Context own = {0};
  return &own;
}

typedef enum { FREE, IN_CONTEXT, NOT_IN_CAPTURE, NOT_IN_STRICT_CAPTURE } Need;
static pid_t owner;                   /* who called cuInit */
static bool relaxed;                  /* the capture's mode: it allows to allocate meanwhile */
static _Thread_local int thread_mode; /* 2: this thread allocates whatever a capture's mode is */
static int enter(const char *symbol, Need need) {
  pthread_mutex_lock(&lock);
  fake.calls++;
  if (owner && owner != getpid()) return 3; /* as the driver does in a child of fork */
  if (fake.fail.symbol && !strcmp(fake.fail.symbol, symbol) && fake.fail.after-- == 0)
    return fake.fail.symbol = NULL, fake.fail.after = 0, fake.fail.result;
  if (need == FREE) return 0;
  if (!depth || !stack[depth - 1]) return fake.without_context++, 201;
  if (fake.sticky) return fake.sticky;
  if ((need == NOT_IN_CAPTURE || (need == NOT_IN_STRICT_CAPTURE && !relaxed && thread_mode != 2)) && fake.capturing)
    return fake.forbidden_in_capture++, 900;
  return 0;
}
#define ENTER(need) \
  int r = enter(__func__, need); \
  if (r) return pthread_mutex_unlock(&lock), r
#define LEAVE(result) return pthread_mutex_unlock(&lock), (result)

API int cuInit(unsigned flags) {
  ENTER(FREE);
  owner = getpid();
  LEAVE(0);
}
API int cuDriverGetVersion(int *v) {
  ENTER(FREE);
  *v = fake.driver_version;
  LEAVE(0);
}

static const struct {
  int code;
  const char *name, *text;
} errors[] = {
    {1, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {2, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {3, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {46, "CUDA_ERROR_DEVICE_UNAVAILABLE", "CUDA-capable device(s) is/are busy or unavailable"},
    {100, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {101, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {200, "CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid"},
    {201, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {209, "CUDA_ERROR_NO_BINARY_FOR_GPU", "no kernel image is available for execution on the device"},
    {218, "CUDA_ERROR_INVALID_PTX", "a PTX JIT compilation failed"},
    {221, "CUDA_ERROR_JIT_COMPILER_NOT_FOUND", "PTX JIT compiler library not found"},
    {222, "CUDA_ERROR_UNSUPPORTED_PTX_VERSION", "the provided PTX was compiled with an unsupported toolchain."},
    {600, "CUDA_ERROR_NOT_READY", "device not ready"},
    {700, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
    {701, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES", "too many resources requested for launch"},
    {716, "CUDA_ERROR_MISALIGNED_ADDRESS", "misaligned address"},
    {719, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
    {803, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH", "system has unsupported display driver / cuda driver combination"},
    {900, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", "operation not permitted when stream is capturing"},
};
API int cuGetErrorName(int e, const char **out) {
  for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
    if (errors[i].code == e) return *out = errors[i].name, 0;
  return *out = NULL, 1;
}
API int cuGetErrorString(int e, const char **out) {
  for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
    if (errors[i].code == e) return *out = errors[i].text, 0;
  return *out = NULL, 1;
}

/* ---- devices and contexts ---------------------------------------------------------------------------------------- */

API int cuDeviceGetCount(int *n) {
  ENTER(FREE);
  *n = fake.device_count;
  LEAVE(0);
}
API int cuDeviceGet(int *d, int ordinal) {
  ENTER(FREE);
  *d = ordinal;
  LEAVE(ordinal < fake.device_count ? 0 : 101);
}
API int cuDeviceGetName(char *out, int n, int d) {
  ENTER(FREE);
  snprintf(out, (size_t)n, "Fake GPU");
  LEAVE(0);
}
API int cuDeviceGetAttribute(int *out, int which, int d) {
  ENTER(FREE);
  switch (which) {
    case 1: *out = fake.max_threads; break;
    case 2:
    case 3: *out = 1024; break;
    case 4: *out = 64; break;
    case 16: *out = 132; break;
    case 20: *out = fake.compute_mode; break;
    case 75: *out = fake.major; break;
    case 76: *out = fake.minor; break;
    case 88: *out = fake.pageable; break;
    case 97: *out = fake.shared_per_block; break;
    default: LEAVE(1);
  }
  LEAVE(0);
}
API int cuDeviceTotalMem_v2(size_t *n, int d) {
  ENTER(FREE);
  *n = fake.memory;
  LEAVE(0);
}
API int cuDevicePrimaryCtxRetain(void **out, int d) {
  ENTER(FREE);
  *out = &primary[d];
  fake.contexts_retained++;
  LEAVE(0);
}
API int cuDevicePrimaryCtxRelease_v2(int d) {
  ENTER(FREE);
  fake.contexts_retained--;
  LEAVE(0);
}
API int cuCtxGetCurrent(void **out) {
  ENTER(FREE);
  *out = depth ? stack[depth - 1] : NULL;
  LEAVE(0);
}
API int cuCtxSetCurrent(void *c) {
  ENTER(FREE);
  if (!depth) depth = 1;
  stack[depth - 1] = c;
  LEAVE(0);
}
API int cuCtxPushCurrent_v2(void *c) {
  ENTER(FREE);
  if (depth == 16) abort();
  stack[depth++] = c;
  LEAVE(0);
}
API int cuCtxPopCurrent_v2(void **out) {
  ENTER(FREE);
  if (!depth) abort();
  *out = stack[--depth];
  LEAVE(0);
}
API int cuCtxGetDevice(int *out) {
  ENTER(IN_CONTEXT);
  *out = stack[depth - 1]->device;
  LEAVE(0);
}

/* ---- modules ----------------------------------------------------------------------------------------------------- */

typedef struct Module {
  char *image;
  bool is_cubin, in_flight;
  struct Module *next;
} Module;
typedef struct Function {
  Module *module;
  FakeKernel run;
  int params;
  char name[64];
  struct Function *next;
} Function;
static Module *modules;

static int parameters(const char *entry) { /* of ".entry name(.param .u64 a, ...)" */
  int n = 0;
  const char *end = strchr(entry, ')');
  for (const char *p = entry; end && (p = strstr(p, ".param")) && p < end; p++) n++;
  return n;
}

API int cuModuleLoadDataEx(void **out, const void *image, unsigned n, int *options, void **values) {
  ENTER(NOT_IN_CAPTURE);
  bool cubin = !memcmp(image, "\177ELF", 4);
  for (unsigned i = 0; i < n; i++) {
    if (options[i] == 5 && fake.jit_error_log) snprintf(values[i], (size_t)values[i + 1], "%s", fake.jit_error_log);
    if (options[i] == 3 && fake.jit_info_log) snprintf(values[i], (size_t)values[i + 1], "%s", fake.jit_info_log);
  }
  if (cubin && fake.cubin_result) LEAVE(fake.cubin_result);
  if (!cubin && fake.ptx_result) LEAVE(fake.ptx_result);
  if (!cubin && !strstr(image, ".version")) LEAVE(200);
  Module *m = calloc(1, sizeof *m);
  if (!m) LEAVE(2);
  m->is_cubin = cubin;
  m->image = cubin ? NULL : strdup(image);
  if (!cubin && !m->image) {
    free(m);
    LEAVE(2);
  }
  m->next = modules;
  modules = m;
  fake.modules++;
  if (cubin) fake.cubins_loaded++;
  else fake.ptx_loaded++;
  *out = m;
  LEAVE(0);
}
API int cuModuleUnload(void *module) {
  ENTER(NOT_IN_CAPTURE);
  Module *m = module;
  if (m->in_flight) fake.unloaded_in_flight++;
  for (Module **at = &modules; *at; at = &(*at)->next)
    if (*at == m) {
      *at = m->next;
      break;
    }
  free(m->image);
  free(m);
  fake.modules--;
  LEAVE(0);
}
API int cuModuleGetFunction(void **out, void *module, const char *name) {
  ENTER(IN_CONTEXT);
  static Function *functions; /* never freed; a test is short */
  Module *m = module;
  Function *f = calloc(1, sizeof *f);
  if (!f) LEAVE(2);
  f->next = functions;
  functions = f;
  f->module = m;
  f->params = -1;
  snprintf(f->name, sizeof f->name, "%s", name);
  if (!m->is_cubin) {
    char entry[128];
    snprintf(entry, sizeof entry, ".entry %s(", name);
    const char *at = strstr(m->image, entry);
    if (!at) LEAVE(500);
    f->params = parameters(at);
  }
  for (int i = 0; i < fake.kernel_count; i++)
    if (!strcmp(fake.kernels[i].name, name)) f->run = fake.kernels[i].run;
  *out = f;
  LEAVE(0);
}
API int cuFuncGetAttribute(int *out, int which, void *f) {
  ENTER(IN_CONTEXT);
  *out = which == 0 ? fake.max_threads : which == 4 ? 40 : 0;
  LEAVE(0);
}
API int cuFuncSetAttribute(void *f, int which, int v) {
  ENTER(IN_CONTEXT);
  fake.last_function_shared = v;
  LEAVE(v > fake.shared_per_block ? 1 : 0);
}
API int cuFuncLoad(void *f) {
  ENTER(NOT_IN_CAPTURE);
  LEAVE(0);
}

typedef struct Node {
  Function *f;
  unsigned grid[3], block[3], shared;
  uint64_t values[16];
} Node;
/* CUDA_KERNEL_NODE_PARAMS_v2 */
typedef struct NodeParams {
  Function *f;
  unsigned grid[3], block[3], shared;
  void **params, **extra, *kernel, *context;
} NodeParams;
typedef struct Graph {
  Node nodes[256];
  int n;
} Graph;
static Graph captured;
static void *captured_last; /* the node at the end of the capture */
static uint64_t captures;

API int cuLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                       unsigned shared, void *stream, void **params, void **extra) {
  ENTER(IN_CONTEXT);
  Function *f = function;
  unsigned grid[3] = {gx, gy, gz}, block[3] = {bx, by, bz};
  if (!gx || !gy || !gz || bx * by * bz > (unsigned)fake.max_threads) LEAVE(1);
  fake.launches++;
  memcpy(fake.last_grid, grid, sizeof grid);
  memcpy(fake.last_block, block, sizeof block);
  fake.last_shared = shared, fake.last_stream = stream, fake.last_params = f->params;
  if (fake.capturing && fake.capturing == stream) {
    Node *node = captured.n < 256 ? &captured.nodes[captured.n++] : &captured.nodes[255];
    *node = (Node){f, {gx, gy, gz}, {bx, by, bz}, shared, {0}};
    for (int i = 0; i < fake.capture_params; i++) memcpy(&node->values[i], params[i], 8);
    captured_last = node;
    LEAVE((fake.captured++, 0));
  }
  f->module->in_flight = true;
  if (f->run) fake.sticky = f->run(params, grid, block, shared); /* seen by the next call */
  LEAVE(0);
}

/* CUlaunchConfig, CUlaunchAttribute */
typedef struct LaunchAttribute {
  int id, pad, yes, rest[15];
} LaunchAttribute;
typedef struct LaunchConfig {
  unsigned grid[3], block[3], shared;
  void *stream;
  LaunchAttribute *attributes;
  unsigned attribute_count;
} LaunchConfig;
API int cuLaunchKernelEx(const LaunchConfig *c, void *function, void **params, void **extra) {
  enum { CLUSTER = 4 };
  unsigned blocks = 0;
  fake.last_attributes = 0;
  for (unsigned i = 0; i < c->attribute_count; i++)
    if (c->attributes[i].id == CLUSTER) blocks = (unsigned)c->attributes[i].yes;
    else if (c->attributes[i].yes == 1) fake.last_attributes |= 1u << c->attributes[i].id;
  fake.last_cluster = blocks;
  if (blocks && c->grid[0] % blocks) return 1;
  return cuLaunchKernel(function, c->grid[0], c->grid[1], c->grid[2], c->block[0], c->block[1], c->block[2], c->shared,
                        c->stream, params, extra);
}

/* ---- tensor maps ------------------------------------------------------------------------------------------------- */

/* What cuda.h asks of the arguments. */
static bool is_map(unsigned rank, const void *base, const uint64_t *sizes, const uint64_t *strides, const unsigned *box,
                   const unsigned *steps, int size, int swizzle) {
  bool good = rank >= 1 && rank <= 5 && (uintptr_t)base % 16 == 0;
  for (unsigned i = 0; good && i < rank; i++) {
    good = sizes[i] >= 1 && sizes[i] <= (uint64_t)1 << 32 && box[i] >= 1 && box[i] <= 256 && steps[i] >= 1 &&
           steps[i] <= 8;
    good = good && (!i || (strides[i - 1] % 16 == 0 && strides[i - 1] < (uint64_t)1 << 40));
  }
  return good && box[0] * (unsigned)size % 16 == 0 && (!swizzle || box[0] * (unsigned)size <= 16u << swizzle);
}
API int cuTensorMapEncodeTiled(void *map, int type, unsigned rank, void *base, const uint64_t *sizes,
                               const uint64_t *strides, const unsigned *box, const unsigned *steps, int interleave,
                               int swizzle, int promotion, int fill) {
  static const uint8_t bytes[] = {1, 2, 4, 4, 8, 8, 2, 4, 8, 2};
  ENTER(IN_CONTEXT);
  if ((uintptr_t)map % 64 || type < 0 || type > 9 || interleave || fill || promotion > 3 || swizzle > 3 ||
      !is_map(rank, base, sizes, strides, box, steps, bytes[type], swizzle))
    LEAVE(1);
  FakeMap m = {.base = (uintptr_t)base, .type = (uint8_t)type, .rank = (uint8_t)rank, .swizzle = (uint8_t)swizzle};
  m.promotion = (uint8_t)promotion;
  memcpy(m.sizes, sizes, rank * sizeof *sizes);
  memcpy(m.strides, strides, (rank - 1) * sizeof *strides);
  memcpy(m.box, box, rank * sizeof *box);
  memset(map, 0, 128);
  memcpy(map, &m, sizeof m);
  LEAVE((fake.maps_encoded++, 0));
}

/* ---- graphs ------------------------------------------------------------------------------------------------------ */

API int cuStreamBeginCapture_v2(void *stream, int mode) {
  ENTER(IN_CONTEXT);
  if (!stream || fake.capturing) LEAVE(900);
  fake.capturing = stream, relaxed = mode == 2, captured.n = 0, captured_last = NULL, captures++;
  LEAVE(0);
}
API int cuStreamEndCapture(void *stream, void **out) {
  ENTER(IN_CONTEXT);
  *out = NULL;
  if (!fake.capturing || fake.capturing != stream) LEAVE(1);
  Graph *g = malloc(sizeof *g);
  if (!g) LEAVE(2);
  *g = captured, *out = g;
  fake.capturing = NULL, relaxed = false, fake.graphs++;
  LEAVE(0);
}
static int set_node(Node *node, const NodeParams *p) {
  if (!p->grid[0] || !p->grid[1] || !p->grid[2] || p->block[0] * p->block[1] * p->block[2] > (unsigned)fake.max_threads)
    return 1;
  *node = (Node){p->f, {p->grid[0], p->grid[1], p->grid[2]}, {p->block[0], p->block[1], p->block[2]}, p->shared, {0}};
  for (int i = 0; i < fake.capture_params; i++) memcpy(&node->values[i], p->params[i], 8);
  return 0;
}
API int cuThreadExchangeStreamCaptureMode(int *mode) {
  int was = thread_mode;
  ENTER(FREE);
  thread_mode = *mode, *mode = was;
  LEAVE(0);
}
API int cuGraphCreate(void **out, unsigned flags) {
  ENTER(IN_CONTEXT);
  *out = calloc(1, sizeof(Graph));
  if (!*out) LEAVE(2);
  fake.graphs++;
  LEAVE(0);
}
API int cuGraphAddKernelNode_v2(void **out, void *graph, const void *after, size_t n, const NodeParams *p) {
  ENTER(IN_CONTEXT);
  Graph *g = graph;
  *out = (void *)(uintptr_t)++g->n;
  LEAVE(set_node(&g->nodes[g->n - 1], p));
}
API int cuGraphExecKernelNodeSetParams_v2(void *exec, void *node, const NodeParams *p) {
  ENTER(IN_CONTEXT);
  LEAVE(set_node(&((Graph *)exec)->nodes[(uintptr_t)node - 1], p));
}
API int cuGraphInstantiateWithFlags(void **out, void *graph, unsigned long long flags) {
  ENTER(IN_CONTEXT);
  Graph *g = malloc(sizeof *g);
  if (!g) LEAVE(2);
  *g = *(Graph *)graph, *out = g;
  fake.graph_execs++;
  LEAVE(0);
}
API int cuGraphDestroy(void *graph) {
  ENTER(IN_CONTEXT);
  free(graph);
  fake.graphs--;
  LEAVE(0);
}
API int cuGraphExecDestroy(void *exec) {
  ENTER(FREE);
  free(exec);
  fake.graph_execs--;
  LEAVE(0);
}
API int cuGraphLaunch(void *exec, void *stream) {
  ENTER(IN_CONTEXT);
  Graph *g = exec;
  if (fake.capturing && fake.capturing == stream) LEAVE((fake.forbidden_in_capture++, 900));
  fake.graph_launches++, fake.last_stream = stream;
  for (int i = 0; i < g->n && !fake.sticky; i++) {
    Node *n = &g->nodes[i];
    memcpy(fake.last_grid, n->grid, sizeof n->grid);
    n->f->module->in_flight = true;
    void *params[16];
    for (int k = 0; k < 16; k++) params[k] = &n->values[k];
    if (n->f->run) fake.sticky = n->f->run(params, n->grid, n->block, n->shared);
  }
  LEAVE(0);
}

/* ---- waiting ----------------------------------------------------------------------------------------------------- */

static void all_done(void) {
  for (Module *m = modules; m; m = m->next) m->in_flight = false;
}
static int after_wait(void) { /* LEAVE has let the lock go */
  void (*then)(void) = __atomic_exchange_n(&fake.on_wait, NULL, __ATOMIC_ACQ_REL);
  if (then) then();
  return 0;
}
API int cuCtxSynchronize(void) {
  ENTER(NOT_IN_CAPTURE);
  all_done();
  LEAVE(after_wait());
}
API int cuStreamSynchronize(void *s) {
  ENTER(NOT_IN_CAPTURE);
  all_done();
  LEAVE(after_wait());
}

/* ---- memory: addresses of the device lie in a range of their own, as CUDA's do ----------------------------------- */

enum { ARENA = 64 << 20 };
static char *arena;
static size_t arena_used;
typedef struct Block {
  uintptr_t at;
  size_t bytes;
  struct Block *next;
} Block;
static Block *host_blocks;

static bool in_arena(uintptr_t p) { return arena && p - (uintptr_t)arena < ARENA; }
static bool in_host(uintptr_t p) {
  for (Block *b = host_blocks; b; b = b->next)
    if (p - b->at < b->bytes) return true;
  return false;
}
static bool add_host(void *p, size_t n) {
  Block *b = malloc(sizeof *b);
  if (!b) return false;
  *b = (Block){(uintptr_t)p, n ? n : 1, host_blocks};
  host_blocks = b;
  return true;
}
static bool remove_host(void *p) {
  for (Block **at = &host_blocks, *b; (b = *at); at = &b->next)
    if (b->at == (uintptr_t)p) return *at = b->next, free(b), true;
  return false;
}

API int cuMemAlloc_v2(uint64_t *out, size_t n) {
  ENTER(NOT_IN_CAPTURE);
  if (!arena) { /* aligned to 2 MiB */
    char *p = mmap(NULL, ARENA + (2 << 20), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    arena = (char *)(((uintptr_t)p + (2 << 20) - 1) & ~(uintptr_t)((2 << 20) - 1));
  }
  if (!n) LEAVE(1);
  n = (n + 511) & ~(size_t)511;
  if (n > fake.memory || n > ARENA - arena_used) LEAVE(2);
  *out = (uintptr_t)arena + arena_used;
  arena_used += n;
  fake.allocations++;
  LEAVE(0);
}
API int cuMemFree_v2(uint64_t p) {
  ENTER(NOT_IN_CAPTURE);
  if (!in_arena(p)) LEAVE(1);
  if (--fake.allocations == 0) arena_used = 0;
  LEAVE(0);
}
API int cuMemGetInfo_v2(size_t *left, size_t *total) {
  ENTER(IN_CONTEXT);
  *left = fake.memory / 2, *total = fake.memory;
  LEAVE(0);
}
API int cuMemHostAlloc(void **out, size_t n, unsigned flags) {
  ENTER(NOT_IN_STRICT_CAPTURE);
  *out = calloc(1, n);
  if (!*out) LEAVE(2);
  if (!add_host(*out, n)) {
    free(*out);
    LEAVE(2);
  }
  fake.host_allocations++;
  LEAVE(0);
}
API int cuMemFreeHost(void *p) {
  ENTER(FREE);
  if (!remove_host(p)) LEAVE(1);
  free(p);
  fake.host_allocations--;
  LEAVE(0);
}
API int cuMemHostRegister_v2(void *p, size_t n, unsigned flags) {
  ENTER(NOT_IN_CAPTURE);
  if (in_host((uintptr_t)p)) LEAVE(712);
  if (!add_host(p, n)) LEAVE(2);
  fake.registered++;
  LEAVE(0);
}
API int cuMemHostUnregister(void *p) {
  ENTER(FREE);
  if (!remove_host(p)) LEAVE(713);
  fake.registered--;
  LEAVE(0);
}
API int cuPointerGetAttribute(void *out, int which, uint64_t p) {
  ENTER(FREE);
  if (which == 11 || which == 12) { /* all of the arena is one allocation */
    if (!in_arena(p)) LEAVE(1);
    *(uint64_t *)out = which == 11 ? (uintptr_t)arena : fake.memory_end ? fake.memory_end - (uintptr_t)arena : ARENA;
    LEAVE(0);
  }
  if (which != 2) LEAVE(1);
  if (in_arena(p)) *(unsigned *)out = 2;
  else if (in_host(p)) *(unsigned *)out = 1;
  else LEAVE(1);
  LEAVE(0);
}

API int cuMemPoolCreate(void **out, const int *props) {
  ENTER(NOT_IN_CAPTURE);
  if (props[0] != 1 || props[2] != 1 || props[3] >= fake.device_count) LEAVE(1);
  fake.pools++;
  *out = &fake.pools;
  LEAVE(0);
}
API int cuMemPoolSetAttribute(void *pool, int which, void *value) {
  ENTER(IN_CONTEXT);
  LEAVE(which == 4 && *(uint64_t *)value ? 0 : 1);
}
API int cuMemPoolDestroy(void *pool) {
  ENTER(IN_CONTEXT);
  fake.pools--;
  LEAVE(0);
}
API int cuMemAllocFromPoolAsync(uint64_t *out, size_t n, void *pool, void *stream) {
  ENTER(IN_CONTEXT);
  void *p = NULL;
  if (posix_memalign(&p, 256, n)) LEAVE(2);
  *out = (uintptr_t)p;
  fake.pool_allocations++;
  fake.pool_taken++;
  LEAVE(0);
}
API int cuMemFreeAsync(uint64_t p, void *stream) {
  ENTER(IN_CONTEXT);
  free((void *)p);
  fake.pool_allocations--;
  LEAVE(0);
}

API int cuMemcpyHtoD_v2(uint64_t d, const void *s, size_t n) {
  ENTER(NOT_IN_CAPTURE);
  memcpy((void *)d, s, n);
  LEAVE(0);
}
API int cuMemcpyDtoH_v2(void *d, uint64_t s, size_t n) {
  ENTER(NOT_IN_CAPTURE);
  memcpy(d, (void *)s, n);
  LEAVE(0);
}
API int cuMemcpyHtoDAsync_v2(uint64_t d, const void *s, size_t n, void *stream) {
  ENTER(IN_CONTEXT);
  fake.last_stream = stream;
  memcpy((void *)d, s, n);
  LEAVE(0);
}
API int cuMemcpyDtoHAsync_v2(void *d, uint64_t s, size_t n, void *stream) {
  ENTER(IN_CONTEXT);
  fake.last_stream = stream;
  memcpy(d, (void *)s, n);
  LEAVE(0);
}
API int cuMemcpyDtoDAsync_v2(uint64_t d, uint64_t s, size_t n, void *stream) {
  ENTER(IN_CONTEXT);
  fake.last_stream = stream;
  memcpy((void *)d, (void *)s, n);
  LEAVE(0);
}
API int cuMemsetD8Async(uint64_t d, unsigned char v, size_t n, void *stream) {
  ENTER(IN_CONTEXT);
  fake.last_stream = stream;
  if (fake.capturing && fake.capturing == stream) captured_last = &fake; /* a node of another kind */
  memset((void *)d, v, n);
  LEAVE(0);
}

/* ---- streams and events ------------------------------------------------------------------------------------------ */

API int cuStreamCreate(void **out, unsigned flags) {
  ENTER(IN_CONTEXT);
  *out = malloc(1);
  if (!*out) LEAVE(2);
  fake.streams++;
  LEAVE(0);
}
API int cuStreamDestroy_v2(void *s) {
  ENTER(IN_CONTEXT);
  free(s);
  fake.streams--;
  LEAVE(0);
}
API int cuStreamWaitEvent(void *s, void *e, unsigned flags) {
  ENTER(IN_CONTEXT);
  fake.last_stream = s;
  LEAVE(0);
}
API int cuStreamQuery(void *s) {
  ENTER(IN_CONTEXT);
  if (fake.capturing && fake.capturing == s) LEAVE((fake.forbidden_in_capture++, 900));
  fake.stream_queries++;
  LEAVE(fake.stream_busy ? 600 : 0);
}
API int cuStreamIsCapturing(void *s, int *out) {
  ENTER(IN_CONTEXT);
  *out = fake.capturing && fake.capturing == s;
  LEAVE(0);
}
API int cuStreamGetCaptureInfo_v2(void *s, int *status, uint64_t *id, void **graph, void *const **after, size_t *n) {
  ENTER(IN_CONTEXT);
  *status = fake.capturing && fake.capturing == s;
  *id = captures, *graph = &captured, *after = &captured_last, *n = captured_last != NULL;
  LEAVE(0);
}
API int cuEventCreate(void **out, unsigned flags) {
  ENTER(IN_CONTEXT);
  *out = calloc(1, sizeof(int));
  if (!*out) LEAVE(2);
  fake.events++;
  LEAVE(0);
}
API int cuEventDestroy_v2(void *e) {
  ENTER(IN_CONTEXT);
  free(e);
  fake.events--;
  LEAVE(0);
}
API int cuEventRecord(void *e, void *s) {
  ENTER(IN_CONTEXT);
  *(int *)e = fake.calls;
  fake.last_stream = s;
  LEAVE(0);
}
API int cuEventSynchronize(void *e) {
  ENTER(NOT_IN_CAPTURE);
  LEAVE(0);
}
API int cuEventElapsedTime(float *ms, void *a, void *b) {
  ENTER(IN_CONTEXT);
  *ms = (float)(*(int *)b - *(int *)a);
  LEAVE(0);
}

/* ---- NVRTC: every __global__ function of the text becomes an entry ----------------------------------------------- */

typedef struct Program {
  char *text, *name;
} Program;
API const char *nvrtcGetErrorString(int r) { return r == 6 ? "NVRTC_ERROR_COMPILATION" : "NVRTC_ERROR"; }
API int nvrtcVersion(int *major, int *minor) { return *major = 13, *minor = fake.nvrtc_minor, 0; }
API int nvrtcCreateProgram(Program **out, const char *text, const char *name, int n, const char *const *h,
                           const char *const *i) {
  *out = calloc(1, sizeof **out);
  if (!*out) LEAVE(1);
  (*out)->text = strdup(text);
  return 0;
}
API int nvrtcDestroyProgram(Program **p) { return free((*p)->text), free((*p)->name), free(*p), *p = NULL, 0; }
API int nvrtcAddNameExpression(Program *p, const char *name) {
  p->name = strdup(name);
  snprintf(fake.nvrtc_names, sizeof fake.nvrtc_names, "%s", name);
  for (char *c = p->name; *c; c++)
    if (strchr("<>:, *", *c)) *c = '_';
  return 0;
}
API int nvrtcCompileProgram(Program *p, int n, const char *const *options) {
  size_t at = 0;
  fake.nvrtc_compiled++;
  for (int i = 0; i < n; i++)
    at += (size_t)snprintf(fake.nvrtc_options + at, sizeof fake.nvrtc_options - at, "%s ", options[i]);
  return fake.nvrtc_log ? 6 : 0;
}
API int nvrtcGetProgramLogSize(Program *p, size_t *n) {
  return *n = strlen(fake.nvrtc_log ? fake.nvrtc_log : "") + 1, 0;
}
API int nvrtcGetProgramLog(Program *p, char *out) { return strcpy(out, fake.nvrtc_log ? fake.nvrtc_log : ""), 0; }
API int nvrtcGetLoweredName(Program *p, const char *name, const char **out) { return *out = p->name, 0; }
static int ptx_of(const Program *p, char *out, size_t n) {
  return snprintf(out, n, ".version 8.0\n.visible .entry %s()\n{}\n", p->name) + 1;
}
API int nvrtcGetPTXSize(Program *p, size_t *n) { return *n = (size_t)ptx_of(p, NULL, 0), 0; }
API int nvrtcGetPTX(Program *p, char *out) { return ptx_of(p, out, 1000), 0; }
API int nvrtcGetCUBINSize(Program *p, size_t *n) { return *n = 8, 0; }
API int nvrtcGetCUBIN(Program *p, char *out) { return memcpy(out, "\177ELFcode", 8), 0; }
