/* bench: what the files of `nereid bench` share.
 *
 *     words of the command line ──bench.c──▶ Plan: options, and the cases, each one or more launches, as words
 *     at each size              ──bench_case.c─▶ Case: modules, arrays on the device, functions, and what they cost
 *                               ──bench.c──▶ Row: that, measured in turn with the other cases and the copy
 *     all rows                  ──bench_table.c, plot.c─▶ table, JSON, CSV; a picture
 */
#ifndef NEREID_CLI_BENCH_H
#define NEREID_CLI_BENCH_H

#include "cli.h"

typedef struct Words {
  char **at;
  int n, cap;
} Words; /* each malloc'ed */
bool words_add(Words *w, const char *word);
void words_free(Words *w);

typedef struct Segment {
  Words words;
  bool follows, other;
} Segment; /* one launch: FILE[:KERNEL] ARG=SPEC ... --grid G; follows: --then, else --vs, or
       other: --beside */

enum { MAX_SEGMENTS = 40 };
typedef struct Plan {
  const Verb *verb; /* whose command line it is */
  Segment segments[MAX_SEGMENTS];
  int segment_count;
  const char *title; /* of a table of --all, or NULL */
  char *sweep;       /* the variable's name, or NULL */
  int64_t from, to;
} Plan;

/* The words of a table's command line. Options that are no launch's are handed to `option` (may be NULL), which returns
 * how many words it took, 0 for "not mine", -1 for "wrong, said so". 0, or an exit status. */
int plan_words(Plan *p, int argc, char **argv, int (*option)(void *arg, int argc, char **argv), void *arg);
void plan_free(Plan *p);

enum { MAX_LAUNCHES = 32, MAX_CASES = 16 };
typedef struct Case { /* at one size */
  const Verb *verb;
  /* set before case_open: the arrays' first content stays in host memory until case_drop_inputs */
  bool keep_inputs;
  char *label;               /* "softmax", of several launches the first with "..." */
  Words words[MAX_LAUNCHES]; /* which the launches point into */
  Launch launches[MAX_LAUNCHES];
  nereid_function *functions[MAX_LAUNCHES];
  nereid_arg *args[MAX_LAUNCHES];
  nereid_bench_launch bench[MAX_LAUNCHES];
  int count;
  bool counted;     /* cost is known: no launch is of CUDA C */
  nereid_cost cost; /* of all launches together */
} Case;
/* Words of the variables that every case knows: "bytes=...", and the swept one. 0, or an exit status. */
int case_open(Case *c, nereid_device *d, const Plan *p, int first, const Words *variables);
/* two cases of one name are told apart by their numbers; false: out of memory */
bool number_labels(Case *cases, int n);
void case_close(Case *c, nereid_device *d);
bool segment_is_cuda_c(const Segment *s);

/* ---- bench_check.c ----------------------------------------------------------------------------------------------- */

enum { MAX_OUTPUTS = 32, MAX_CHECKS = 8 };
typedef struct Output {
  const char *name;
  Array array;
} Output; /* array.data is the output's own */
typedef struct Outputs {
  Output at[MAX_OUTPUTS];
  int n;
  int tf32_chain; /* of a device that cut operands of products to tf32 (nereid_function_info) */
} Outputs;
typedef enum { VERDICT_NONE, VERDICT_AGREES, VERDICT_DIFFERS } VerdictState;
/* worst: largest difference; text: of what differs */
typedef struct Verdict {
  VerdictState state;
  double worst;
  char text[300];
} Verdict;
typedef struct Check {
  char *name;
  const char *value;
} Check; /* of --check */
typedef struct Checks {
  Check at[MAX_CHECKS];
  int n;
  bool off;
  double rtol, atol;
} Checks; /* below 0: by the type */
int case_run(Case *c, nereid_device *d);
int case_outputs(const Case *c, Outputs *out, int (*fetch)(void *arg, const LaunchArg *owner, void *to), void *arg);
int case_check_run(Case *c, nereid_device *d, Outputs *out); /* runs once and fetches what changed */
void case_drop_inputs(Case *c);
void outputs_free(Outputs *o);
Verdict outputs_compare(const Outputs *got, const Outputs *want, const char *of, double rtol, double atol);
int check_references(const Checks *checks, const Plan *p, const Words *variables, Outputs *out);

