/* replay_row: one recorded launch: its arguments made anew, compiled, run on the device and on the interpreter,
 * compared.
 *
 * A log says shapes and types, not contents. Floats are random normal numbers. Integers may be data or may be indices
 * into another array, and only the kernel knows: so several fills are tried in turn, until the interpreter, which sees
 * every access, stays within the arrays, and programs do not race. Where none does, the row's inputs cannot be
 * generated.
 *
 * Arrays may be gigabytes of which a few programs touch little: each stands only on the two devices, filled with a
 * repeated block of random elements and compared through a small buffer.
 *
 * Results agree when |device - interp| <= rtol * (|interp| + rms): rms is that of the interpreter's elements in the
 * parts of the array (CHUNK bytes) in which any bit differs, or of those that differ where that is more (the others may
 * be zeros that no program wrote over), rtol is the unit roundoff of the narrowest float type in
 * the row times what chains of roundings in another order may add (4 for narrow types, whose sums are fp32; 2^11 for
 * fp32 and fp64, whose sums are as long as the arrays).
 */
#include "replay.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef enum { INTS_SMALL, INTS_RISING, INTS_ONES, INTS_ZEROS, INT_FILLS } IntFill;

enum { PATTERN = 1 << 16, CHUNK = 1 << 20 }; /* elements that are repeated; bytes compared at a time */
typedef struct RowArray {
  bool is_array;
  Array shape;   /* no data */
  char *pattern; /* up to PATTERN elements */
  int64_t pattern_bytes;
  void *on_device, *on_interp;
  int64_t start; /* bytes before the element that the launch points to */
} RowArray;
typedef struct Row {
  const Json *json;
  int64_t number, grid[3];
  nereid_module *module;
  Recorded launch;
  RowArray *arrays; /* parallel to its args */
  double rtol;
  int64_t *programs;
  int64_t program_count;
  bool programs_wait; /* for each other: all of them run */
  int tf32_chain;
  double front_ms, backend_ms, compiler_ms, run_ms;
  int64_t peak_bytes;
  int registers, spill_bytes, shared_bytes; /* for a GPU's target */
  char detail[1024];
} Row;

const char *const replay_state_names[REPLAY_STATE_COUNT] = {
    "agrees", "compiled", "no inputs", "differs", "race", "run failed", "compile failed", "timeout", "crash"};

/* ---- arguments --------------------------------------------------------------------------------------------------- */

static const char *make_array(Row *row, int i, const Json *a, nereid_dtype t) {
  int64_t shape[MAX_DIMS], strides[MAX_DIMS];
  int rank, stride_rank;
  if (!replay_dims(json_get(a, "shape"), shape, &rank) || !replay_dims(json_get(a, "strides"), strides, &stride_rank) ||
      rank != stride_rank)
    return "has no shape or strides";
  row->arrays[i].is_array = true;
  int64_t start = 0; /* a dim whose stride is negative begins at its end */
  for (int d = 0; d < rank; d++) {
    if (strides[d] >= 0) continue;
    strides[d] = strides[d] == INT64_MIN ? INT64_MAX : -strides[d];
    int64_t extent;
    if (shape[d] > 0 &&
        (__builtin_mul_overflow(shape[d] - 1, strides[d], &extent) || __builtin_add_overflow(start, extent, &start)))
      return "is too large";
  }
  const char *why = array_describe(&row->arrays[i].shape, t, rank, shape, strides);
  row->arrays[i].start = why ? 0 : start * (int64_t)nereid_dtype_bytes(t); /* within the array's bytes */
  return why;
}

static bool make_args(Row *row) {
  Recorded *l = &row->launch;
  if (!recorded_read(l, row->detail, sizeof row->detail)) return false;
  row->arrays = calloc((size_t)l->count + 1, sizeof *row->arrays);
  if (!row->arrays) return snprintf(row->detail, sizeof row->detail, "out of memory"), false;
  for (int i = 0; i < l->count; i++) {
    if (l->args[i].kind != NEREID_ARG_POINTER && l->args[i].kind != NEREID_ARG_DESCRIPTOR) continue;
    const char *why = make_array(row, i, l->nodes[i], l->args[i].dtype);
    if (why) return snprintf(row->detail, sizeof row->detail, "argument %d %s", i, why), false;
  }
  return true;
}

