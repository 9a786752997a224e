/* cli: `nereid VERB ...`. One file a verb; what verbs share is declared here. Uses nereid.h, and base/ for text and
 * files, so that nothing is done here that a C caller could not do. Here, unlike in the library, main() may exit; but
 * verbs return their exit status. */
#ifndef NEREID_CLI_H
#define NEREID_CLI_H

#include <nereid.h>
#include <stdio.h>

/* ---- verbs: argv[0] is the verb's name; the result is the exit status, 0 only on success ------------------------- */

typedef struct Verb {
  const char *name, *synopsis, *summary;
  int (*run)(int argc, char **argv);
  const char *help; /* the rest of --help: options, examples */
} Verb;
extern const Verb verb_run, verb_inspect, verb_bench, verb_roofline, verb_prof, verb_tune, verb_replay, verb_devices,
    verb_language, verb_cache, verb_fuse, verb_build;

/* nereid prof ... --instrument (prof_instrument.c): that verb's words. */
int prof_instrument(const Verb *v, int argc, char **argv);

/* ---- text.c: messages, tables, progress -------------------------------------------------------------------------- */

/* "nereid VERB: message" on stderr; returns 2, the status of a wrong command line. */
int usage_error(const Verb *v, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Prints and frees err; returns 1. */
int report_error(nereid_error *err);
/* A file's text, malloc'ed; NULL and *why: it cannot be read, is no regular file, or has more than `most` bytes. */
char *read_text(const char *path, int64_t most, const char **why);
/* A line on stderr that is written over, only on a terminal, and only a second after `start_ns`. */
void progress(int64_t start_ns, const char *format, ...) __attribute__((format(printf, 2, 3)));
void progress_clear(void);
int64_t now_ns(void);
/* "4096", "2^20": a whole number, its first part to strtoll's `base`; *end: after it. False: there is none, or it is
 * past int64. */
bool read_whole(const char *text, int base, const char **end, int64_t *out);
/* The whole text is such a number, in decimal, from least to most. */
bool read_count(const char *text, int64_t least, int64_t most, int *out);
/* malloc'ed; where memory lacks the command ends, with that said and status 1 */
char *format_string(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* ---- color.c: on a terminal alone -------------------------------------------------------------------------------- */

typedef enum { COLOR_OFF, COLOR_ERROR, COLOR_HINT, COLOR_GOOD, COLOR_BAD, COLOR_SAME } Color;
const char *color(FILE *out, Color c); /* what turns the text after it to c; "" where there are no colours */
void print_in(FILE *out, Color c, const char *text);
/* Errors of the library, line by line; an end of line is added where there is none. */
void print_diagnostics(FILE *out, const char *text);

/* ---- options.c ---------------------------------------------------------------------------------------------------- */

/* A copy of argv in which `--opt=value` is two words; malloc'ed, NULL when out of memory. The words are argv's own. */
char **options_split(int argc, char **argv, int *out_argc);
int option_words(const char *name); /* how many an option is, of any verb, with its value; 0 for what is none */
/* For an option that the verb does not know: how many words to pass over, which is said on stderr, or -1 after an
 * error. */
int option_of_others(const Verb *v, int argc, char **argv);

/* ---- arrays.c: an array in host memory, contiguous or strided ---------------------------------------------------- */

typedef struct Array {
  nereid_dtype dtype;
  int rank;
  int64_t shape[8], strides[8]; /* elements */
  int64_t bytes;                /* from the first to the end of the last element */
  void *data;                   /* malloc'ed */
  bool is_stand_in;             /* data is an address alone */
  bool is_complex;              /* the last dim, of 2, has real and imaginary part */
} Array;
enum { MAX_DIMS = 8 };

typedef struct Random {
  uint64_t s[4];
  double spare;
  bool has_spare;
} Random;
void random_seed(Random *r, uint64_t seed);
uint64_t random_bits(Random *r);
double random_uniform(Random *r); /* [0, 1) */
double random_normal(Random *r);

typedef enum { FILL_RANDN, FILL_RAND, FILL_ZEROS, FILL_ONES, FILL_FULL, FILL_ARANGE, FILL_RANDINT, FILL_EMPTY } Fill;
/* Sets shape, strides (row-major when `strides` is NULL) and bytes. Returns NULL, or a static message of what is wrong.
 */
const char *array_describe(Array *a, nereid_dtype t, int rank, const int64_t *shape, const int64_t *strides);
/* The same, then allocates and fills. */
const char *array_make(Array *a, nereid_dtype t, int rank, const int64_t *shape, const int64_t *strides, Fill fill,
                       double lo, double hi, Random *r);
void array_free(Array *a);
int64_t array_count(const Array *a);                  /* elements by shape */
int64_t array_offset(const Array *a, int64_t linear); /* of the linear-th element (row-major), in elements */
double array_get(const Array *a, int64_t linear);
const char *array_read_npy(Array *a, const char *path, nereid_error **err); /* NULL, or "" with err set */
/* Of complex numbers, too. */
const char *array_read_npy_pairs(Array *a, const char *path, nereid_error **err);
/* 0 on success; strided arrays are packed */
/* A tensor of a .safetensors file. */
nereid_status array_read_safetensors(Array *a, const char *path, const char *name, nereid_error **err);
int array_write_npy(const Array *a, const char *path, nereid_error **err);

typedef struct Difference {
  int64_t count, mismatches, worst_at; /* elements; beyond tolerance; linear index of the worst */
  double worst_error, worst_got, worst_want, max_abs_error;
} Difference;
/* |got - want| <= atol + rtol * |want| for each element; NaN agrees with NaN, infinities with themselves. */
Difference array_compare(const Array *got, const Array *want, double rtol, double atol);
/* What rounding alone explains for one result of this type: 2^-mantissa bits times a small factor. */
double dtype_tolerance(nereid_dtype t);
/* Of results whose operands were cut to tf32, a 2^-10th off at most each, of the largest result. The errors of a sum's
 * terms add up as the terms do: half a step in the mean, four for the worst of many. Of a chain of such
 * products (nereid_function_info) as often. */
#define TF32_TOLERANCE 0x1p-8
double array_largest(const Array *a); /* of the magnitudes that are finite */

/* ---- launch.c: FILE.py[:KERNEL] ARG=SPEC ... as run and inspect take them ---------------------------------------- */

/* ---- define.c ---------------------------------------------------------------------------------------------------- */

typedef struct Defines {
  const char **texts; /* "NAME=EXPR" */
  int count;
  char *identity; /* all of them, a line each */
} Defines;
const char *define_add(Defines *d, const char *text); /* NULL, or what is said after its name: "needs ..." */
void defines_free(Defines *d);
bool defines_answer(const Defines *d, const char *name, nereid_value *out); /* the last of this name */
/* nereid_module_load, with these names; they must outlive the module. */
nereid_status defines_load(Defines *d, const char *path, nereid_module **out, nereid_error **error);

typedef struct LaunchArg {
  const char *name; /* of the parameter */
  const char *spec; /* as typed */
  nereid_arg arg;
  bool is_array;
  Array array; /* host copy: the input, then the output */
  void *device_pointer;
  struct LaunchArg *shared; /* bench: the same array as this one, of an earlier launch; array.data is NULL */
} LaunchArg;

typedef struct Launch {
  const Verb *verb;
  char *path, *kernel_name;
  nereid_module *module;
  const nereid_kernel_info *kernel;
  LaunchArg *args;
  int arg_count;
  nereid_options options;
  Defines defines;
  uint64_t seed;
  bool shapes_only;      /* inspect: arrays are not filled, only a stand-in address is given */
  bool fills_integers;   /* ... but those of integers are, up to some size */
  bool repeats_data;     /* bench: large random arrays repeat a part */
  bool takes_complex;    /* fuse: arrays of complex numbers */
  struct Launch *before; /* bench: of the same case, for ARG=same:NAME */
} Launch;

/* Splits argv into FILE, ARG=SPEC and options; options the verb knows itself are handed to `option` (which returns how
 * many words it took, 0 for "unknown", -1 for "wrong, said so"). Loads the file, finds the kernel and makes the
 * arguments. 0, or an exit status. */
int launch_find_kernel(Launch *l); /* what launch_parse read names; part of launch_make_args */
int launch_parse(Launch *l, const Verb *v, int argc, char **argv, int (*option)(void *arg, int argc, char **argv),
                 void *option_arg);
bool launch_is_cuda_c(const char *path);        /* its name ends in .cu */
int launch_make_array(Launch *l, LaunchArg *a); /* of a->spec, which must be one; 0, or an exit status */
int launch_make_args(Launch *l);                /* after launch_parse: evaluates the specs */
void launch_free(Launch *l);
/* The launch's numbers, at most arg_count; how many. */
int launch_numbers(const Launch *l, const char **names, double *values);
/* over these; prints what is wrong */
int launch_eval(const Launch *l, const char *expression, int64_t *out);
LaunchArg *launch_arg(Launch *l, const char *name);
nereid_arg *launch_arg_list(const Launch *l); /* malloc'ed, arg_count entries */
bool is_integer_type(nereid_dtype t);
void launch_arg_knows(nereid_arg *arg, const Array *a); /* sets arg->values, of an array of integers that is there */
/* "cdiv(n, BLOCK), 4" -> grid[3]; the comma inside brackets does not split. */
int launch_grid(const Launch *l, const char *text, int64_t grid[3]);
/* The same as nereid_options.grid takes it, malloc'ed. That knows the kernel's parameters alone: other numbers of the
 * command line are put in. 0, or an exit status. */
int launch_grid_text(const Launch *l, const char *text, char **out);

#endif