/* ---- bench_triton.c: Triton in a process of its own, which runs the same kernels on the same data ---------------- */

typedef struct Triton Triton;
/* 0, or 1 with a message: no python3, PyTorch, Triton or GPU */
int triton_start(Triton **out);
void triton_stop(Triton *t);
const char *triton_version(const Triton *t); /* "Triton 3.6.0, PyTorch 2.11.0, NVIDIA H200" */
/* Takes c's arrays and launches, as case number `index`. 0; 1: the process is gone; -1: it cannot run this, and why
 * says so. */
int triton_open(Triton *t, const Case *c, int index, char why[300]);
int triton_outputs(Triton *t, const Case *c, int index, Outputs *out, char why[300]); /* runs once; 0, 1, -1 as above */
/* a nereid_bench_case's; remote: a TritonCase */
bool triton_trial(void *remote, bool cold, double *device_ns, double *wall_ns);
/* ns of one of many replayed as a CUDA graph; 0: it cannot */
double triton_graph(Triton *t, int index, int times);
void triton_clear(Triton *t); /* forgets all cases */
typedef struct TritonCase {
  Triton *triton;
  int index;
} TritonCase;

/* ---- the rows of a table ----------------------------------------------------------------------------------------- */

typedef struct Row {
  char *label, *size; /* "n=1048576", or "" */
  double x;           /* the swept value */
  int case_index;
  bool counted;
  bool is_simulated; /* by a device whose run time says nothing of a machine: interp, sim */
  nereid_cost cost;
  nereid_bench_result result, copy;
  int64_t copy_bytes;
  bool bounded; /* the device's ceilings are kept, and the cost is known */
  nereid_bound bound;
  Verdict verdict, triton_verdict;
  bool is_other;      /* after --beside */
  char *checked_with; /* what the results were compared with; NULL: nothing */
  bool has_triton;
  nereid_bench_result triton;
  char *triton_why;    /* why there is none, or NULL */
  nereid_times before; /* of --against; count 0: no such row there */
  double before_ratio; /* the median then by the median now: above 1, faster now */
} Row;
const nereid_times *row_times(const Row *r); /* the device's, else by the host's clock */
double row_gbs(const Row *r);                /* 0: not known */
double row_tflops(const Row *r);
double row_intensity(const Row *r); /* operations a byte; 0: not known */
double row_share(const Row *r);     /* of the copy's bandwidth; 0: not known */

/* the shortest trial, as ceilings are measured: in a graph where there is one, else of row_times */
double row_kernel_ns(const Row *r);
/* Triton's time by ours, above 1: ours is faster; both in graphs, or both by events. 0: not known */
double row_against_triton(const Row *r);

typedef struct Table {
  Row *rows;
  int n, cap;
  const char *title, *device, *sweep, *triton;
  bool cold, compared;
} Table;
bool table_is_wrong(const Table *t);        /* a result differs from what it was compared with */
void put_row_time(char out[24], double ns); /* "45.7 us": three digits */
void table_print(const Table *t);
void table_json(FILE *out, const Table *tables, int n);
void table_csv(FILE *out, const Table *t, bool header);
/* fills `before` from a file that table_json wrote; 0, or 1 with a message */
int table_compare(Table *tables, int n, const char *path);
int plot_svg(const Table *t, const char *path); /* 0, or 1 with a message */

/* a kernel under the roofline */
typedef struct Placed {
  char *label;
  nereid_cost cost;
  double ns;
  bool replayed;
  nereid_bound bound;
} Placed;
/* plot_roofline.c; 0, or 1 with a message */
int plot_roofline(const nereid_ceilings *c, const Placed *kernels, int n, const char *path);

#endif