/* For a launch with addresses of its own; NULL: out of memory. */
static nereid_arg *copy_args(const Row *row) {
  nereid_arg *args = malloc(sizeof *args * (size_t)(row->launch.count + 1));
  for (int i = 0; args && i < row->launch.count; i++) {
    args[i] = row->launch.args[i];
    if (args[i].kind == NEREID_ARG_TUPLE) args[i].items = args + (row->launch.args[i].items - row->launch.args);
  }
  return args;
}

/* ---- contents ---------------------------------------------------------------------------------------------------- */

static bool is_float(nereid_dtype t) { return t >= NEREID_F8E5; }

/* What a recorder has seen in the array: all of its elements, side by side. False: it was not recorded. */
static bool fill_recorded(RowArray *a, const Json *values) {
  nereid_dtype t = a->shape.dtype;
  int64_t item = (int64_t)nereid_dtype_bytes(t), n = a->shape.bytes / item;
  int64_t count = values && values->kind == JSON_ARRAY ? values->count : 0;
  if (!count || count != n) return false;
  a->pattern_bytes = count * item;
  if (!a->pattern && !(a->pattern = malloc((size_t)a->pattern_bytes + 1))) return false;
  char *at = a->pattern;
  for (const Json *v = values->first; v; v = v->next, at += item) {
    if (!is_float(t) && v->kind == JSON_INT) memcpy(at, &v->i, (size_t)item); /* little-endian, all bits of it */
    else nereid_dtype_store(t, at, v->kind == JSON_BOOL ? (double)v->i : v->f);
  }
  return true;
}

static bool fill_pattern(RowArray *a, IntFill ints, uint64_t seed) {
  Random r;
  random_seed(&r, seed);
  nereid_dtype t = a->shape.dtype;
  int64_t item = (int64_t)nereid_dtype_bytes(t), n = a->shape.bytes / item, count = n < PATTERN ? n : PATTERN;
  bool small_int = !is_float(t) && item == 1;
  a->pattern_bytes = count * item;
  if (!a->pattern && !(a->pattern = malloc((size_t)a->pattern_bytes + 1))) return false;
  for (int64_t i = 0; i < count; i++) {
    double v;
    if (is_float(t)) v = random_normal(&r);
    else if (t == NEREID_I1) v = (double)(random_bits(&r) >> 63);
    else if (ints == INTS_ZEROS) v = 0;
    else if (ints == INTS_ONES) v = 1;
    else if (small_int) v = floor(random_uniform(&r) * 256) - (t == NEREID_I8 ? 128 : 0);
    else if (ints == INTS_SMALL) v = floor(random_uniform(&r) * 8);
    else v = (double)i;
    nereid_dtype_store(t, a->pattern + i * item, v);
  }
  return true;
}

static nereid_status upload(nereid_device *d, const RowArray *a, void **p, nereid_error **err) {
  nereid_status status = nereid_alloc(d, a->shape.bytes, p, err);
  for (int64_t at = 0; at < a->shape.bytes && !status; at += a->pattern_bytes) {
    int64_t left = a->shape.bytes - at;
    status =
        nereid_copy_to_device(d, (char *)*p + at, a->pattern, left < a->pattern_bytes ? left : a->pattern_bytes, err);
  }
  return status;
}

static bool has_int_arrays(const Row *row) {
  for (int i = 0; i < row->launch.count; i++)
    if (row->arrays[i].is_array && !is_float(row->arrays[i].shape.dtype) && row->arrays[i].shape.dtype != NEREID_I1)
      return true;
  return false;
}

/* ---- running ----------------------------------------------------------------------------------------------------- */

static void free_on(nereid_device *d, Row *row, bool interp) {
  for (int i = 0; i < row->launch.count && row->arrays; i++) {
    void **p = interp ? &row->arrays[i].on_interp : &row->arrays[i].on_device;
    if (*p) nereid_free(d, *p);
    *p = NULL;
  }
}

