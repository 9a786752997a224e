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
/* A recorded constant as Python text, malloc'ed; "triton_dtype:fp16" of a type. NULL: it has no such text. */
char *replay_constant(const Json *v);
char *replay_path(const char *root, const char *file);       /* where a row's file is; to be freed */
bool replay_dims(const Json *list, int64_t *out, int *rank); /* up to MAX_DIMS */

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
