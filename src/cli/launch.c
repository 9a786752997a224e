/* launch: the part of a command line that names a kernel and its arguments.
 *
 *     FILE.py[:KERNEL] ARG=SPEC ...                   or FILE.cu[:KERNEL], a kernel of CUDA C; of a template
 *                                                     FILE.cu:KERNEL<float>
 *
 *     4096  -3  0x10  2^20  1e-5  inf  true  none     a number as it is; with a type before it (i64:7, f64:0.5) of that
 *                                                     type
 *     randn:f32[4096,781]                             an array: also rand zeros ones empty arange full(V)
 *                                                     randint(LO,HI); a dimension may be an expression over the
 *                                                     numbers given so far
 *     randn:f32[64,32|128,1]                          with strides, in elements
 *     like:NAME                                       zeros, shaped and typed as that array
 *     @FILE.safetensors:NAME                          a tensor of such a file
 *     @FILE.npy   @FILE.npy:bf16                      an array from a file; the second form reads the bits as that type
 *     desc[64,32]:ARRAY                               a tensor descriptor over the array with blocks of that shape
 *     anything else, for a constexpr parameter        a Python expression: 'relu', tl.float16, (1, 2)
 */
#include "cli.h"

#include "base/base.h"
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static int wrong(const Launch *l, const LaunchArg *a, const char *why) {
  return usage_error(l->verb, "%s=%s: %s", a->name, a->spec, why);
}

LaunchArg *launch_arg(Launch *l, const char *name) {
  for (int i = 0; i < l->arg_count; i++)
    if (!strcmp(l->args[i].name, name)) return &l->args[i];
  return NULL;
}

/* ---- numbers ----------------------------------------------------------------------------------------------------- */

static bool parse_integer(const char *s, int64_t *out, bool *is_unsigned) {
  char *end;
  *is_unsigned = false;
  errno = 0;
  bool negative = *s == '-';
  const char *digits = s + negative;
  if (!isdigit((unsigned char)*digits)) return false;
  unsigned long long v = strtoull(digits, &end, 0);
  if (errno) return false;
  if (*end == '^' && isdigit((unsigned char)end[1])) { /* 2^20 */
    unsigned long long base = v, power = strtoull(end + 1, &end, 10);
    for (v = 1; power; power--)
      if (__builtin_mul_overflow(v, base, &v)) return false;
  }
  if (*end) return false;
  if (v > (unsigned long long)INT64_MAX + negative) {
    if (negative) return false;
    *is_unsigned = true;
  }
  *out = negative ? (int64_t)(0 - v) : (int64_t)v;
  return true;
}

/* Digits that parse_integer may find too many; as a float they would be another number. */
static bool looks_whole(const char *s) {
  s += *s == '-';
  bool hex = s[0] == '0' && (s[1] == 'x' || s[1] == 'X');
  return *s && !s[strspn(s, hex ? "xX0123456789abcdefABCDEF" : "0123456789^")];
}

static double as_float(int64_t i, bool is_unsigned) { return is_unsigned ? (double)(uint64_t)i : (double)i; }

static bool parse_float(const char *s, double *out) {
  char *end;
  if (!*s || isspace((unsigned char)*s)) return false;
  *out = strtod(s, &end);
  return *end == 0;
}

/* Here 2^20 is a power, as people write it in a shell; in Python's expressions that is 2**20. */
static char *power_signs(const char *text) {
  char *out = malloc(2 * strlen(text) + 1), *o = out;
  for (; out && *text; text++) {
    if (*text == '^') *o++ = '*', *o++ = '*';
    else *o++ = *text;
  }
  if (out) *o = 0;
  return out;
}

