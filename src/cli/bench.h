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

typedef struct Words { char **at; int n, cap; } Words; /* each malloc'ed */
bool words_add(Words *w, const char *word);
void words_free(Words *w);

typedef struct Segment { Words words; bool follows; } Segment; /* one launch: FILE[:KERNEL] ARG=SPEC ... --grid G; follows: --then, else --vs */

enum { MAX_SEGMENTS = 40 };
typedef struct Plan {
  const Verb *verb;              /* whose command line it is */
  Segment segments[MAX_SEGMENTS];
  int segment_count;
  const char *title;             /* of a table of --all, or NULL */
  char *sweep;                   /* the variable's name, or NULL */
  int64_t from, to;
} Plan;

/* The words of a table's command line. Options that are no launch's are handed to `option` (may be NULL), which returns how many words it took, 0 for
 * "not mine", -1 for "wrong, said so". 0, or an exit status. */
int plan_words(Plan *p, int argc, char **argv, int (*option)(void *arg, int argc, char **argv), void *arg);
void plan_free(Plan *p);

enum { MAX_LAUNCHES = 32, MAX_CASES = 16 };
typedef struct Case {            /* at one size */
  const Verb *verb;
  char *label;                   /* "softmax", of several launches the first with "..." */
  Words words[MAX_LAUNCHES];     /* which the launches point into */
  Launch launches[MAX_LAUNCHES];
  nereid_function *functions[MAX_LAUNCHES];
  nereid_arg *args[MAX_LAUNCHES];
  nereid_bench_launch bench[MAX_LAUNCHES];
  int count;
  bool counted;                  /* cost is known: no launch is of CUDA C */
  nereid_cost cost;              /* of all launches together */
} Case;
/* Words of the variables that every case knows: "bytes=...", and the swept one. 0, or an exit status. */
int case_open(Case *c, nereid_device *d, const Plan *p, int first, const Words *variables);
bool number_labels(Case *cases, int n); /* two cases of one name are told apart by their numbers; false: out of memory */
void case_close(Case *c, nereid_device *d);
bool segment_is_cuda_c(const Segment *s);

typedef struct Row {
  char *label, *size;            /* "n=1048576", or "" */
  double x;                      /* the swept value */
  int case_index;
  bool counted;
  nereid_cost cost;
  nereid_bench_result result, copy;
  int64_t copy_bytes;
  nereid_times before;           /* of --against; count 0: no such row there */
  double before_ratio;           /* the median then by the median now: above 1, faster now */
} Row;
const nereid_times *row_times(const Row *r);    /* the device's, else by the host's clock */
double row_gbs(const Row *r);                   /* 0: not known */
double row_tflops(const Row *r);
double row_intensity(const Row *r);             /* operations a byte; 0: not known */
double row_share(const Row *r);                 /* of the copy's bandwidth; 0: not known */

typedef struct Table { Row *rows; int n, cap; const char *title, *device, *sweep; bool cold, compared; } Table;
void table_print(const Table *t);
void table_json(FILE *out, const Table *tables, int n);
void table_csv(FILE *out, const Table *t, bool header);
int table_compare(Table *tables, int n, const char *path); /* fills `before` from a file that table_json wrote; 0, or 1 with a message */
int plot_svg(const Table *t, const char *path);            /* 0, or 1 with a message */

typedef struct Placed { char *label; nereid_cost cost; double ns; bool replayed; nereid_bound bound; } Placed; /* a kernel under the roofline */
int plot_roofline(const nereid_ceilings *c, const Placed *kernels, int n, const char *path); /* plot_roofline.c; 0, or 1 with a message */

#endif
