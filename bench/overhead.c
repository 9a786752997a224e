/* bench/overhead: what Nereid itself costs on a device: source to C text (or PTX) and the C compiler (or ptxas) for
 * every kernel of kernels/, until it is loaded; memory of a compilation; a warm launch, also while it is profiled; the
 * command's start and size.
 *
 *     build/bench/overhead [--device cpu | --target sm_90a] [--kernels DIR] [--command build/nereid] [--json]
 *
 * With --target no GPU need be there: our own part and ptxas's, its time on the wall and on a processor (on a busy
 * machine only the latter says something), registers of a thread and bytes that it spills.
 *
 * Each time with a fresh folder for a cache, so that the C compiler or ptxas runs: of five such compilations the
 * median, and of our own part the best (first runs pay for page faults).
 */
#include <fcntl.h>
#include <nereid.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

static double now_us(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

static void die(nereid_error *err) {
  fprintf(stderr, "%s\n", err ? nereid_error_text(err) : "out of memory");
  exit(1);
}

/* One letter an argument: p pointer to f32, h to f16, q to i64, i integer, 1 the integer 1 (the stride of elements side
 * by side), f float; then constexprs and warps. */
static const struct {
  const char *file, *kernel, *args, *constexprs;
  int warps;
} kernels[] = {
    {"vector_add.py", "vector_add", "pppi", "BLOCK=1024", 4},
    {"gelu.py", "gelu", "ppi", "BLOCK=1024", 4},
    {"unfused.py", "pow3", "ppi", "BLOCK=1024", 4},
    {"unfused.py", "tanh_op", "ppi", "BLOCK=1024", 4},
    {"unfused.py", "row_max", "ppi", "BLOCK=1024", 4},
    {"softmax.py", "softmax", "ppiii", "BLOCK=4096", 8},
    {"softmax.py", "softmax_three_pass", "ppiii", "BLOCK=4096", 8},
    {"softmax.py", "softmax_online", "ppiii", "BLOCK=4096", 8},
    {"dot_product.py", "dot_product", "pppi", "BLOCK=1024", 4},
    {"cos_cos.py", "triton_poi_fused_cos_0", "ppi", "XBLOCK=1024", 4},
    {"reduce.py", "array_sum", "ppi", "BLOCK=1024", 4},
    {"reduce.py", "row_sum", "ppii", "BLOCK=1024", 4},
    {"reduce.py", "row_mean", "ppii", "BLOCK=1024", 4},
    {"reduce.py", "row_argmax", "ppii", "BLOCK=1024", 4},
    {"layer_norm.py", "layer_norm", "ppppppiif", "BLOCK=4096", 8},
    {"layer_norm.py", "layer_norm_backward", "ppppppppiii", "BLOCK=4096", 8},
    {"layer_norm.py", "column_sum", "ppii", "BLOCK_ROWS=16 BLOCK_COLS=64", 4},
    {"rms_norm.py", "rms_norm", "pppiif", "BLOCK=4096", 8},
    {"embedding.py", "embedding", "pqpi", "BLOCK=4096", 8},
    {"embedding.py", "embedding_backward", "pqpi", "BLOCK=4096", 8},
    {"quantize.py", "quantize_rows", "pppii", "BLOCK=4096", 8},
    {"dropout.py", "dropout", "ppifi", "BLOCK=1024", 4},
    {"cross_entropy.py", "cross_entropy", "pqppiii", "BLOCK=4096", 8},
    {"transpose.py", "transpose", "ppiiii", "BLOCK_R=32 BLOCK_C=32", 4},
    {"cumsum.py", "cumsum", "ppii", "BLOCK=1024", 4},
    {"matmul.py", "matmul", "pppiiii1i1i1", "BLOCK_M=64 BLOCK_N=64 BLOCK_K=32 GROUP_M=8", 4},
    {"matmul.py", "matmul", "pppiiii1i1i1", "BLOCK_M=128 BLOCK_N=128 BLOCK_K=64 GROUP_M=8", 8},
    {"matmul.py", "matmul_bias_relu", "ppppiiii1i1i1", "BLOCK_M=64 BLOCK_N=64 BLOCK_K=32 GROUP_M=8", 4},
    {"attention.py", "attention", "pppppif", "D=64 BLOCK_M=64 BLOCK_N=64 CAUSAL=True", 4},
    {"attention.py", "attention_delta", "pppi", "D=64 BLOCK_M=64", 4},
    {"attention.py", "attention_backward_kv", "ppppppppif", "D=64 BLOCK_M=64 BLOCK_N=64 CAUSAL=True", 4},
    {"attention.py", "attention_backward_q", "pppppppif", "D=64 BLOCK_M=64 BLOCK_N=64 CAUSAL=True", 4},
    {"matmul.py", "matmul", "hhhiiii1i1i1", "BLOCK_M=128 BLOCK_N=128 BLOCK_K=64 GROUP_M=8", 8},
    {"attention.py", "attention", "hhhhpif", "D=64 BLOCK_M=64 BLOCK_N=64 CAUSAL=True", 4},
    {"attention.py", "attention_backward_kv", "hhhhpphhif", "D=64 BLOCK_M=64 BLOCK_N=64 CAUSAL=True", 4},
    {"attention.py", "attention_backward_q", "hhhhpphif", "D=64 BLOCK_M=64 BLOCK_N=64 CAUSAL=True", 4},
};
enum { KERNELS = sizeof kernels / sizeof kernels[0] };
static const char *type_of(int k) { return strchr(kernels[k].args, 'h') ? " f16" : ""; } /* f32 */

static void *memory; /* of the device: 64 KiB */

static int make_args(int k, nereid_arg *args, char *text) {
  int n = 0;
  for (const char *p = kernels[k].args; *p; p++)
    args[n++] = *p == 'p'   ? nereid_pointer(memory, NEREID_F32)
                : *p == 'h' ? nereid_pointer(memory, NEREID_F16)
                : *p == 'q' ? nereid_pointer(memory, NEREID_I64)
                : *p == 'i' ? nereid_int(4096)
                : *p == '1' ? nereid_int(1)
                            : nereid_float(0.5);
  strcpy(text, kernels[k].constexprs);
  for (char *word = strtok(text, " "); word; word = strtok(NULL, " ")) {
    char *equals = strchr(word, '=');
    *equals = 0;
    args[n++] = nereid_named(nereid_constexpr(equals + 1), word);
  }
  return n;
}

enum { ROUNDS = 5 };

static int ascending(const void *a, const void *b) {
  return *(const double *)a < *(const double *)b ? -1 : *(const double *)a > *(const double *)b;
}

static double median(double times[ROUNDS]) {
  qsort(times, ROUNDS, sizeof *times, ascending);
  return times[ROUNDS / 2];
}

static double start_us(const char *command) { /* the command's start to its end, printing its version */
  double best = 1e9;
  for (int i = 0; i < 20; i++) {
    char *argv[] = {(char *)command, "--version", NULL};
    posix_spawn_file_actions_t actions;
    pid_t pid;
    int status;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
    double start = now_us();
    if (posix_spawn(&pid, command, &actions, NULL, argv, environ)) return -1;
    waitpid(pid, &status, 0);
    double t = now_us() - start;
    posix_spawn_file_actions_destroy(&actions);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0 && t < best) best = t;
  }
  return best;
}