int launch_numbers(const Launch *l, const char **names, double *values) {
  int n = 0;
  for (int i = 0; i < l->arg_count; i++) {
    const nereid_arg *a = &l->args[i].arg;
    double v;
    int64_t iv;
    bool u;
    if (l->args[i].is_array) continue;
    if (a->kind == NEREID_ARG_INT || a->kind == NEREID_ARG_BOOL) v = (double)a->i;
    else if (a->kind == NEREID_ARG_FLOAT) v = a->f;
    else if (a->kind == NEREID_ARG_CONSTEXPR && !a->text) v = (double)a->i;
    else if (a->kind == NEREID_ARG_CONSTEXPR && parse_integer(a->text, &iv, &u)) v = as_float(iv, u);
    else if (a->kind == NEREID_ARG_CONSTEXPR && parse_float(a->text, &v)) (void)0;
    else continue;
    names[n] = l->args[i].name, values[n++] = v;
  }
  return n;
}

static int eval_numbers(const Launch *l, const char *text, int64_t *out, nereid_error **err) {
  const char **names = malloc(sizeof *names * (size_t)(l->arg_count + 1));
  double *values = malloc(sizeof *values * (size_t)(l->arg_count + 1));
  int n = names && values ? launch_numbers(l, names, values) : 0;
  char *python = power_signs(text);
  int failed = names && values && python ? nereid_eval(python, n, names, values, out, err) != NEREID_OK : 1;
  free(names), free(values), free(python);
  return failed;
}

int launch_eval(const Launch *l, const char *text, int64_t *out) {
  nereid_error *err = NULL;
  return eval_numbers(l, text, out, &err) ? report_error(err) : 0;
}

/* Calls each(arg, i, text) for the parts of `text` between commas that stand outside brackets. Returns how many, or -1.
 */
static int split_commas(const char *text, char *parts[], int max) {
  int depth = 0, n = 0;
  const char *start = text;
  for (const char *p = text;; p++) {
    if (*p == '(' || *p == '[') depth++;
    if (*p == ')' || *p == ']') depth--;
    if (*p && !(*p == ',' && depth == 0)) continue;
    if (n == max) return -1;
    parts[n++] = format_string("%.*s", (int)(p - start), start);
    if (!*p) return n;
    start = p + 1;
  }
}

int launch_grid(const Launch *l, const char *text, int64_t grid[3]) {
  char *parts[3] = {0};
  int n = split_commas(text, parts, 3), status = 0;
  if (n < 0) status = usage_error(l->verb, "--grid %s: a grid has at most three dimensions", text);
  grid[0] = grid[1] = grid[2] = 1;
  for (int i = 0; i < n && !status; i++) status = launch_eval(l, parts[i], &grid[i]);
  for (int i = 0; i < 3; i++) free(parts[i]);
  return status;
}

static int grid_dims(const Launch *l, const char *text) { /* 0, or an exit status */
  char *parts[3] = {0};
  int n = split_commas(text, parts, 3);
  for (int i = 0; i < 3; i++) free(parts[i]);
  return n < 0 ? usage_error(l->verb, "--grid %s: a grid has at most three dimensions", text) : 0;
}

static bool is_param(const Launch *l, const char *name, size_t n) {
  for (int i = 0; i < l->kernel->param_count; i++)
    if (strlen(l->kernel->params[i].name) == n && !strncmp(l->kernel->params[i].name, name, n)) return true;
  return false;
}

int launch_grid_text(const Launch *l, const char *text, char **out_text) {
  int status = grid_dims(l, text);
  char *python = status ? NULL : power_signs(text), *out = NULL;
  size_t size = 0;
  FILE *f = python ? open_memstream(&out, &size) : NULL;
  for (const char *p = python; f && *p;) {
    size_t n = 0;
    while (isalnum((unsigned char)p[n]) || p[n] == '_') n++;
    const LaunchArg *a = NULL;
    for (int i = 0; i < l->arg_count && n && !is_param(l, p, n); i++)
      if (strlen(l->args[i].name) == n && !strncmp(l->args[i].name, p, n) && !l->args[i].is_array) a = &l->args[i];
    if (a && a->arg.kind == NEREID_ARG_FLOAT) fprintf(f, "(%.17g)", a->arg.f);
    else if (a) fprintf(f, "(%lld)", (long long)a->arg.i);
    else fwrite(p, 1, n ? n : 1, f);
    p += n ? n : 1;
  }
  if (f && fclose(f)) free(out), out = NULL;
  free(python);
  *out_text = out;
  return status ? status : out ? 0 : report_error(NULL);
}