/* Copies the arrays to the device and runs the row's programs there. */
static nereid_status run_on(nereid_device *d, Row *row, bool interp, bool races, nereid_error **err) {
  nereid_arg *args = copy_args(row);
  if (!args) return NEREID_OUT_OF_MEMORY;
  nereid_status status = NEREID_OK;
  for (int i = 0; i < row->launch.count && !status; i++) {
    RowArray *a = &row->arrays[i];
    void **p = interp ? &a->on_interp : &a->on_device;
    if (!a->is_array) continue;
    status = upload(d, a, p, err);
    args[i].pointer = (char *)*p + a->start;
  }
  const Json *meta = json_get(row->json, "meta");
  nereid_options options = {.no_autotune = true,
                            .num_warps = (int)json_get_int(meta, "num_warps", 0),
                            .num_stages = (int)json_get_int(meta, "num_stages", 0),
                            .num_ctas = (int)json_get_int(meta, "num_ctas", 0),
                            .check_races = races,
                            .allow_unwritten = true,
                            .programs = row->programs,
                            .program_count = row->program_count};
  nereid_function *f = NULL;
  if (!status)
    status = nereid_compile(d, row->module, json_get_text(row->json, "kernel", ""), args, row->launch.given, &options,
                            &f, err);
  if (!status && !interp) {
    nereid_function_info info;
    nereid_function_get_info(f, &info);
    row->front_ms = info.front_ms, row->backend_ms = info.backend_ms, row->compiler_ms = info.compiler_ms,
    row->peak_bytes = info.peak_bytes;
  }
  int64_t start = now_ns();
  if (!status) status = nereid_run(f, NULL, row->grid, args, row->launch.given, err);
  if (!status && !interp) row->run_ms = (double)(now_ns() - start) / 1e6;
  nereid_function_free(f);
  free(args);
  return status;
}

/* To a GPU's machine code; *row gets its figures. */
static nereid_status assemble_row(Replayer *r, Row *row, const nereid_arg *args, const nereid_options *options,
                                  nereid_error **err) {
  nereid_report_options how = {.target = r->options->target, .occupancy_only = true};
  nereid_report *report = NULL;
  nereid_status status = nereid_report_launch(row->module, json_get_text(row->json, "kernel", ""), NULL, args,
                                              row->launch.given, options, &how, &report, err);
  if (status) return status;
  row->registers = report->registers;
  row->spill_bytes = report->spill_bytes;
  row->shared_bytes = report->shared_bytes;
  nereid_report_free(report);
  return NEREID_OK;
}

static nereid_status compile_row(Replayer *r, Row *row, nereid_error **err) {
  const Json *meta = json_get(row->json, "meta");
  nereid_options options = {.no_autotune = true,
                            .num_warps = (int)json_get_int(meta, "num_warps", 0),
                            .num_stages = (int)json_get_int(meta, "num_stages", 0),
                            .num_ctas = (int)json_get_int(meta, "num_ctas", 0)};
  nereid_arg *args = copy_args(row);
  if (!args) return NEREID_OUT_OF_MEMORY;
  for (int i = 0; i < row->launch.count; i++) {
    static char aligned[64] __attribute__((aligned(64)));
    if (row->arrays[i].is_array) args[i].pointer = aligned; /* as what is run later will be */
  }
  nereid_status status;
  if (r->options->compile_only) {
    char *text = NULL;
    int64_t start = now_ns();
    if (r->options->target) status = assemble_row(r, row, args, &options, err);
    else
      status = nereid_inspect(row->module, json_get_text(row->json, "kernel", ""), args, row->launch.given, &options,
                              "c", "host", &text, err);
    row->front_ms = (double)(now_ns() - start) / 1e6;
    free(text);
  } else {
    nereid_function *f = NULL;
    status = nereid_compile(r->device, row->module, json_get_text(row->json, "kernel", ""), args, row->launch.given,
                            &options, &f, err);
    if (!status) {
      nereid_function_info info;
      nereid_function_get_info(f, &info);
      row->front_ms = info.front_ms, row->backend_ms = info.backend_ms, row->compiler_ms = info.compiler_ms,
      row->peak_bytes = info.peak_bytes, row->programs_wait = info.programs_wait, row->tf32_chain = info.tf32_chain;
    }
    nereid_function_free(f);
  }
  free(args);
  return status;
}

