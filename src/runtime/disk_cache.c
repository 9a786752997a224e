/* What a caller may know of the cache on disk and do with it (base/store.c), and how compilers are stopped. */
#include <errno.h>
#include <stdlib.h>

#include "runtime/runtime.h"

nereid_status nereid_cache_get_info(nereid_cache_info *out, nereid_error **error) {
  if (!out) return error_null(error, "nereid_cache_get_info", "out");
  Arena *a = arena_create(NULL);
  if (!a) return error_out_of_memory(error);
  const char *folder = cache_dir(a);
  Buf problem = {0};
  StoreSize size = store_size();
  *out = (nereid_cache_info){.bytes = size.bytes, .entries = size.entries, .limit = store_limit()};
  snprintf(out->folder, sizeof out->folder, "%s", folder ? folder : "");
  if (!folder) buf_puts(&problem, "neither NEREID_CACHE_DIR, XDG_CACHE_HOME nor HOME is set");
  else store_problem(&problem);
  if (problem.at) snprintf(out->problem, sizeof out->problem, "%s", problem.at);
  bool failed = problem.failed;
  buf_destroy(&problem);
  arena_destroy(a);
  return failed ? error_out_of_memory(error) : NEREID_OK;
}

nereid_status nereid_cache_trim(int64_t bytes, nereid_error **error) {
  if (bytes < 0) return error_set(error, NEREID_BAD_ARGUMENT, NULL, "nereid_cache_trim: %lld bytes", (long long)bytes);
  if (store_trim(bytes)) return NEREID_OK;
  int number = errno;
  Buf why = {0};
  bool problem = store_problem(&why);
  nereid_status status = problem && why.at
                             ? error_set(error, NEREID_BAD_FILE, NULL, "the cache is not used: %s", why.at)
                             : error_errno(error, NEREID_BAD_FILE, number, "cannot remove all of the cache");
  buf_destroy(&why);
  return status;
}

void nereid_stop_compilers(void) {
  process_stop_all();
  temp_remove_all();
}