/* ---- arrays ------------------------------------------------------------------------------------------------------ */

/* "4,n,8" -> dims; returns their number or -1 after a message. */
static int parse_dims(Launch *l, LaunchArg *a, const char *text, size_t n, int64_t *dims) {
  char *copy = format_string("%.*s", (int)n, text), *parts[MAX_DIMS] = {0};
  int count = copy && *copy ? split_commas(copy, parts, MAX_DIMS) : 0;
  if (count < 0) wrong(l, a, "more than eight dimensions");
  for (int i = 0; i < count; i++) {
    nereid_error *err = NULL;
    if (eval_numbers(l, parts[i], &dims[i], &err)) {
      report_error(err);
      wrong(l, a, "this dimension is no number");
      count = -1;
    }
  }
  for (int i = 0; i < MAX_DIMS; i++) free(parts[i]);
  free(copy);
  return count;
}

/* clang-format off */
static const struct { const char *name; Fill fill; int numbers; } fills[] = {
    {"randn", FILL_RANDN, 0}, {"rand", FILL_RAND, 0}, {"zeros", FILL_ZEROS, 0}, {"ones", FILL_ONES, 0},
    {"full", FILL_FULL, 1},   {"arange", FILL_ARANGE, 0}, {"randint", FILL_RANDINT, 2}, {"empty", FILL_EMPTY, 0},
};
/* clang-format on */

/* For `bench` a large array repeats a million random numbers, which are made sooner than as many as a GPU's memory
 * holds. */
static const char *make_repeated(Array *a, nereid_dtype t, int rank, const int64_t *shape, Fill fill, double lo,
                                 double hi, Random *r) {
  const int64_t most = 1 << 20;
  const char *why = array_describe(a, t, rank, shape, NULL);
  if (why || array_count(a) <= most) return why ? why : array_make(a, t, rank, shape, NULL, fill, lo, hi, r);
  Array part = {0};
  if ((why = array_make(&part, t, 1, &most, NULL, fill, lo, hi, r))) return why;
  a->data = malloc((size_t)a->bytes + 64);
  for (int64_t at = 0; a->data && at < a->bytes; at += part.bytes)
    memcpy((char *)a->data + at, part.data, (size_t)(a->bytes - at < part.bytes ? a->bytes - at : part.bytes));
  array_free(&part);
  return a->data ? NULL : "does not fit in memory";
}

bool is_integer_type(nereid_dtype t) { return t < NEREID_F8E5; }

enum { MOST_FILLED = 64 << 20 }; /* bytes: larger ones are hardly tables or indices, and would take a second */

/* For `inspect` an array of any size is a type, a shape and an aligned address that nobody reads; but a report goes by
 * what lengths, tables and indices hold. */
static const char *make_array(const Launch *l, Array *a, nereid_dtype t, int rank, const int64_t *shape,
                              const int64_t *strides, Fill fill, double lo, double hi, Random *r) {
  bool random = fill == FILL_RANDN || fill == FILL_RAND || fill == FILL_RANDINT;
  const char *why = array_describe(a, t, rank, shape, strides);
  bool fills = !l->shapes_only || (!why && l->fills_integers && is_integer_type(t) && a->bytes <= MOST_FILLED);
  if (l->repeats_data && random && !strides && fills) return make_repeated(a, t, rank, shape, fill, lo, hi, r);
  if (fills) return array_make(a, t, rank, shape, strides, fill, lo, hi, r);
  if (!why && !(a->data = aligned_alloc(64, 64))) why = "does not fit in memory";
  a->is_stand_in = true;
  return why;
}

/* Whether an integer of this type is exactly v, which is a double. */
static bool holds(nereid_dtype t, double v) {
  int64_t place = 0;
  if (!(fabs(v) <= 9007199254740992.0)) return false; /* 2^53 */
  nereid_dtype_store(t, &place, v);
  return nereid_dtype_load(t, &place) == v;
}

