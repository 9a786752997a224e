/* tune: what the files of `nereid tune` share.
 *
 *     words ──tune.c──▶ spaces (BLOCK=256..8192) and a launch ──▶ configurations ──nereid_tune──▶ results
 *           ──tune_table.c──▶ table, JSON
 */
#ifndef NEREID_CLI_TUNE_H
#define NEREID_CLI_TUNE_H

#include "cli.h"

enum { MAX_SPACES = 16, MAX_CHOICES = 64, MAX_CONFIGS = 4096 };

/* What is tried for one name: BLOCK=256..8192, warps=1,4. */
typedef struct Space {
  char *name;
  char *values[MAX_CHOICES]; /* as Python expressions */
  int count;
  bool of_grid; /* no parameter, but a number that the grid speaks of */
} Space;

typedef struct Search {
  Launch launch;
  const char *device, *grid, *save;
  Space spaces[MAX_SPACES];
  int space_count;
  nereid_tune_options options;
  const char *ignore[MAX_SPACES];
  bool json, exhaustive;
  nereid_config *configs;
  nereid_arg *args; /* of all configurations: space_count each at most */
  char **labels;    /* "BLOCK=1024 warps=8" */
  char **grids;     /* of those that have their own: with a variable of the grid put in; else NULL */
  int count;
  nereid_tune_result *results;
  int best; /* -1: none */
  bool interrupted, kept;
  double seconds;
  nereid_cost cost; /* of the best's launch */
  bool counted;
  /* --exhaustive */
  nereid_tune_result *all; /* of the exhaustive search; NULL: not done */
  int all_best;
  double behind; /* the winner's time over the exhaustive best's, less 1, measured in turn */
} Search;

void search_table(const Search *s);
void search_json(FILE *out, const Search *s);

#endif
