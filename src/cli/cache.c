/* cache: what is kept on disk, and throwing it away. */
#include "cli.h"

#include "base/json.h"
#include <stdlib.h>
#include <string.h>

/* "500M", "2GiB", "4096" */
static bool read_size(const char *text, int64_t *out) {
  static const char units[] = "KMGT";
  const char *end, *unit;
  if (!read_whole(text, 10, &end, out) || *out < 0) return false;
  if (*end && (unit = strchr(units, *end))) {
    for (const char *u = units; u <= unit; u++)
      if (__builtin_mul_overflow(*out, 1024, out)) return false;
    end++;
    if (*end == 'i') end++;
  }
  if (*end == 'B') end++;
  return !*end;
}

static void print_size(int64_t bytes) {
  double v = (double)bytes;
  int unit = 0;
  while (v >= 1024 && unit < 4) v /= 1024, unit++;
  printf(unit ? "%.1f %ciB" : "%.0f bytes", v, " KMGT"[unit]);
}

static int cache(int argc, char **argv) {
  bool json = false;
  int64_t most = -1;
  for (int i = 1; i < argc; i++) {
    if (!strcmp(argv[i], "--json")) json = true;
    else if (!strcmp(argv[i], "--clear")) most = 0;
    else if (!strcmp(argv[i], "--trim") && i + 1 < argc && read_size(argv[i + 1], &most)) i++;
    else if (!strcmp(argv[i], "--trim")) return usage_error(&verb_cache, "--trim takes a size: 500M, 2G");
    else if (argv[i][0] != '-') return usage_error(&verb_cache, "unknown word '%s'", argv[i]);
    else {
      int took = option_of_others(&verb_cache, argc - i, argv + i);
      if (took < 0) return 2;
      i += took - 1;
    }
  }
  nereid_error *err = NULL;
  nereid_cache_info info;
  if (most >= 0 && nereid_cache_trim(most, &err)) return report_error(err);
  if (nereid_cache_get_info(&info, &err)) return report_error(err);
  if (json) {
    JsonWriter w = {.file = stdout};
    json_begin_object(&w, NULL);
    json_put_text(&w, "folder", info.folder);
    json_put_int(&w, "entries", info.entries);
    json_put_int(&w, "bytes", info.bytes);
    json_put_int(&w, "limit", info.limit);
    json_put_text(&w, "problem", info.problem);
    json_end_object(&w);
    printf("\n");
    return 0;
  }
  printf("folder   %s\n", *info.folder ? info.folder : "none");
  printf("entries  %d, ", info.entries);
  print_size(info.bytes);
  printf("\nlimit    ");
  if (info.limit) print_size(info.limit);
  else printf("none");
  printf("\n");
  if (*info.problem) printf("not used: %s\n", info.problem);
  return 0;
}

const Verb verb_cache = {
    "cache", "cache [--trim SIZE | --clear] [--json]", "shows what is kept on disk, and throws it away", cache,
    "  --trim SIZE  until no more than SIZE is left (500M, 2G), what was used longest ago goes\n"
    "  --clear      all goes but measured ceilings\n"
    "  --json       as JSON\n\n"
    "NEREID_CACHE_DIR names another folder, NEREID_CACHE_SIZE another limit than 1G (0: none). A folder that other\n"
    "users may write to is not used.\n"};
