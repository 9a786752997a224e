/* replay: what replay.c (rows, workers, summary) and replay_row.c (one recorded launch) share. */
#ifndef NEREID_CLI_REPLAY_H
#define NEREID_CLI_REPLAY_H

#include "cli.h"
#include "base/json.h"

typedef struct ReplayOptions {
  const char *log, *root, *device, *filter;
  const char *target; /* a GPU's, with compile_only: to machine code, as far as ptxas is there */
  int jobs, timeout_s;
  int64_t first_row, last_row; /* of the log, counted from 1; 0: all */
  int64_t max_programs;        /* more are sampled: the first, the last and some at random */
  bool compile_only, json;
  Defines defines;
} ReplayOptions;

/* How far a row came. */
typedef enum {
  REPLAY_AGREES,    /* compiled, ran on both, same results */
  REPLAY_COMPILED,  /* --compile-only, or nothing to run (an empty grid counts as run) */
  REPLAY_NO_INPUTS, /* compiled; no generated input keeps the interpreter within the recorded arrays */
  REPLAY_DIFFERS,
  REPLAY_RACE, /* differs, and the interpreter finds that programs write over each other: no one result is right */
  REPLAY_RUN_FAILED,
  REPLAY_COMPILE_FAILED,
  REPLAY_TIMEOUT,
  REPLAY_CRASH,
  REPLAY_STATE_COUNT
} ReplayState;
extern const char *const replay_state_names[REPLAY_STATE_COUNT];

/* replay_args.c: argument i of a row; of arrays their type alone, of a tuple how many items it has. *text: what a
 * constexpr points to, to be freed. */
bool replay_argument(const Json *a, int i, nereid_arg *arg, char **text, char *why, size_t size);
/* Of a constexpr. The others (functions, an Enum's members) are names, which recorded.c answers for. */
bool replay_has_text(const Json *v);
char *replay_path(const char *root, const char *file);       /* where a row's file is; to be freed */
bool replay_dims(const Json *list, int64_t *out, int *rank); /* up to MAX_DIMS */

/* recorded.c: a launch of a log. */
typedef struct Recorded {
  const Json *row; /* these three: the caller's */
  const char *root;
  const Defines *defines; /* said before the log's names; or NULL */
  nereid_arg *args;       /* the launch's `given`, then the items of their tuples, `count` in all */
  const Json **nodes;     /* parallel to args: what the log says */
  char **texts;           /* of constexprs */
  int count, given;
} Recorded;
bool recorded_read(Recorded *r, char *why, size_t size); /* fills in what is not the caller's */
void recorded_free(Recorded *r);
/* r must outlive the module. */
nereid_status recorded_load(const Recorded *r, nereid_module **out, nereid_error **error);
bool recorded_same_module(const Recorded *a, const Recorded *b); /* one file, and names of the same values */

/* One process's own devices. */
typedef struct Replayer {
  const ReplayOptions *options;
  nereid_device *device, *interp;
} Replayer;

/* Does row number `number` and prints its result as one line of JSON to out. */
void replay_row(Replayer *r, const Json *row, int64_t number, FILE *out);
/* Begins such a line: what every row has. */
void replay_begin_row(JsonWriter *w, int64_t number, const Json *row, ReplayState state, const char *detail);

#endif