/* "randn:f32[4,8]": 0 done, 1 wrong and said so, -1 not of this form. */
static int parse_generated(Launch *l, LaunchArg *a, const char *spec) {
  for (size_t k = 0; k < sizeof fills / sizeof fills[0]; k++) {
    size_t n = strlen(fills[k].name);
    if (strncmp(spec, fills[k].name, n) || (spec[n] != ':' && spec[n] != '(')) continue;
    const char *p = spec + n;
    double v[2] = {0, 0};
    if (fills[k].numbers) {
      if (*p++ != '(')
        return wrong(l, a, "this kind of array takes its numbers in brackets: full(0.5):f32[8], randint(0,10):i32[8]");
      for (int i = 0; i < fills[k].numbers; i++) {
        char *end;
        v[i] = strtod(p, &end);
        if (end == p || *end != (i + 1 < fills[k].numbers ? ',' : ')'))
          return wrong(l, a, "a number is missing in the brackets");
        p = end + 1;
      }
    }
    if (*p++ != ':')
      return wrong(l, a, "after the kind of array stand a colon, a type and a shape, as in randn:f32[64,32]");
    const char *open = strchr(p, '['), *close = open ? strrchr(open, ']') : NULL,
               *bar = open ? strchr(open, '|') : NULL;
    if (!open || !close || close[1]) return wrong(l, a, "the shape stands in square brackets, as in randn:f32[64,32]");
    nereid_dtype t;
    char *type = format_string("%.*s", (int)(open - p), p);
    bool known = type && nereid_dtype_parse(type, &t);
    free(type);
    if (!known)
      return wrong(l, a, "unknown type; there are i1 i8 i16 i32 i64 u8 u16 u32 u64 f16 bf16 f32 f64 fp8e5 fp8e4nv");
    bool is_range = fills[k].fill == FILL_RANDINT;
    if (is_range && !(v[0] < v[1])) return wrong(l, a, "no number is at least the first and below the second");
    for (int i = 0; i < fills[k].numbers; i++)
      if (is_integer_type(t) && !holds(t, v[i] - (is_range && i)))
        return wrong(l, a, "a number in the brackets is none of this type, or beyond 2^53");
    int64_t shape[MAX_DIMS], strides[MAX_DIMS];
    const char *shape_end = bar ? bar : close;
    int rank = parse_dims(l, a, open + 1, (size_t)(shape_end - open - 1), shape);
    if (rank < 0) return 2;
    if (bar) {
      int given = parse_dims(l, a, bar + 1, (size_t)(close - bar - 1), strides);
      if (given < 0) return 2;
      if (given != rank) return wrong(l, a, "there must be as many strides as dimensions");
    }
    Random r;
    uint64_t mix = l->seed;
    /* bench: x and x_ptr are one */
    size_t name = strlen(a->name),
           bare = l->repeats_data && name > 4 && !strcmp(a->name + name - 4, "_ptr") ? name - 4 : name;
    /* an argument's data does not depend on the others */
    for (size_t c = 0; c < bare; c++) mix = mix * 31 + (unsigned char)a->name[c];
    random_seed(&r, mix);
    const char *why = make_array(l, &a->array, t, rank, shape, bar ? strides : NULL, fills[k].fill, v[0], v[1], &r);
    if (why) return usage_error(l->verb, "%s=%s: the array %s", a->name, a->spec, why);
    return a->is_array = true, 0;
  }
  return -1;
}

/* @FILE.safetensors:NAME */
static int parse_safetensors(LaunchArg *a, const char *path, const char *name) {
  nereid_error *err = NULL;
  if (array_read_safetensors(&a->array, path, name, &err)) return report_error(err);
  a->is_array = true;
  return 0;
}

