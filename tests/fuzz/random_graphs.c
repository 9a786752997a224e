/* Random tensor programs: shapes (scalars and empty ones, too), types, views, reductions, scans, products, elements by
 * index, random numbers; and their gradients. Each is built by nereid_builder, compiled fused and operation by
 * operation, run, and compared with the same graph in double precision.
 *
 *     random_graphs COUNT SEED [--device D] [--show] [--refused] [--save FILE]
 *
 * It tries the numbers from SEED on. --show prints each program, --refused what no program was made of and why, --save
 * writes texts, inputs and results to a file, which compare_random_graphs.py compares with PyTorch's. The operations
 * are those of graph_forms.def.
 *
 * Comparisons are of inputs alone, whose values are the same in every precision. What a program computes is of the
 * magnitude of 1, mostly, so differences are measured against the larger of 1 and the largest value. */
#include <math.h>
#include <nereid.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_INPUTS = 40, MOST_TENSORS = 120, MOST_OUTPUTS = 24, MOST_ELEMENTS = 3000, MOST_TEXT = 16384 };

typedef struct Program {
  nereid_builder *graph;
  uint64_t chance;
  int count, input_count, output_count;
  nereid_tensor tensors[MOST_TENSORS], outputs[MOST_OUTPUTS], inputs[MOST_INPUTS];
  nereid_tensor of[MOST_OUTPUTS], seeds[MOST_OUTPUTS], by[MOST_INPUTS]; /* gradients: the last outputs */
  int of_count, by_count;
  char text[MOST_TEXT]; /* for whoever looks at it */
  size_t text_size;
  bool random;       /* some of its operations draw random numbers */
  FILE *save;        /* where its text, inputs and results go; or NULL */
  bool refused;      /* print what is refused */
  bool narrow;       /* there are types of 16 bits: no kinks, where rounding decides which way a gradient goes */
  const char *wrong; /* an error that no text should get */
} Program;