static void choose_programs(Row *row, int64_t max) {
  int64_t total = row->grid[0] * row->grid[1] * row->grid[2];
  row->programs = NULL, row->program_count = 0;
  if (total <= max || !(row->programs = malloc(sizeof(int64_t) * (size_t)max))) return;
  Random r;
  random_seed(&r, (uint64_t)row->number);
  row->programs[0] = 0, row->programs[1] = total - 1;
  for (row->program_count = 2; row->program_count < max;) {
    int64_t p = (int64_t)(random_bits(&r) % (uint64_t)total);
    bool seen = false;
    for (int64_t i = 0; i < row->program_count; i++) seen |= row->programs[i] == p;
    if (!seen) row->programs[row->program_count++] = p;
  }
}

/* ---- comparing --------------------------------------------------------------------------------------------------- */

static double unit_roundoff(nereid_dtype t) {
  switch (t) {
    case NEREID_F64: return 0x1p-53;
    case NEREID_F32: return 0x1p-24;
    case NEREID_F16: return 0x1p-11;
    case NEREID_BF16: return 0x1p-8;
    case NEREID_F8E5:
    case NEREID_F8E5B16: return 0x1p-3;
    default: return is_float(t) ? 0x1p-4 : 0;
  }
}

static double row_tolerance(const Row *row) {
  double u = 0;
  for (int i = 0; i < row->launch.count; i++)
    if (row->arrays[i].is_array && unit_roundoff(row->arrays[i].shape.dtype) > u)
      u = unit_roundoff(row->arrays[i].shape.dtype);
  for (int i = 0; i < row->launch.count; i++) { /* types the kernel is told to compute in */
    if (!row->launch.texts[i]) continue;
    if (strstr(row->launch.texts[i], "bfloat16") && u < 0x1p-8) u = 0x1p-8;
    if (strstr(row->launch.texts[i], "language.float16") && u < 0x1p-11) u = 0x1p-11;
  }
  if (u < 0x1p-24) u = 0x1p-24;
  return u <= 0x1p-24 ? u * 0x1p11 : u * 4;
}

/* One pass over what the devices left in an array. */
typedef struct Comparison {
  bool differs;                /* in any bit */
  double squares, squares_off; /* of the interpreter's finite elements; of those that differ */
  /* elements: in the parts that differ; one_off: mismatches of integers by one */
  int64_t finite, finite_off, elements, mismatches, one_off, worst_at;
  double worst, got, want; /* excess over the tolerance, and the two values there */
} Comparison;

static void compare_chunk(Comparison *c, nereid_dtype t, const char *got, const char *want, int64_t first, int64_t n,
                          double rtol, double atol) {
  int64_t item = (int64_t)nereid_dtype_bytes(t);
  c->elements += n;
  for (int64_t i = 0; i < n; i++) {
    double g = nereid_dtype_load(t, got + i * item), w = nereid_dtype_load(t, want + i * item);
    if (isfinite(w)) c->squares += w * w, c->finite++;
    if (g == w || (isnan(g) && isnan(w))) continue;
    if (isfinite(w)) c->squares_off += w * w, c->finite_off++;
    if (atol < 0) continue;
    double excess = fabs(g - w) / (atol + rtol * fabs(w));
    if (!isfinite(g) || !isfinite(w)) excess = INFINITY;
    c->mismatches += !(excess <= 1);
    c->one_off += !is_float(t) && fabs(g - w) == 1;
    if (c->worst_at < 0 || excess > c->worst) c->worst_at = first + i, c->worst = excess, c->got = g, c->want = w;
  }
}

/* atol below zero: only whether bits differ, and the sum of squares where they do. */
static bool compare_pass(Replayer *r, const RowArray *a, double rtol, double atol, char *buffer, Comparison *c,
                         nereid_error **err) {
  int64_t item = (int64_t)nereid_dtype_bytes(a->shape.dtype);
  *c = (Comparison){.worst_at = -1};
  for (int64_t at = 0; at < a->shape.bytes; at += CHUNK) {
    int64_t n = a->shape.bytes - at < CHUNK ? a->shape.bytes - at : CHUNK;
    if (nereid_copy_to_host(r->device, buffer, (char *)a->on_device + at, n, err) ||
        nereid_copy_to_host(r->interp, buffer + CHUNK, (char *)a->on_interp + at, n, err))
      return false;
    if (!memcmp(buffer, buffer + CHUNK, (size_t)n)) continue;
    c->differs = true;
    compare_chunk(c, a->shape.dtype, buffer, buffer + CHUNK, at / item, n / item, rtol, atol);
  }
  return true;
}