static int parse_file(Launch *l, LaunchArg *a, const char *spec) {
  const char *many = strstr(spec, ".safetensors:");
  if (many) {
    const char *name = many + strlen(".safetensors:");
    char *file = format_string("%.*s", (int)(name - spec - 2), spec + 1);
    int status = file ? parse_safetensors(a, file, name) : report_error(NULL);
    free(file);
    return status;
  }
  char *path = format_string("%s", spec + 1), *colon = path ? strrchr(path, ':') : NULL;
  nereid_dtype t;
  bool retype = colon && nereid_dtype_parse(colon + 1, &t);
  if (retype) *colon = 0;
  nereid_error *err = NULL;
  const char *(*read)(Array *, const char *, nereid_error **) =
      l->takes_complex ? array_read_npy_pairs : array_read_npy;
  if (!path || read(&a->array, path, &err)) return free(path), report_error(err);
  free(path);
  a->is_array = true;
  if (!retype) return 0;
  if (nereid_dtype_bytes(t) != nereid_dtype_bytes(a->array.dtype))
    return wrong(l, a, "the file's elements have another size than this type");
  return a->array.dtype = t, 0;
}

static int parse_array(Launch *l, LaunchArg *a, const char *spec) {
  if (*spec == '@') return parse_file(l, a, spec);
  /* the latest of that name, or the latest that was made for a launch */
  if (!strncmp(spec, "same:", 5) || !strncmp(spec, "made:", 5)) {
    LaunchArg *found = NULL;
    for (Launch *b = l->before; b && !found; b = b->before) {
      found = launch_arg(b, spec + 5);
      if (found && (!found->is_array || (*spec == 'm' && found->shared))) found = NULL;
    }
    if (!found) return wrong(l, a, "no launch before this one has an array of that name");
    a->array = found->array, a->array.data = NULL;
    a->shared = found->shared ? found->shared : found;
    return a->is_array = true, 0;
  }
  if (!strncmp(spec, "like:", 5)) {
    LaunchArg *other = launch_arg(l, spec + 5);
    if (!other || !other->is_array || other == a) return wrong(l, a, "no array of that name stands before it");
    const Array *o = &other->array;
    const char *why = make_array(l, &a->array, o->dtype, o->rank, o->shape, o->strides, FILL_ZEROS, 0, 0, NULL);
    if (why) return usage_error(l->verb, "%s=%s: the array %s", a->name, a->spec, why);
    return a->is_array = true, 0;
  }
  return parse_generated(l, a, spec);
}

int launch_make_array(Launch *l, LaunchArg *a) {
  int status = parse_array(l, a, a->spec);
  return status < 0 ? wrong(l, a, "this is no array; randn:f32[64,1000] is one, @FILE.npy another") : status;
}

static int parse_descriptor(Launch *l, LaunchArg *a) {
  const char *close = strchr(a->spec, ']');
  int64_t block[MAX_DIMS];
  if (!close || close[1] != ':') return wrong(l, a, "a descriptor is written desc[64,32]:ARRAY");
  int rank = parse_dims(l, a, a->spec + 5, (size_t)(close - a->spec - 5), block);
  if (rank < 0) return 2;
  int status = parse_array(l, a, close + 2);
  if (status < 0) return wrong(l, a, "what follows desc[...]: is no array");
  if (status) return status;
  if (rank != a->array.rank || rank > 5)
    return wrong(l, a, "a block has as many dimensions as its array, at most five");
  a->arg = (nereid_arg){.kind = NEREID_ARG_DESCRIPTOR, .dtype = a->array.dtype, .rank = rank};
  for (int d = 0; d < rank; d++)
    a->arg.shape[d] = a->array.shape[d], a->arg.strides[d] = a->array.strides[d],
    a->arg.block_shape[d] = (int32_t)block[d];
  return 0;
}

/* ---- one argument ------------------------------------------------------------------------------------------------ */

static bool is_constexpr(const Launch *l, const char *name) {
  for (int i = 0; i < l->kernel->param_count; i++)
    if (!strcmp(l->kernel->params[i].name, name)) return l->kernel->params[i].is_constexpr;
  return false;
}