static uint64_t next(Program *p) {
  uint64_t x = p->chance += UINT64_C(0x9E3779B97F4A7C15);
  x = (x ^ (x >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
  x = (x ^ (x >> 27)) * UINT64_C(0x94D049BB133111EB);
  return x ^ (x >> 31);
}
static int below(Program *p, int n) { return (int)(next(p) % (uint64_t)n); }

static void say(Program *p, const char *format, ...) {
  va_list ap;
  va_start(ap, format);
  int n = vsnprintf(p->text + p->text_size, MOST_TEXT - p->text_size, format, ap);
  va_end(ap);
  if (n > 0) p->text_size += (size_t)n < MOST_TEXT - p->text_size ? (size_t)n : MOST_TEXT - p->text_size - 1;
}

static nereid_tensor_info info(Program *p, nereid_tensor t) {
  nereid_tensor_info i = {.rank = -1};
  nereid_builder_get_info(p->graph, t, &i, NULL);
  return i;
}

static int64_t elements(const nereid_tensor_info *t) {
  int64_t n = 1;
  for (int d = 0; d < t->rank; d++) n *= t->shape[d];
  return n;
}

static bool is_float(nereid_dtype t) {
  return t == NEREID_F16 || t == NEREID_BF16 || t == NEREID_F32 || t == NEREID_F64;
}

/* ---- inputs and operations --------------------------------------------------------------------------------------- */

static void say_type(Program *p, const nereid_tensor_info *t, const char *end) {
  say(p, "%s[", nereid_dtype_name(t->dtype));
  for (int d = 0; d < t->rank; d++) say(p, "%s%lld", d ? ", " : "", (long long)t->shape[d]);
  say(p, "]%s", end);
}

static nereid_tensor add_input(Program *p, nereid_dtype type, int rank, const int64_t *shape, char kind) {
  char name[32];
  nereid_tensor t = -1;
  if (p->input_count == MOST_INPUTS) return -1;
  snprintf(name, sizeof name, "%c%d", kind, p->input_count);
  if (nereid_builder_input(p->graph, name, type, rank, shape, &t, NULL)) return -1;
  nereid_tensor_info i = info(p, t);
  say(p, "  t%d = %s ", t, name);
  say_type(p, &i, "\n");
  p->inputs[p->input_count++] = t;
  return t;
}

/* Whether it was taken; a tensor that is too large is not kept. */
static bool add_op(Program *p, const char *text, int n, const nereid_tensor *in) {
  nereid_tensor t = -1;
  nereid_error *error = NULL;
  if (p->count == MOST_TENSORS) return false;
  if (nereid_builder_op(p->graph, text, in, n, &t, 1, &error)) {
    const char *why = nereid_error_text(error);
    if (strstr(why, "internal")) {
      p->wrong = "an operation is refused with an internal error";
      say(p, "  %s: %s\n", text, why);
    }
    if (p->refused) {
      printf("refused: %s: %.*s of", text, (int)strcspn(why, "\n"), why);
      for (int k = 0; k < n; k++) {
        nereid_tensor_info i = info(p, in[k]);
        printf(" %s[", nereid_dtype_name(i.dtype));
        for (int d = 0; d < i.rank; d++) printf("%s%lld", d ? ", " : "", (long long)i.shape[d]);
        printf("]");
      }
      printf("\n");
    }
    nereid_error_free(error);
    return false;
  }
  nereid_tensor_info i = info(p, t);
  if (elements(&i) > MOST_ELEMENTS || i.rank > 8) return false;
  say(p, "  t%d = %s   of", t, text);
  for (int k = 0; k < n; k++) say(p, " t%d", in[k]);
  say(p, " -> ");
  say_type(p, &i, "\n");
  p->tensors[p->count++] = t;
  return true;
}

static void random_input(Program *p) {
  static const int64_t sizes[] = {1, 2, 3, 4, 5, 7, 8, 12, 16, 17, 33};
  static const nereid_dtype types[] = {NEREID_F32, NEREID_F32, NEREID_F32, NEREID_F32, NEREID_F32,
                                       NEREID_F64, NEREID_I64, NEREID_I32, NEREID_I1,  NEREID_U8,
                                       NEREID_F16, NEREID_F16, NEREID_BF16};
  int64_t shape[5], n = 1;
  int rank = below(p, 16) ? below(p, 5) : 5;
  for (int d = 0; d < rank; d++) {
    shape[d] = below(p, 40) ? sizes[below(p, 11)] : 0;
    if (n * shape[d] > MOST_ELEMENTS / 2) shape[d] = 2;
    n *= shape[d];
  }
  nereid_dtype type = types[below(p, p->narrow ? 13 : 10)];
  nereid_tensor t = add_input(p, type, rank, shape, is_float(type) ? 'x' : 'n');
  if (t >= 0 && p->count < MOST_TENSORS) p->tensors[p->count++] = t;
}

static nereid_tensor any(Program *p) { /* later ones more often */
  int a = below(p, p->count), b = below(p, p->count);
  return p->tensors[a > b ? a : b];
}

/* ---- forms ------------------------------------------------------------------------------------------------------- */

typedef struct Form {
  const char *when, *more, *text;
} Form;
static const Form forms[] = {
#define FORM(when, more, text) {when, more, text},
#include "graph_forms.def"
#undef FORM
};

typedef struct Choice { /* what a form's $ stand for */
  nereid_tensor_info a;
  int d, e, order[8];
  long long window, step, zero_or_one, small, other;
  bool keep;
} Choice;

static bool is_input(const Program *p, nereid_tensor t) {
  for (int i = 0; i < p->input_count; i++)
    if (p->inputs[i] == t) return true;
  return false;
}

static bool fits(const Program *p, const Form *f, nereid_tensor x, const Choice *c) {
  nereid_dtype t = c->a.dtype;
  for (const char *w = f->when; *w; w++) {
    bool good = *w == '+';
    switch (*w) {
      case 'f': good = is_float(t); break;
      case 'i': good = !is_float(t); break;
      case 'j': good = !is_float(t) && t != NEREID_I1; break;
      case 'b': good = t == NEREID_I1; break;
      case 'x': good = is_input(p, x); break;
      case 'k': good = !p->narrow; break;
      case 'h': good = p->narrow; break;
      case 'r': good = p->random; break;
      case 'n': good = elements(&c->a) > 0; break;
      case 'v': good = c->a.rank > 0 && c->a.shape[c->d] > 1; break;
      default:
        if (*w >= '0' && *w <= '9') good = w[1] == '+' ? c->a.rank >= *w - '0' : c->a.rank == *w - '0';
    }
    if (!good) return false;
  }
  return true;
}

static Choice choose(Program *p, nereid_tensor x) {
  Choice c = {.a = info(p, x), .window = 1 + below(p, 3), .step = 1 + below(p, 3), .zero_or_one = below(p, 2)};
  int rank = c.a.rank > 0 ? c.a.rank : 1;
  c.d = below(p, rank);
  c.e = below(p, rank);
  if (c.e == c.d && rank > 1) c.e = (c.d + 1) % rank;
  c.small = 1 + below(p, 5);
  c.other = 1 + below(p, 3);
  c.keep = below(p, 2);
  for (int i = 0; i < c.a.rank; i++) {
    int k = below(p, i + 1);
    c.order[i] = c.order[k];
    c.order[k] = i;
  }
  return c;
}

static long long size_of(const Choice *c, int d) { return d >= 0 && d < c->a.rank ? (long long)c->a.shape[d] : 1; }

static void put_list(const Choice *c, char what, char *to, size_t room) {
  size_t at = 0;
  *to = 0;
  for (int i = 0; i < c->a.rank && at + 24 < room; i++) {
    long long v = what == 'P' ? c->order[i] : what == 'T' && i == c->d ? c->other : size_of(c, i);
    at += (size_t)snprintf(to + at, room - at, "%s%lld", i ? ", " : "", v);
  }
}

/* A form's text with what stands for its $. */
static void put_text(const Choice *c, const char *text, char *to, size_t room) {
  char *end = to + room - 64;
  for (; *text && to < end; text++) {
    *to = *text;
    if (*text != '$') {
      to++;
      continue;
    }
    long long v = 0;
    switch (*++text) {
      case 'd': v = c->d; break;
      case 'e': v = c->e; break;
      case 'D': v = size_of(c, c->d); break;
      case 'H': v = (size_of(c, c->d) + 1) / 2; break;
      case 'L': v = size_of(c, c->a.rank - 1); break;
      case 'M': v = size_of(c, c->a.rank - 2); break;
      case 'C': v = size_of(c, 1); break;
      case 'N': v = size_of(c, 0); break;
      case 'k': v = c->window; break;
      case 's': v = c->step; break;
      case 'p': v = c->zero_or_one; break;
      case 'r': v = c->small; break;
      case 'K': to += sprintf(to, c->keep ? "True" : "False"); continue;
      default:
        put_list(c, *text, to, (size_t)(end - to));
        to += strlen(to);
        continue;
    }
    to += sprintf(to, "%lld", v);
  }
  *to = 0;
}

/* An input that a form wants: its kind, and its shape in brackets. */
static nereid_tensor wanted_input(Program *p, const Choice *c, const char *text) {
  int64_t shape[8];
  int rank = 0;
  nereid_dtype type = *text == 'f' ? c->a.dtype : *text == 'm' ? NEREID_I1 : NEREID_I64;
  if (*text == 'n') type = c->a.dtype == NEREID_I1 ? NEREID_I64 : c->a.dtype;
  char kind = *text == 'f' ? 'x' : *text;
  for (const char *at = text + 2; *at != ']' && rank < 8; at += strspn(at, ", ")) {
    char *end;
    shape[rank++] = strtoll(at, &end, 10);
    at = end;
  }
  return add_input(p, type, rank, shape, kind);
}

static void add_any(Program *p) {
  nereid_tensor in[4] = {any(p)};
  Choice c = choose(p, in[0]);
  const Form *f = &forms[below(p, (int)(sizeof forms / sizeof *forms))];
  char text[1024], more[1024];
  int n = 1;
  for (int tries = 0; !fits(p, f, in[0], &c); tries++) {
    if (tries == 100) return;
    f = &forms[below(p, (int)(sizeof forms / sizeof *forms))];
  }
  put_text(&c, f->text, text, sizeof text);
  put_text(&c, f->more, more, sizeof more);
  for (const char *at = more; *at && n < 4; at += strcspn(at, ";"), at += *at == ';') {
    in[n] = *at == 'y' ? any(p) : wanted_input(p, &c, at);
    if (in[n++] < 0) return;
  }
  add_op(p, text, n, in);
}

/* Gradients of the outputs so far, each with random weights. */
static void add_gradients(Program *p) {
  nereid_tensor got[MOST_INPUTS];
  nereid_error *error = NULL;
  for (int i = 0; i < p->output_count; i++) {
    nereid_tensor_info t = info(p, p->outputs[i]);
    if (!is_float(t.dtype)) continue;
    nereid_tensor seed = add_input(p, t.dtype, t.rank, t.shape, 'g');
    if (seed < 0) continue;
    p->seeds[p->of_count] = seed;
    p->of[p->of_count++] = p->outputs[i];
  }
  for (int i = 0; i < p->input_count; i++)
    if (is_float(info(p, p->inputs[i]).dtype)) p->by[p->by_count++] = p->inputs[i];
  if (nereid_builder_gradients(p->graph, p->of, p->seeds, p->of_count, p->by, p->by_count, got, &error)) {
    p->wrong = "gradients fail";
    say(p, "%s\n", nereid_error_text(error));
    nereid_error_free(error);
    return;
  }
  int n = 0;
  for (int i = 0; i < p->by_count && p->output_count < MOST_OUTPUTS; i++) {
    if (got[i] < 0) continue;
    say(p, "  output %d: the gradient by t%d\n", p->output_count, p->by[i]);
    p->outputs[p->output_count++] = got[i];
    p->by[n++] = p->by[i];
  }
  p->by_count = n;
}

static void generate(Program *p) {
  p->narrow = !below(p, 4);
  p->random = !below(p, 16);
  for (int i = 1 + below(p, 3); i > 0; i--) random_input(p);
  for (int i = 4 + below(p, 14); i > 0 && p->count; i--) add_any(p);
  for (int i = 1 + below(p, 3); i > 0 && p->count; i--) {
    nereid_tensor t = i == 1 ? p->tensors[p->count - 1] : any(p);
    say(p, "  output %d: t%d\n", p->output_count, t);
    p->outputs[p->output_count++] = t;
  }
  if (below(p, 3)) add_gradients(p);
}

/* ---- running ----------------------------------------------------------------------------------------------------- */

static double allowed(const nereid_tensor_info *t) {
  if (!is_float(t->dtype)) return 0;
  nereid_dtype n = t->narrowest;
  return n == NEREID_BF16 ? 0.15 : n == NEREID_F16 ? 0.03 : n == NEREID_F32 ? 5e-4 : 1e-9;
}

typedef struct Buffers {
  int n;
  void *at[MOST_INPUTS + MOST_OUTPUTS];
  double *wanted[MOST_OUTPUTS];
} Buffers;

/* Of a random number in [-1, 1): floats, small integers, or 0 and 1, as the input's name says. */
static double input_value(const nereid_tensor_info *t, double v) {
  if (is_float(t->dtype)) return v * 1.2;
  if (t->name[0] != 'n' || t->dtype == NEREID_I1) return v > 0;
  return t->dtype == NEREID_U8 ? floor(fabs(v) * 6) : floor(v * 5);
}

static void *fill(Program *p, nereid_tensor_info t) {
  int64_t n = elements(&t);
  size_t step = (size_t)nereid_dtype_bytes(t.dtype);
  char *data = malloc((size_t)n * step + 1);
  for (int64_t i = 0; data && i < n; i++) {
    double v = (double)(next(p) >> 11) * 0x1p-52 - 1;
    nereid_dtype_store(t.dtype, data + (size_t)i * step, input_value(&t, v));
  }
  return data;
}

/* "WHAT TYPE SIZES...", a line, then its bytes. */
static void save(Program *p, const char *what, const nereid_tensor_info *t, const char *type, const void *at) {
  if (!p->save) return;
  fprintf(p->save, "%s %s", what, type);
  for (int d = 0; d < t->rank; d++) fprintf(p->save, " %lld", (long long)t->shape[d]);
  fputc('\n', p->save);
  fwrite(at, strcmp(type, "double") ? nereid_dtype_bytes(t->dtype) : sizeof(double), (size_t)elements(t), p->save);
}

static void save_run(Program *p, const nereid_fusion *f, const Buffers *b, bool eager) {
  int inputs = nereid_fusion_input_count(f);
  for (int i = 0; i < inputs && !eager; i++) {
    nereid_tensor_info t = nereid_fusion_input(f, i);
    save(p, "input", &t, nereid_dtype_name(t.dtype), b->at[i]);
  }
  for (int i = 0; i < p->output_count; i++) {
    nereid_tensor_info t = nereid_fusion_output(f, i);
    if (!eager) save(p, "reference", &t, "double", b->wanted[i]);
    save(p, eager ? "eager" : "fused", &t, nereid_dtype_name(t.dtype), b->at[inputs + i]);
  }
}

/* Runs one form of it; why it is wrong, or NULL. */
static const char *run(Program *p, nereid_device *d, bool eager, char *message, size_t size) {
  nereid_fusion *f = NULL;
  nereid_error *error = NULL;
  Buffers b = {0};
  const char *why = NULL;
  nereid_fuse_options options = {.eager = eager, .seed = 5};
  uint64_t chance = p->chance;
  nereid_status status = nereid_builder_compile(p->graph, p->outputs, p->output_count, &options, &f, &error);
  int inputs = status ? 0 : nereid_fusion_input_count(f);
  for (int i = 0; i < inputs; i++) b.at[b.n++] = fill(p, nereid_fusion_input(f, i));
  for (int i = 0; i < p->output_count && !status; i++) {
    nereid_tensor_info t = nereid_fusion_output(f, i);
    int64_t n = elements(&t);
    b.at[b.n++] = calloc((size_t)n + 1, (size_t)nereid_dtype_bytes(t.dtype));
    b.wanted[i] = calloc((size_t)n + 1, sizeof(double));
  }
  for (int i = 0; i < b.n && !status; i++) {
    nereid_tensor_info t = i < inputs ? nereid_fusion_input(f, i) : nereid_fusion_output(f, i - inputs);
    if (elements(&t)) status = nereid_register(d, b.at[i], elements(&t) * nereid_dtype_bytes(t.dtype), "array", &error);
  }
  if (!status) status = nereid_fusion_reference(f, (const void *const *)b.at, b.wanted, NULL, &error);
  if (!status) status = nereid_fusion_run(f, d, NULL, b.at, b.at + inputs, &error);
  if (!status) status = nereid_synchronize(d, &error);
  if (!status) save_run(p, f, &b, eager);
  for (int i = 0; i < p->output_count && !status && !why; i++) {
    nereid_tensor_info t = nereid_fusion_output(f, i);
    double most = 1, worst = 0;
    for (int64_t k = 0, n = elements(&t); k < n; k++) {
      double want = b.wanted[i][k],
             got =
                 nereid_dtype_load(t.dtype, (char *)b.at[inputs + i] + (size_t)k * (size_t)nereid_dtype_bytes(t.dtype));
      if (isfinite(want) && fabs(want) > most) most = fabs(want);
      if (got == want || (isnan(got) && isnan(want))) continue;
      double e = isfinite(got) && isfinite(want) ? fabs(got - want) : INFINITY;
      if (e > worst) worst = e;
    }
    if (worst <= allowed(&t) * most) continue;
    snprintf(message, size, "output %d is off by %g of %g, allowed %g", i, worst, most, allowed(&t) * most);
    why = message;
  }
  if (status) {
    snprintf(message, size, "%s", nereid_error_text(error));
    why = message;
  }
  for (int i = 0; i < b.n; i++) {
    nereid_unregister(d, b.at[i]);
    free(b.at[i]);
  }
  for (int i = 0; i < p->output_count; i++) free(b.wanted[i]);
  nereid_error_free(error);
  nereid_fusion_free(f);
  p->chance = chance; /* the other form gets the same values */
  return why;
}

typedef struct Options {
  const char *device, *save;
  bool show, refused;
  long long seed;
} Options;

/* One program, in both forms; whether it agrees. */
static bool try_program(Program *p, nereid_device *d, const Options *o, long long number, FILE *file) {
  char message[2][2048];
  memset(p, 0, sizeof *p);
  p->save = file;
  p->refused = o->refused;
  p->chance = (uint64_t)number * UINT64_C(0xD1342543DE82EF95);
  if (nereid_builder_create(NULL, &p->graph, NULL)) exit(2);
  generate(p);
  if (file && p->output_count) fprintf(file, "program %lld %zu\n%s", number, p->text_size, p->text);
  const char *why[2] = {p->wrong, NULL};
  for (int eager = 0; eager < 2 && !p->wrong && p->output_count; eager++)
    why[eager] = run(p, d, eager, message[eager], sizeof message[eager]);
  if (o->show || why[0] || why[1]) {
    printf("program %lld:\n%s", number, p->text);
    for (int eager = 0; eager < 2; eager++)
      if (why[eager]) printf("%s: %s\n", eager ? "operation by operation" : "fused", why[eager]);
    fflush(stdout);
  }
  nereid_builder_free(p->graph);
  return !why[0] && !why[1];
}

int main(int argc, char **argv) {
  if (argc < 3)
    return fprintf(stderr, "usage: %s COUNT SEED [--device D] [--show] [--refused] [--save FILE]\n", argv[0]), 2;
  Options o = {.device = "interp", .seed = atoll(argv[2])};
  for (int i = 3; i < argc; i++)
    if (!strcmp(argv[i], "--show")) o.show = true;
    else if (!strcmp(argv[i], "--refused")) o.refused = true;
    else if (i + 1 < argc && !strcmp(argv[i], "--device")) o.device = argv[++i];
    else if (i + 1 < argc && !strcmp(argv[i], "--save")) o.save = argv[++i];
  nereid_device *d = NULL;
  if (nereid_device_open(o.device, &d, NULL)) return fprintf(stderr, "there is no device %s\n", o.device), 2;
  FILE *file = o.save ? fopen(o.save, "wb") : NULL;
  if (o.save && !file) return fprintf(stderr, "cannot write %s\n", o.save), 2;
  int count = atoi(argv[1]), wrong = 0, gradients = 0;
  static Program program;
  for (int i = 0; i < count; i++) {
    wrong += !try_program(&program, d, &o, o.seed + i, file);
    gradients += program.by_count > 0;
  }
  nereid_device_close(d);
  if (file && fclose(file)) return fprintf(stderr, "cannot write %s\n", o.save), 2;
  printf("%d random tensor programs on %s (%d with gradients), fused and operation by operation: %d wrong\n", count,
         o.device, gradients, wrong);
  return wrong != 0;
}
