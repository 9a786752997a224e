/* Winners: which configuration was found best, kept in memory by module and on disk.
 *
 * What decides on a winner makes its key: Nereid's version, the kernel's file (its text) and name, the device (model,
 * multiprocessors or threads, driver: a copy of the cache on another machine finds nothing), and what the finder says:
 * the arguments' types and values. The file tune/HASH in the cache's folder holds it as text (base/store.c): a
 * damaged one counts as absent and is written anew; it appears whole under its name, so that of several processes that
 * tune at once the last one's winner stands.
 *
 *     BLOCK=1024
 *     num_warps=8
 *     ...
 *     # vector_add on NVIDIA H200 ..., 73512 ns
 */
#include <errno.h>
#include <stdlib.h>

#include "measure/tune.h"

enum { MOST_TEXT = 1 << 16 };

struct TunedConfig {
  struct TunedConfig *next;
  char id[33];
  char *text;
};

/* ---- text -------------------------------------------------------------------------------------------------------- */

void found_free(Found *f) {
  buf_destroy(&f->text);
  free(f->lists);
  *f = (Found){0};
}

static bool read_count(const char *text, int *out) {
  char *end;
  long v = strtol(text, &end, 10);
  *out = (int)v;
  return end != text && !*end && v >= 0 && v <= 1024;
}

bool found_parse(Found *f) {
  if (f->text.failed || !f->text.at || f->text.n > MOST_TEXT) return false;
  int lines = 1;
  for (const char *p = f->text.at; *p; p++) lines += *p == '\n';
  free(f->lists);
  f->lists = calloc(2 * (size_t)lines, sizeof *f->lists);
  if (!f->lists) return false;
  f->chosen = (Chosen){.names = f->lists, .texts = f->lists + lines};
  bool good = true;
  for (char *line = f->text.at, *next; *line && good; line = next) {
    size_t n = strcspn(line, "\n");
    next = line + n + (line[n] != 0);
    line[n] = 0;
    char *equals = strchr(line, '=');
    if (*line == '#' || !*line) continue;
    if (!equals || equals == line) return false;
    *equals++ = 0;
    int *count = !strcmp(line, "num_warps")    ? &f->chosen.num_warps
                 : !strcmp(line, "num_stages") ? &f->chosen.num_stages
                 : !strcmp(line, "num_ctas")   ? &f->chosen.num_ctas
                                               : NULL;
    if (count) good = read_count(equals, count);
    else f->lists[f->chosen.count] = line, f->lists[lines + f->chosen.count++] = equals;
  }
  return good;
}

/* ---- where ------------------------------------------------------------------------------------------------------- */

static bool tuning_cache_id(nereid_device *d, const nereid_module *m, const KernelInfo *k, const void *key,
                            size_t key_size, char out[33]) {
  Buf b = {0};
  buf_printf(&b, "%s\n%s\n%d\n", NEREID_VERSION, k->info.name, k->index);
  d->kind->signature(d, &b);
  buf_putc(&b, '\n');
  buf_write(&b, key, key_size);
  buf_write(&b, m->text, m->size);
  if (m->source) buf_puts(&b, m->host.identity ? m->host.identity : "");
  bool good = !b.failed;
  if (good) hash_hex(b.at, b.n, out);
  buf_destroy(&b);
  return good;
}

/* Whether another process can know the names that a host gives. */
static bool in_all_processes(const nereid_module *m) { return !m->source || m->host.identity; }

static struct TunedConfig *in_memory(const nereid_module *m, const char *id) {
  struct TunedConfig *w = m->winners;
  while (w && strcmp(w->id, id)) w = w->next;
  return w;
}

static void remember(nereid_module *m, const char *id, const char *text) {
  char *copy = strdup(text);
  pthread_mutex_lock(&m->tuning_cache_lock);
  struct TunedConfig *w = copy ? in_memory(m, id) : NULL;
  if (w) free(w->text);
  else if (copy && (w = calloc(1, sizeof *w))) {
    memcpy(w->id, id, sizeof w->id);
    w->next = m->winners;
    m->winners = w;
  }
  if (w) w->text = copy;
  else free(copy); /* found again on disk, or tuned again */
  pthread_mutex_unlock(&m->tuning_cache_lock);
}

void tuning_cache_free(nereid_module *m) {
  for (struct TunedConfig *w = m->winners, *next; w; w = next) next = w->next, free(w->text), free(w);
}

/* ---- finding and keeping ----------------------------------------------------------------------------------------- */

bool tuning_cache_find(nereid_device *d, nereid_module *m, const KernelInfo *k, const void *key, size_t key_size,
                       Buf *text) {
  char id[33];
  if (!tuning_cache_id(d, m, k, key, key_size, id)) return false;
  pthread_mutex_lock(&m->tuning_cache_lock);
  const struct TunedConfig *w = in_memory(m, id);
  if (w) buf_puts(text, w->text);
  pthread_mutex_unlock(&m->tuning_cache_lock);
  if (w) return !text->failed;
  if (!in_all_processes(m)) return false;
  bool good = store_find("tune", id, "", text) && text->n && !memchr(text->at, 0, text->n);
  if (good) remember(m, id, text->at);
  else buf_destroy(text);
  return good;
}

bool tuning_cache_keep(nereid_device *d, nereid_module *m, const KernelInfo *k, const void *key, size_t key_size,
                       const char *text, double ns) {
  char id[33];
  errno = ENOMEM;
  if (!tuning_cache_id(d, m, k, key, key_size, id)) return false;
  remember(m, id, text);
  if (!in_all_processes(m)) return true;
  Buf b = {0};
  buf_puts(&b, text);
  buf_printf(&b, "# %s on ", k->info.name);
  d->kind->signature(d, &b);
  buf_printf(&b, ", %.0f ns\n", ns);
  errno = ENOMEM;
  bool kept = !b.failed && store_keep("tune", id, "", b.at, b.n);
  int why = errno;
  buf_destroy(&b);
  errno = why;
  return kept;
}