static int parse_spec(Launch *l, LaunchArg *a) {
  const char *s = a->spec;
  int64_t i;
  double f;
  bool is_unsigned;
  if (!strncmp(s, "desc[", 5)) return parse_descriptor(l, a);
  int status = parse_array(l, a, s);
  if (status == 0) return a->arg = nereid_pointer(NULL, a->array.dtype), 0;
  if (status > 0) return status;
  if (is_constexpr(l, a->name)) {
    const char *python = !strcmp(s, "true") ? "True" : !strcmp(s, "false") ? "False" : !strcmp(s, "none") ? "None" : s;
    if (strchr(s, '^') && parse_integer(s, &i, &is_unsigned)) return a->arg = nereid_constexpr_int(i), 0;
    return a->arg = nereid_constexpr(python), 0;
  }
  if (!strcmp(s, "true") || !strcmp(s, "True")) return a->arg = nereid_bool(true), 0;
  if (!strcmp(s, "false") || !strcmp(s, "False")) return a->arg = nereid_bool(false), 0;
  if (!strcmp(s, "none") || !strcmp(s, "None")) return a->arg = nereid_none(), 0;
  const char *colon = strchr(s, ':');
  nereid_dtype t = NEREID_I32;
  if (colon) {
    char *type = format_string("%.*s", (int)(colon - s), s);
    bool known = type && nereid_dtype_parse(type, &t);
    free(type);
    if (!known) return wrong(l, a, "neither a number, an array (randn:f32[64]), like:NAME nor @FILE.npy");
    s = colon + 1;
  }
  bool whole = parse_integer(s, &i, &is_unsigned);
  if (whole && (!colon || (t < NEREID_F8E5))) {
    a->arg = nereid_int(i);
    a->arg.is_unsigned = is_unsigned;
    if (colon) a->arg.dtype = t, a->arg.has_dtype = true;
    return 0;
  }
  if (!whole && looks_whole(s)) return wrong(l, a, "the number does not fit in 64 bits");
  if (!whole && !parse_float(s, &f)) {
    nereid_error *err = NULL; /* an expression over the numbers so far: cdiv(n, 4) */
    if (!colon && !eval_numbers(l, s, &i, &err)) return a->arg = nereid_int(i), 0;
    nereid_error_free(err);
    return wrong(l, a, "neither a number, an array (randn:f32[64]), like:NAME nor @FILE.npy");
  }
  if (whole) f = as_float(i, is_unsigned);
  if (colon && (t < NEREID_F8E5)) return wrong(l, a, "a whole number is needed for this type");
  a->arg = nereid_float(f);
  if (colon) a->arg.dtype = t, a->arg.has_dtype = true;
  return 0;
}

/* ---- the whole --------------------------------------------------------------------------------------------------- */

/* Several devices and configurations of one kernel warn of the same. */
static void report_warning(void *arg, const nereid_error *warning) {
  static uint64_t said[64];
  static size_t n;
  const char *text = nereid_error_text(warning);
  uint64_t hash = hash_bytes(text, strlen(text), 0);
  for (size_t i = 0; i < n; i++)
    if (said[i] == hash) return;
  if (n < sizeof said / sizeof *said) said[n++] = hash;
  progress_clear();
  print_diagnostics(stderr, text);
}

static int common_option(Launch *l, int argc, char **argv) {
  static const struct {
    const char *name;
    int which;
  } options[] = {{"--warps", 0}, {"--stages", 1}, {"--seed", 2}, {"--ctas", 3}};
  if (!strcmp(argv[0], "--debug")) return l->options.debug = true, 1;
  if (!strcmp(argv[0], "--limits")) {
    nereid_error *error = NULL;
    if (argc < 2) return usage_error(l->verb, "--limits needs a list, as in memory=4G,steps=1e9"), -1;
    if (nereid_limits_read(argv[1], &l->options.limits, &error)) return report_error(error), -1;
    return 2;
  }
  if (!strcmp(argv[0], "--define")) {
    const char *why = define_add(&l->defines, argc < 2 ? NULL : argv[1]);
    return why ? usage_error(l->verb, "--define %s", why), -1 : 2;
  }
  if (!strcmp(argv[0], "--persist")) {
    l->options.persist = true;
    return 1;
  }
  if (!strcmp(argv[0], "--specialize")) {
    l->options.specialize = true;
    return 1;
  }
  if (!strcmp(argv[0], "--without")) {
    if (argc < 2) return usage_error(l->verb, "--without needs names, as in dots_ahead,wgmma"), -1;
    l->options.without = argv[1];
    return 2;
  }
  for (int k = 0; k < 4; k++) {
    if (strcmp(argv[0], options[k].name)) continue;
    int64_t v;
    bool u;
    if (argc < 2 || !parse_integer(argv[1], &v, &u)) return usage_error(l->verb, "%s needs a number", argv[0]), -1;
    if (k != 2 && (u || v < INT32_MIN || v > INT32_MAX))
      return usage_error(l->verb, "%s %s: a number of at most %d is needed", argv[0], argv[1], INT32_MAX), -1;
    if (k == 0) l->options.num_warps = (int)v;
    if (k == 1) l->options.num_stages = (int)v;
    if (k == 2) l->seed = (uint64_t)v;
    if (k == 3) l->options.num_ctas = (int)v;
    return 2;
  }
  return 0;
}