/* Of one program over 1024 elements: nereid_run of a compiled function, or nereid_launch, which looks the function up;
 * on the default stream, or one of its own. */
static double warm_launch_us(nereid_device *d, const char *dir, bool compiled, bool own_stream) {
  char path[512];
  nereid_error *err = NULL;
  nereid_module *m;
  nereid_function *f;
  nereid_stream *stream = NULL;
  if (own_stream && nereid_stream_create(d, &stream, &err)) die(err);
  snprintf(path, sizeof path, "%s/vector_add.py", dir);
  nereid_arg args[] = {nereid_pointer(memory, NEREID_F32), nereid_pointer(memory, NEREID_F32),
                       nereid_pointer(memory, NEREID_F32), nereid_int(1024), nereid_constexpr_int(1024)};
  args[4].name = "BLOCK";
  if (nereid_module_load(path, &m, &err) || nereid_compile(d, m, "vector_add", args, 5, NULL, &f, &err)) die(err);
  int64_t grid[3] = {1, 1, 1};
  /* 20,000 launches, in batches that fit a GPU's queue, which is emptied in between: what the host spends, not what the
   * GPU does. */
  enum { LAUNCHES = 20000, BATCH = 250 };
  double best = 1e9;
  for (int round = 0; round < 5; round++) {
    double t = 0;
    for (int batch = 0; batch < LAUNCHES / BATCH; batch++) {
      double start = now_us();
      for (int i = 0; i < BATCH; i++)
        if (compiled ? nereid_run(f, stream, grid, args, 5, &err)
                     : nereid_launch(d, stream, m, "vector_add", grid, args, 5, NULL, &err))
          die(err);
      t += now_us() - start;
      if (nereid_synchronize(d, &err)) die(err);
    }
    if (t / LAUNCHES < best) best = t / LAUNCHES;
  }
  nereid_function_free(f), nereid_module_free(m);
  if (stream) nereid_stream_destroy(stream);
  return best;
}

