/* trace_read: one chunk at a time, from one file after the other.
 *
 * Nothing in a file is believed. A chunk whose checksum is wrong is passed over when another chunk stands where it
 * should end, else the file ends there; either way an event says so. Instrument a whole chunk a record that makes no
 * sense can only come from another program, and ends that chunk. A string that was in a lost chunk reads as "".
 *
 * Strings get numbers of the reader's, the same text the same number, and each file has a table from its own numbers to
 * those.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "prof/record/trace_format.h"

enum { STRINGS_MAX = 1 << 26 };

struct TraceReader {
  Arena *arena;
  char **paths;
  int path_count;
  bool truncated;
  Map *strings;            /* text -> number */
  VEC(const char *) texts; /* by number; 0 is "" */

  int path; /* the next to be opened */
  FILE *file;
  uint32_t process;
  uint32_t *numbers; /* the file's numbers of strings -> ours */
  uint32_t number_cap;
  TraceCodec chunk;
  bool after_damage;
  TraceEvent waiting; /* a message of the reader's own, to be given out next */
  bool has_waiting;
  uint8_t bytes[TRACE_CHUNK];
};

static uint32_t get32(const uint8_t *at) {
  uint32_t v;
  memcpy(&v, at, 4);
  return v;
}

static uint32_t number_of(TraceReader *r, const char *text, size_t n) {
  if (!n) return 0;
  uint32_t number = (uint32_t)(uintptr_t)map_get_n(r->strings, text, n);
  if (number) return number;
  char *copy = arena_strndup(r->arena, text, n);
  if (!copy) return 0;
  vec_push(r->arena, &r->texts, copy);
  number = (uint32_t)r->texts.n - 1;
  map_put_n(r->strings, copy, n, (void *)(uintptr_t)number);
  return number;
}

const char *trace_text(const TraceReader *r, uint32_t id) { return id < (uint32_t)r->texts.n ? r->texts.at[id] : ""; }

bool trace_truncated(const TraceReader *r) { return r->truncated; }

static uint32_t ours(const TraceReader *r, uint64_t id) { return id < r->number_cap ? r->numbers[id] : 0; }

/* A message in the events' stream. */
static void say(TraceReader *r, TraceKind kind, const char *format, const char *path) {
  char text[600];
  snprintf(text, sizeof text, format, path);
  r->waiting =
      (TraceEvent){.kind = kind, .process = r->process, .name = number_of(r, text, strlen(text)), .lost.count = -1};
  if (kind == TRACE_NOTE) memset(&r->waiting.lost, 0, sizeof r->waiting.lost);
  r->has_waiting = true;
}

/* ---- chunks ------------------------------------------------------------------------------------------------------ */

static void file_close(TraceReader *r) {
  if (r->file) fclose(r->file);
  r->file = NULL;
  r->chunk.at = r->chunk.end = r->bytes;
  if (r->numbers) memset(r->numbers, 0, r->number_cap * sizeof *r->numbers);
}

/* NULL, or what is wrong with the file's beginning. *file stays open only with NULL. */
static const char *header_read(const char *path, FILE **file, uint32_t *process) {
  uint8_t header[TRACE_HEADER];
  *file = file_open_stream(path, INT64_MAX);
  if (!*file) return file_reason(errno);
  size_t n = fread(header, 1, sizeof header, *file);
  const char *why =
      ferror(*file)                              ? strerror(errno)
      : n < 8 && !memcmp(header, TRACE_MAGIC, n) ? "it is empty: nothing had been written when its process ended"
      : n < 8 || memcmp(header, TRACE_MAGIC, 8)  ? "this is not a trace that nereid wrote"
      : n < sizeof header                        ? "it is empty: nothing had been written when its process ended"
      : get32(header + 8) != TRACE_VERSION       ? "it was written by another version of nereid, whose traces differ"
                                                 : NULL;
  *process = get32(header + 12);
  if (why) fclose(*file), *file = NULL;
  return why;
}