bool launch_is_cuda_c(const char *path) {
  size_t n = strlen(path);
  return n > 3 && !strcmp(path + n - 3, ".cu");
}

/* FILE:KERNEL is split at the last colon, but a C++ name may have colons of its own: k.cu:ns::add<float>. */
static char *split_kernel(char *path) {
  char *cu = strstr(path, ".cu:"), *colon = cu ? cu + 3 : strrchr(path, ':');
  if (!colon || !colon[1] || (!cu && strchr(colon, '/'))) return NULL;
  *colon = 0;
  return colon + 1;
}

int launch_find_kernel(Launch *l) {
  int n = nereid_kernel_count(l->module);
  if (n == 0)
    return usage_error(l->verb, "%s holds no %s function", l->path,
                       launch_is_cuda_c(l->path) ? "__global__" : "@triton.jit");
  if (!l->kernel_name && n == 1) return l->kernel = nereid_kernel_at(l->module, 0), 0;
  if (l->kernel_name && (l->kernel = nereid_kernel_find(l->module, l->kernel_name))) return 0;
  if (l->kernel_name) {
    const char **names = calloc((size_t)n + 1, sizeof *names);
    for (int i = 0; names && i < n; i++) names[i] = nereid_kernel_at(l->module, i)->name;
    const char *near = names ? nearest_name(l->kernel_name, names) : NULL;
    if (near) usage_error(l->verb, "%s has no kernel '%s'; did you mean '%s'?", l->path, l->kernel_name, near);
    else usage_error(l->verb, "%s has no kernel '%s'; it has:", l->path, l->kernel_name);
    for (int i = 0; i < n && !near; i++) fprintf(stderr, "  %s\n", nereid_kernel_at(l->module, i)->name);
    free(names);
    return 2;
  }
  usage_error(l->verb, "%s has several kernels; name one, as in %s:%s:", l->path, l->path,
              nereid_kernel_at(l->module, 0)->name);
  for (int i = 0; i < n; i++) fprintf(stderr, "  %s\n", nereid_kernel_at(l->module, i)->name);
  return 2;
}

int launch_parse(Launch *l, const Verb *v, int argc, char **argv, int (*option)(void *arg, int argc, char **argv),
                 void *option_arg) {
  l->verb = v;
  l->options.warn = report_warning;
  l->args = calloc((size_t)argc + 1, sizeof *l->args);
  if (!l->args) return report_error(NULL);
  for (int i = 1; i < argc;) {
    char *equals = strchr(argv[i], '=');
    if (argv[i][0] == '-') {
      int took = option ? option(option_arg, argc - i, argv + i) : 0;
      if (!took) took = common_option(l, argc - i, argv + i);
      if (took < 0) return 2;
      if (!took) took = option_of_others(v, argc - i, argv + i);
      if (took < 0) return 2;
      i += took;
    } else if (!l->path) {
      l->path = format_string("%s", argv[i++]);
      if (l->path) l->kernel_name = split_kernel(l->path);
    } else if (equals && equals > argv[i]) {
      LaunchArg *a = &l->args[l->arg_count];
      a->name = format_string("%.*s", (int)(equals - argv[i]), argv[i]);
      a->spec = equals + 1;
      if (!a->name) return report_error(NULL);
      bool twice = launch_arg(l, a->name) != NULL;
      l->arg_count++, i++;
      if (twice) return usage_error(v, "the argument '%s' is given twice", a->name);
    } else {
      return usage_error(v, "'%s' is neither an option nor ARG=SPEC", argv[i]);
    }
  }
  if (!l->path) return usage_error(v, "which file? usage: nereid %s", v->synopsis);
  nereid_error *err = NULL;
  if (defines_load(&l->defines, l->path, &l->module, &err)) return report_error(err);
  return 0;
}