static bool has_float_arrays(const Row *row) {
  for (int i = 0; i < row->launch.count; i++)
    if (row->arrays[i].is_array && is_float(row->arrays[i].shape.dtype)) return true;
  return false;
}

/* Compares what the two devices left in array i; true when they agree. */
static bool compare_array(Replayer *r, Row *row, int i, char *buffer, nereid_error **err) {
  RowArray *a = &row->arrays[i];
  Comparison c;
  if (!compare_pass(r, a, 0, -1, buffer, &c, err)) return false;
  if (!c.differs) return true;
  double rms = c.finite ? sqrt(c.squares / (double)c.finite) : 0;
  if (c.finite_off) rms = fmax(rms, sqrt(c.squares_off / (double)c.finite_off));
  double rtol = is_float(a->shape.dtype) ? row->rtol : 0;
  if (!compare_pass(r, a, rtol, rtol * rms + 1e-300, buffer, &c, err)) return false;
  if (!c.mismatches) return true;
  /* A float that is cut to an integer may stand at a step's edge, and fall to its other side when it is an ulp off (a
   * GPU's division is): of integers made from floats, one in fifty may be one off. */
  if (c.mismatches == c.one_off && c.one_off * 50 <= c.elements && has_float_arrays(row)) return true;
  snprintf(row->detail, sizeof row->detail,
           "%s: %ld of %ld elements looked at differ, worst at %ld: %.9g, interp %.9g (rtol %.2g, rms %.3g)",
           row->launch.args[i].name ? row->launch.args[i].name : "an item of a tuple", (long)c.mismatches,
           (long)c.elements, (long)c.worst_at, c.got, c.want, rtol, rms);
  return false;
}

static void keep_error(Row *row, nereid_error *err) {
  const char *file = NULL, *text = err ? nereid_error_message(err) : "out of memory";
  int line = 0, column = 0;
  if (err) nereid_error_place(err, &file, &line, &column);
  const char *base = file && strrchr(file, '/') ? strrchr(file, '/') + 1 : file;
  if (file) snprintf(row->detail, sizeof row->detail, "%s (%s:%d)", text, base, line);
  else snprintf(row->detail, sizeof row->detail, "%s", text);
  nereid_error_free(err);
}

/* The row with its integers filled so. NO_INPUTS: the interpreter left the arrays; RACE: results depend on who is
 * first. */
static ReplayState try_fill(Replayer *r, Row *row, IntFill fill) {
  nereid_error *err = NULL;
  for (int i = 0; i < row->launch.count; i++)
    if (row->arrays[i].is_array && !fill_recorded(&row->arrays[i], json_get(row->launch.nodes[i], "values")) &&
        !fill_pattern(&row->arrays[i], fill, (uint64_t)(row->number * 100 + i)))
      return snprintf(row->detail, sizeof row->detail, "out of memory"), REPLAY_RUN_FAILED;
  nereid_status status = run_on(r->interp, row, true, false, &err);
  if (status) return keep_error(row, err), status == NEREID_KERNEL_FAULT ? REPLAY_NO_INPUTS : REPLAY_RUN_FAILED;
  status = run_on(r->device, row, false, false, &err);
  if (status) return keep_error(row, err), REPLAY_RUN_FAILED;
  char *buffer = malloc(2 * CHUNK);
  bool same = buffer != NULL;
  for (int i = 0; i < row->launch.count && same; i++)
    if (row->arrays[i].is_array) same = compare_array(r, row, i, buffer, &err);
  free(buffer);
  if (err) return keep_error(row, err), REPLAY_RUN_FAILED;
  if (same) return REPLAY_AGREES;
  free_on(r->interp, row, true);
  status = run_on(r->interp, row, true, true, &err);
  if (status == NEREID_KERNEL_FAULT) return keep_error(row, err), REPLAY_RACE;
  nereid_error_free(err);
  return REPLAY_DIFFERS;
}