/* The next whole chunk into r->bytes; false at the file's end. */
static bool chunk_read(TraceReader *r) {
  uint8_t header[TRACE_CHUNK_HEADER];
  const char *path = r->paths[r->path - 1];
  for (;;) {
    size_t n = fread(header, 1, sizeof header, r->file), length = get32(header + 4);
    if (n == 0) return false;
    if (n < sizeof header) return r->truncated = true, false;
    if (get32(header) != TRACE_CHUNK_MAGIC || length > TRACE_CHUNK) {
      r->truncated = true;
      say(r, TRACE_LOST, "%s is damaged; what came after that place", path);
      return false;
    }
    n = fread(r->bytes, 1, length, r->file);
    if (n < length) return r->truncated = true, false;
    uint64_t hash;
    memcpy(&hash, header + 8, 8);
    if (hash != hash_bytes(r->bytes, length, 0)) {
      r->truncated = true;
      say(r, TRACE_LOST, "a part of %s is damaged; what it held", path);
      return true; /* nothing of it is given out: chunk.at is chunk.end */
    }
    if (!length) continue;
    r->chunk = (TraceCodec){.at = r->bytes, .end = r->bytes + length};
    return true;
  }
}

static void string_read(TraceReader *r) {
  uint64_t id = 0, length = 0;
  trace_code_number(&r->chunk, &id);
  trace_code_number(&r->chunk, &length);
  /* Ids count up from 1, and each string takes bytes of the file: none can be larger than what was read. */
  if (r->chunk.bad || id >= STRINGS_MAX || (int64_t)id > ftell(r->file) ||
      length > (uint64_t)(r->chunk.end - r->chunk.at)) {
    r->chunk.bad = true;
    return;
  }
  if (id >= r->number_cap) {
    uint32_t cap = r->number_cap ? r->number_cap : 256;
    while (cap <= id) cap *= 2;
    uint32_t *numbers = realloc(r->numbers, cap * sizeof *numbers);
    if (!numbers) {
      r->chunk.bad = true;
      return;
    }
    memset(numbers + r->number_cap, 0, (cap - r->number_cap) * sizeof *numbers);
    r->numbers = numbers, r->number_cap = cap;
  }
  r->numbers[id] = number_of(r, (const char *)r->chunk.at, strnlen((const char *)r->chunk.at, length));
  r->chunk.at += length;
}

static bool in_range(const TraceEvent *e) { /* of the enumerations that others index tables with */
  switch (e->kind) {
    case TRACE_CALL: return (unsigned)e->call.kind <= CALL_COPY_SYNC;
    case TRACE_COPY: return (unsigned)e->copy.kind <= COPY_UNKNOWN;
    case TRACE_RANGE: return (unsigned)e->range.origin <= RANGE_OTHER;
    default: return true;
  }
}

/* The next event of the chunk; false when there is none. */
static bool record_read(TraceReader *r, TraceEvent *e) {
  while (r->chunk.at < r->chunk.end) {
    uint8_t kind = *r->chunk.at++;
    if (kind == RECORD_STRING) string_read(r);
    else if (kind >= TRACE_KINDS) r->chunk.bad = true;
    else {
      memset(e, 0, offsetof(TraceEvent, sample));
      memset(&e->kernel, 0, sizeof e->kernel); /* the largest but for the stack */
      e->kind = (TraceKind)kind;
      trace_code_event(&r->chunk, e);
      if (!in_range(e)) r->chunk.bad = true;
    }
    if (r->chunk.bad) {
      r->chunk.at = r->chunk.end, r->truncated = true;
      say(r, TRACE_LOST, "%s holds what this version of nereid cannot read; the rest of a part of it",
          r->paths[r->path - 1]);
      return false;
    }
    if (kind == RECORD_STRING) continue;
    e->process = r->process;
    e->name = ours(r, e->name);
    if (e->kind == TRACE_WORK) e->work.shapes = ours(r, e->work.shapes);
    if (e->kind == TRACE_SAMPLE && e->sample.is_symbolic)
      for (uint32_t i = 0; i < e->sample.depth; i++) e->sample.stack[i] = ours(r, e->sample.stack[i]);
    return true;
  }
  return false;
}