/* The same while a session records all of them; -1: there can be none here, as said on stderr. */
static double profiled_run_us(nereid_device *d, const char *dir, const char *folder) {
  char path[512];
  nereid_error *err = NULL;
  nereid_prof *p;
  nereid_prof_options o = {.count_work = true};
  snprintf(path, sizeof path, "%s/overhead.trace", folder);
  if (nereid_prof_start(path, &o, &p, &err)) {
    fputs(nereid_error_text(err), stderr);
    nereid_error_free(err);
    return -1;
  }
  double us = warm_launch_us(d, dir, true, false);
  if (nereid_prof_stop(p, &err)) die(err);
  return us;
}

static double children_ms(void) { /* on a processor */
  struct rusage r;
  getrusage(RUSAGE_CHILDREN, &r);
  return (double)(r.ru_utime.tv_sec + r.ru_stime.tv_sec) * 1e3 +
         (double)(r.ru_utime.tv_usec + r.ru_stime.tv_usec) * 1e-3;
}

static int number_after(const char *text, const char *words) {
  const char *at = strstr(text, words);
  return at ? atoi(at + strlen(words)) : 0;
}

/* The first summary asks ptxas, the others find what it made in the cache. */
static void measure_target(const char *dir, const char *target, bool json) {
  static char array[64] __attribute__((aligned(64)));
  nereid_error *err = NULL;
  memory = array;
  if (!json)
    printf("%-24s %12s %12s %12s %10s %8s %6s\n", "kernel", "to text ms", "ptxas ms", "of a cpu", "registers",
           "spilled", "warps");
  else printf("{\"target\":\"%s\",\"kernels\":[", target);
  for (int k = 0; k < KERNELS; k++) {
    char path[512], constexprs[256];
    nereid_arg args[24];
    nereid_options options = {.num_warps = kernels[k].warps};
    double first = 0, again = 1e9, cpu = 0;
    int registers = 0, spilled = 0, n = make_args(k, args, constexprs);
    snprintf(path, sizeof path, "%s/%s", dir, kernels[k].file);
    for (int round = 0; round < 4; round++) {
      nereid_module *m;
      char *text;
      double start = now_us(), children = children_ms();
      if (nereid_module_load(path, &m, &err) ||
          nereid_inspect(m, kernels[k].kernel, args, n, &options, "summary", target, &text, &err))
        die(err);
      double ms = (now_us() - start) / 1e3;
      if (!round)
        first = ms, cpu = children_ms() - children, registers = number_after(text, "registers "),
        spilled = number_after(text, "a thread, ");
      else if (ms < again) again = ms;
      free(text);
      nereid_module_free(m);
    }
    if (json)
      printf("%s{\"kernel\":\"%s\",\"constexprs\":\"%s%s\",\"warps\":%d,\"text_ms\":%.3f,\"ptxas_ms\":%.1f,\"ptxas_cpu_"
             "ms\":%.1f,\"registers\":%d,\"spill_bytes\":%d}",
             k ? ",\n" : "", kernels[k].kernel, kernels[k].constexprs, type_of(k), kernels[k].warps, again,
             first - again, cpu, registers, spilled);
    else
      printf("%-24s %12.2f %12.1f %12.1f %10d %8d %6d  %s%s\n", kernels[k].kernel, again, first - again, cpu, registers,
             spilled, kernels[k].warps, kernels[k].constexprs, type_of(k)),
          fflush(stdout);
  }
  if (json) printf("]}\n");
}

static void remove_folder(const char *path) {
  char *rm[] = {"rm", "-rf", (char *)path, NULL};
  pid_t pid;
  if (!posix_spawnp(&pid, "rm", NULL, NULL, rm, environ)) waitpid(pid, NULL, 0);
}