static ReplayState do_row(Replayer *r, Row *row) {
  nereid_error *err = NULL;
  const Json *grid = json_get(row->json, "grid");
  if (!make_args(row)) return REPLAY_COMPILE_FAILED;
  int i = 0;
  row->grid[0] = row->grid[1] = row->grid[2] = 1;
  for (const Json *g = grid ? grid->first : NULL; g && i < 3; g = g->next) row->grid[i++] = g->i;
  nereid_status status = recorded_load(&row->launch, &row->module, &err);
  if (!status) status = compile_row(r, row, &err);
  if (status) return keep_error(row, err), REPLAY_COMPILE_FAILED;
  if (r->options->compile_only) return REPLAY_COMPILED;
  choose_programs(row, row->programs_wait ? INT64_MAX : r->options->max_programs);
  row->rtol = row_tolerance(row);
  row->rtol = fmax(row->rtol, row->tf32_chain * TF32_TOLERANCE);
  ReplayState state = REPLAY_NO_INPUTS, best = REPLAY_NO_INPUTS;
  int fills = has_int_arrays(row) ? INT_FILLS : 1;
  for (int fill = 0; fill < fills && (state == REPLAY_NO_INPUTS || state == REPLAY_RACE); fill++) {
    char detail[sizeof row->detail];
    snprintf(detail, sizeof detail, "%s", row->detail);
    state = try_fill(r, row, (IntFill)fill);
    if (state == REPLAY_NO_INPUTS && best == REPLAY_RACE) snprintf(row->detail, sizeof row->detail, "%s", detail);
    else best = state;
    free_on(r->interp, row, true), free_on(r->device, row, false);
  }
  return best;
}

void replay_begin_row(JsonWriter *w, int64_t number, const Json *row, ReplayState state, const char *detail) {
  json_begin_object(w, NULL);
  json_put_int(w, "row", number);
  json_put_text(w, "file", json_get_text(row, "file", ""));
  json_put_text(w, "kernel", json_get_text(row, "kernel", ""));
  json_put_bool(w, "triton_builds", !json_get(row, "triton_error"));
  json_put_text(w, "state", replay_state_names[state]);
  json_put_text(w, "detail", detail);
  const Json *count = json_get(row, "count"), *from = json_get(row, "from"), *most = from ? from->first : NULL;
  if (count) json_put_int(w, "launches", json_get_int(row, "count", 1));
  for (const Json *place = most; place; place = place->next)
    if (place->i > most->i) most = place;
  if (most && most->key) json_put_text(w, "from", most->key);
}

void replay_row(Replayer *r, const Json *json, int64_t number, FILE *out) {
  Row row = {
      .json = json,
      .number = number,
      .launch = {.row = json, .root = r->options->root, .defines = &r->options->defines},
  };
  int64_t start = now_ns();
  ReplayState state = do_row(r, &row);
  free_on(r->interp, &row, true), free_on(r->device, &row, false);
  JsonWriter w = {.file = out};
  replay_begin_row(&w, number, json, state, state == REPLAY_AGREES || state == REPLAY_COMPILED ? "" : row.detail);
  if (r->options->target && state == REPLAY_COMPILED) {
    const Json *triton = json_get(json, "triton");
    json_put_int(&w, "registers", row.registers);
    json_put_int(&w, "spill_bytes", row.spill_bytes);
    json_put_int(&w, "shared_bytes", row.shared_bytes);
    json_put_int(&w, "triton_registers", json_get_int(triton, "regs", 0));
    json_put_int(&w, "triton_spills", json_get_int(triton, "spills", 0));
  }
  json_put_fixed(&w, "front_ms", 3, row.front_ms);
  json_put_fixed(&w, "backend_ms", 3, row.backend_ms);
  json_put_fixed(&w, "compiler_ms", 1, row.compiler_ms);
  json_put_int(&w, "peak_bytes", row.peak_bytes);
  json_put_fixed(&w, "run_ms", 3, row.run_ms);
  json_put_fixed(&w, "seconds", 2, (double)(now_ns() - start) / 1e9);
  json_end_object(&w);
  fputc('\n', out);
  fflush(out);
  for (int i = 0; i < row.launch.count && row.arrays; i++) free(row.arrays[i].pattern);
  free(row.arrays), free(row.programs);
  nereid_module_free(row.module);
  recorded_free(&row.launch);
}