static bool has_unknown_argument(const Launch *l) {
  for (int i = 0; i < l->arg_count; i++) {
    bool known = false;
    for (int k = 0; k < l->kernel->param_count; k++) known |= !strcmp(l->kernel->params[k].name, l->args[i].name);
    if (!known) return true;
  }
  return false;
}

/* Arguments that are missing, all in one message with a command line to fill in. When only constexprs are, the library
 * judges: tuning may have found them. */
static int find_missing(Launch *l) {
  const nereid_kernel_info *k = l->kernel;
  int missing = 0, numbers = 0;
  for (int i = 0; i < k->param_count; i++) {
    const nereid_param *p = &k->params[i];
    if (launch_arg(l, p->name) || p->default_text || p->is_set) continue;
    missing++;
    numbers += !p->is_constexpr;
  }
  if (!numbers || launch_is_cuda_c(l->path)) return 0; /* of CUDA C a stage may need no arguments */
  if (has_unknown_argument(l)) return 0;               /* which the library tells of: it may be one that is missing */
  usage_error(l->verb, "kernel '%s' lacks %d of its %d arguments; fill in:", k->name, missing, k->param_count);
  fprintf(stderr, "  nereid %s %s:%s", l->verb->name, l->path, k->name);
  for (int i = 0; i < l->arg_count; i++) fprintf(stderr, " '%s=%s'", l->args[i].name, l->args[i].spec);
  for (int i = 0; i < k->param_count; i++) {
    const nereid_param *p = &k->params[i];
    size_t n = strlen(p->name);
    if (launch_arg(l, p->name) || p->default_text || p->is_set) continue;
    bool is_pointer =
        (n > 4 && !strcmp(p->name + n - 4, "_ptr")) || (p->annotation && strstr(p->annotation, "pointer"));
    fprintf(stderr, " %s=%s", p->name, p->is_constexpr ? "NUMBER" : is_pointer ? "randn:f32[SIZE]" : "NUMBER_OR_ARRAY");
  }
  fprintf(stderr, "\n");
  return 2;
}

int launch_make_args(Launch *l) {
  int status = launch_find_kernel(l);
  for (int i = 0; i < l->arg_count && !status; i++) {
    status = parse_spec(l, &l->args[i]);
    l->args[i].arg.name = l->args[i].name;
  }
  return status ? status : find_missing(l);
}

nereid_arg *launch_arg_list(const Launch *l) {
  nereid_arg *list = calloc((size_t)l->arg_count + 1, sizeof *list);
  for (int i = 0; list && i < l->arg_count; i++) {
    list[i] = l->args[i].arg;
    if (l->args[i].is_array)
      list[i].pointer = l->args[i].device_pointer ? l->args[i].device_pointer : l->args[i].array.data;
  }
  return list;
}

void launch_arg_knows(nereid_arg *arg, const Array *a) {
  if (!a->data || a->is_stand_in || !is_integer_type(a->dtype)) return;
  arg->values = a->data, arg->bytes = a->bytes;
}

void launch_free(Launch *l) {
  for (int i = 0; l->args && i < l->arg_count; i++) {
    free((char *)l->args[i].name);
    array_free(&l->args[i].array);
  }
  free(l->args);
  free(l->path);
  nereid_module_free(l->module);
  defines_free(&l->defines);
}