int main(int argc, char **argv) {
  const char *dir = "kernels", *command = "build/nereid", *device = "cpu", *target = NULL;
  bool json = false;
  for (int i = 1; i < argc; i++) {
    if (!strcmp(argv[i], "--json")) json = true;
    else if (!strcmp(argv[i], "--device") && i + 1 < argc) device = argv[++i];
    else if (!strcmp(argv[i], "--target") && i + 1 < argc) target = argv[++i];
    else if (!strcmp(argv[i], "--kernels") && i + 1 < argc) dir = argv[++i];
    else if (!strcmp(argv[i], "--command") && i + 1 < argc) command = argv[++i];
    else
      return fprintf(stderr,
                     "usage: %s [--device cpu | --target sm_90a] [--kernels DIR] [--command build/nereid] [--json]\n",
                     argv[0]),
             2;
  }
  char cache[] = "/tmp/nereid-overhead-XXXXXX";
  if (!mkdtemp(cache) || setenv("NEREID_CACHE_DIR", cache, 1)) die(NULL);
  if (target) {
    measure_target(dir, target, json);
    remove_folder(cache);
    return 0;
  }
  nereid_error *err = NULL;
  nereid_device *d;
  if (nereid_device_open(device, &d, &err) || nereid_alloc(d, 65536, &memory, &err)) die(err);
  if (!json)
    printf("%-24s %12s %12s %12s %12s %6s\n", "kernel", "to text ms", "compiler ms", "loaded ms", "peak KiB", "warps");
  else printf("{\"kernels\":[");
  double worst_text = 0, worst_cc = 0, worst_loaded = 0, worst_peak = 0;
  for (int k = 0; k < KERNELS; k++) {
    char path[512], text[256];
    nereid_arg args[24];
    snprintf(path, sizeof path, "%s/%s", dir, kernels[k].file);
    int n = make_args(k, args, text);
    nereid_options options = {.num_warps = kernels[k].warps};
    double text_ms = 1e9, compiler[ROUNDS], loaded[ROUNDS], peak = 0;
    for (int round = 0; round < ROUNDS; round++) {
      nereid_module *m;
      nereid_function *f;
      nereid_function_info info;
      char fresh[64];
      snprintf(fresh, sizeof fresh, "%s/%d-%d", cache, k, round);
      setenv("NEREID_CACHE_DIR", fresh, 1);
      double start = now_us();
      if (nereid_module_load(path, &m, &err) || nereid_compile(d, m, kernels[k].kernel, args, n, &options, &f, &err))
        die(err);
      nereid_function_get_info(f, &info);
      loaded[round] = (now_us() - start) / 1e3;
      compiler[round] = info.compiler_ms;
      if (info.front_ms + info.backend_ms < text_ms) text_ms = info.front_ms + info.backend_ms;
      peak = (double)info.peak_bytes / 1024;
      nereid_function_free(f), nereid_module_free(m);
    }
    double cc_ms = median(compiler), loaded_ms = median(loaded);
    if (json)
      printf("%s{\"kernel\":\"%s\",\"constexprs\":\"%s%s\",\"warps\":%d,\"text_ms\":%.3f,\"compiler_ms\":%.1f,\"loaded_"
             "ms\":%.1f,\"peak_kib\":%.0f}",
             k ? ",\n" : "", kernels[k].kernel, kernels[k].constexprs, type_of(k), kernels[k].warps, text_ms, cc_ms,
             loaded_ms, peak);
    else
      printf("%-24s %12.2f %12.1f %12.1f %12.0f %6d  %s%s\n", kernels[k].kernel, text_ms, cc_ms, loaded_ms, peak,
             kernels[k].warps, kernels[k].constexprs, type_of(k)),
          fflush(stdout);
    if (text_ms > worst_text) worst_text = text_ms;
    if (cc_ms > worst_cc) worst_cc = cc_ms;
    if (loaded_ms > worst_loaded) worst_loaded = loaded_ms;
    if (peak > worst_peak) worst_peak = peak;
  }
  double launch = warm_launch_us(d, dir, true, false), own = warm_launch_us(d, dir, true, true),
         found = warm_launch_us(d, dir, false, false), profiled = profiled_run_us(d, dir, cache),
         start = start_us(command);
  struct stat st = {0};
  stat(command, &st);
  if (json)
    printf("],\"warm_run_us\":%.3f,\"warm_run_own_stream_us\":%.3f,\"warm_launch_us\":%.3f,\"profiled_run_us\":%.3f,"
           "\"start_ms\":%.3f,\"command_bytes\":%ld}\n",
           launch, own, found, profiled, start / 1e3, (long)st.st_size);
  else {
    printf("%-24s %12.2f %12.1f %12.1f %12.0f\n", "worst", worst_text, worst_cc, worst_loaded, worst_peak);
    printf("\nwarm launch of one program: nereid_run %.2f us (on a stream of its own %.2f us), nereid_launch %.2f us, "
           "nereid_run in a profile of 100,000 %.2f us; `nereid --version` takes %.2f ms; the command is %.2f MiB\n",
           launch, own, found, profiled, start / 1e3, (double)st.st_size / 0x1p20);
  }
  nereid_free(d, memory);
  nereid_device_close(d);
  remove_folder(cache);
  return 0;
}