bool trace_next(TraceReader *r, TraceEvent *e) {
  for (;;) {
    if (r->has_waiting) {
      *e = r->waiting, r->has_waiting = false;
      return true;
    }
    if (record_read(r, e)) return true;
    if (r->has_waiting) continue;
    if (r->file) {
      if (!chunk_read(r)) file_close(r);
      continue;
    }
    if (r->path == r->path_count) return false;
    const char *path = r->paths[r->path++], *why = header_read(path, &r->file, &r->process);
    if (!why) continue;
    char text[500];
    snprintf(text, sizeof text, "%s was left out: %s", path, why);
    r->truncated = true;
    say(r, TRACE_NOTE, "%s", text);
  }
}

bool trace_rewind(TraceReader *r) {
  file_close(r);
  r->path = 0, r->has_waiting = false;
  return true;
}

/* ---- opening ----------------------------------------------------------------------------------------------------- */

static int is_trace(const struct dirent *d) { return text_ends_with(d->d_name, ".trace"); }

/* Whether the process of a file that can be read closed it. */
static bool closed(FILE *file) {
  uint8_t end[TRACE_CHUNK_HEADER];
  if (fseek(file, -(long)sizeof end, SEEK_END) || ftell(file) < TRACE_HEADER ||
      fread(end, 1, sizeof end, file) < sizeof end)
    return false;
  uint64_t hash = hash_bytes("", 0, 0), stands;
  memcpy(&stands, end + 8, 8);
  return get32(end) == TRACE_CHUNK_MAGIC && !get32(end + 4) && stands == hash;
}

static bool add_path(TraceReader *r, int *cap, const char *folder, const char *name) {
  if (r->path_count == *cap) {
    *cap = *cap ? *cap * 2 : 8;
    char **more = realloc(r->paths, (size_t)*cap * sizeof *more);
    if (!more) return false;
    r->paths = more;
  }
  return (r->paths[r->path_count++] =
              folder ? arena_printf(r->arena, "%s/%s", folder, name) : arena_strdup(r->arena, name)) != NULL;
}

TraceReader *trace_open(const char *path, const char **why, char buffer[300]) {
  const char *unused;
  if (!why) why = &unused;
  *why = "out of memory";
  TraceReader *r = calloc(1, sizeof *r);
  if (!r) return NULL;
  r->chunk.at = r->chunk.end = r->bytes;
  if (!(r->arena = arena_create(NULL)) || !(r->strings = map_create(r->arena, true))) goto failed;
  vec_push(r->arena, &r->texts, "");

  struct stat s;
  int cap = 0;
  if (stat(path, &s)) {
    snprintf(buffer, 300, "%s", strerror(errno));
    *why = buffer;
    goto failed;
  }
  if (S_ISDIR(s.st_mode)) {
    struct dirent **found;
    int n = scandir(path, &found, is_trace, versionsort);
    if (n < 0) {
      snprintf(buffer, 300, "%s", strerror(errno));
      *why = buffer;
      goto failed;
    }
    bool all = true;
    for (int i = 0; i < n; i++) {
      all = all && add_path(r, &cap, path, found[i]->d_name);
      free(found[i]);
    }
    free(found);
    if (!all) goto failed;
    if (!n) {
      *why = "this folder holds no trace (no file *.trace)";
      goto failed;
    }
  } else if (!add_path(r, &cap, NULL, path)) goto failed;

  int readable = 0;
  for (int i = 0; i < r->path_count; i++) {
    FILE *file;
    uint32_t process;
    const char *wrong = header_read(r->paths[i], &file, &process);
    if (!wrong) {
      readable++;
      if (!closed(file)) r->truncated = true;
      fclose(file);
    } else if (!readable) {
      snprintf(buffer, 300, "%s", wrong);
      *why = buffer;
    }
  }
  if (!readable) goto failed;
  *why = NULL;
  return r;

failed:
  trace_reader_free(r);
  return NULL;
}

void trace_reader_free(TraceReader *r) {
  if (!r) return;
  if (r->file) fclose(r->file);
  if (r->arena) arena_destroy(r->arena);
  free(r->paths);
  free(r->numbers);
  free(r);
}
