/* sort: an external merge sort. Records are gathered in memory; when that is full they are sorted and written to a
 * temporary file as a run; at the end the runs are merged. A trace of any length is so put in order in a fixed amount
 * of memory:
 *
 *     add add add ... ─▶ [ memory ] ─sort─▶ run 1, run 2, ... in an unlinked file ─▶ merge ─▶ next next next ...
 *
 * The temporary file lies in $TMPDIR or /tmp and has no name, so that it goes with the process. Nothing is written
 * while all fits in memory.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "prof/view/views.h"

/* offsets in the file; records in the buffer, and the next of them */
typedef struct Run {
  int64_t at, end;
  char *buffer;
  size_t have, next;
} Run;

struct Sorter {
  size_t record, capacity, room; /* records in memory: at most, and allocated so far */
  int (*compare)(const void *, const void *);
  char *memory;
  size_t n, next;
  char *scratch; /* of the merge sort (qsort of libc is not stable everywhere): as much again */
  int file;
  int64_t file_end;
  Run *runs;
  int run_count, run_cap, per_run;
  int *heap, heap_n; /* runs by their next record, the least first */
  bool reading;
  const char *error;
  char text[160];
};

Sorter *sorter_create(size_t record, int (*compare)(const void *, const void *), size_t memory) {
  Sorter *s = calloc(1, sizeof *s);
  if (!s) return NULL;
  s->record = record, s->compare = compare, s->file = -1;
  s->capacity = memory / 2 / record < 16 ? 16 : memory / 2 / record;
  return s;
}

const char *sorter_error(const Sorter *s) { return s->error; }

static bool failed(Sorter *s, const char *what, int error) {
  snprintf(s->text, sizeof s->text, "%s: %s", what, strerror(error));
  return s->error = s->text, false;
}

/* Merges sorted halves until all is sorted; the result is in s->memory. */
static void sort_memory(Sorter *s) {
  size_t size = s->record;
  char *from = s->memory, *to = s->scratch;
  for (size_t half = 1; half < s->n; half *= 2) {
    for (size_t low = 0; low < s->n; low += 2 * half) {
      size_t a = low, middle = low + half < s->n ? low + half : s->n, b = middle,
             end = middle + half < s->n ? middle + half : s->n;
      /* Events come nearly in order: two halves that are in order already are one. */
      if (b == end || s->compare(from + (b - 1) * size, from + b * size) <= 0) {
        memcpy(to + low * size, from + low * size, (end - low) * size);
        continue;
      }
      for (size_t o = low; o < end; o++) {
        bool left = a < middle && (b >= end || s->compare(from + a * size, from + b * size) <= 0);
        memcpy(to + o * size, from + (left ? a++ : b++) * size, size);
      }
    }
    char *t = from;
    from = to, to = t;
  }
  s->memory = from, s->scratch = to;
}

static bool write_run(Sorter *s) {
  if (s->file < 0) {
    if ((s->file = temp_file()) < 0) return failed(s, "a temporary file cannot be made (set TMPDIR)", errno);
  }
  if (s->run_count == s->run_cap) {
    int cap = s->run_cap ? 2 * s->run_cap : 8;
    Run *runs = realloc(s->runs, (size_t)cap * sizeof *runs);
    if (!runs) return failed(s, "sorting", ENOMEM);
    s->runs = runs, s->run_cap = cap;
  }
  sort_memory(s);
  size_t bytes = s->n * s->record;
  s->runs[s->run_count++] = (Run){s->file_end, s->file_end + (int64_t)bytes, NULL, 0, 0};
  for (size_t done = 0; done < bytes;) {
    ssize_t w = pwrite(s->file, s->memory + done, bytes - done, s->file_end + (int64_t)done);
    if (w < 0 && errno == EINTR) continue;
    if (w <= 0)
      return failed(s, "a temporary file cannot be written (TMPDIR names its folder)", w < 0 ? errno : ENOSPC);
    done += (size_t)w;
  }
  s->file_end += (int64_t)bytes, s->n = 0;
  return true;
}

static bool make_room(Sorter *s) {
  size_t room = s->room ? 2 * s->room : 64;
  if (room > s->capacity) room = s->capacity;
  char *more = realloc(s->memory, room * s->record);
  if (more) s->memory = more;
  char *scratch = more ? realloc(s->scratch, room * s->record) : NULL;
  if (!scratch) return false;
  s->scratch = scratch, s->room = room;
  return true;
}

bool sorter_add(Sorter *s, const void *record) {
  if (s->error) return false;
  if (s->n == s->capacity && !write_run(s)) return false;
  if (s->n == s->room && !make_room(s)) return failed(s, "sorting", ENOMEM);
  memcpy(s->memory + s->n++ * s->record, record, s->record);
  return true;
}

static bool fill(Sorter *s, Run *r) {
  size_t want = (size_t)(r->end - r->at), most = (size_t)s->per_run * s->record, got = 0;
  if (want > most) want = most;
  while (got < want) {
    ssize_t n = pread(s->file, r->buffer + got, want - got, r->at + (int64_t)got);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return failed(s, "a temporary file cannot be read", n < 0 ? errno : EIO);
    got += (size_t)n;
  }
  r->at += (int64_t)got, r->have = got / s->record, r->next = 0;
  return true;
}

static const char *head(const Sorter *s, int run) { return s->runs[run].buffer + s->runs[run].next * s->record; }
static bool before(const Sorter *s, int a, int b) {
  int c = s->compare(head(s, a), head(s, b));
  return c ? c < 0 : a < b; /* earlier runs hold what came earlier */
}
static void sift(Sorter *s, int at) {
  for (;;) {
    int least = at;
    for (int child = 2 * at + 1; child <= 2 * at + 2 && child < s->heap_n; child++)
      if (before(s, s->heap[child], s->heap[least])) least = child;
    if (least == at) return;
    int t = s->heap[at];
    s->heap[at] = s->heap[least], s->heap[least] = t, at = least;
  }
}

static bool begin_reading(Sorter *s) {
  s->reading = true;
  if (!s->run_count) {
    if (s->memory) sort_memory(s);
    return true;
  }
  if (s->n && !write_run(s)) return false;
  /* The memory of gathering becomes the buffers of merging. */
  size_t all = s->capacity * s->record;
  s->per_run = (int)(s->capacity / (size_t)s->run_count);
  free(s->scratch), s->scratch = NULL;
  if (s->per_run < 16) { /* more runs than memory was meant for: a little of each */
    s->per_run = 16, all = (size_t)s->run_count * 16 * s->record;
    free(s->memory), s->memory = malloc(all);
  }
  s->heap = malloc((size_t)s->run_count * sizeof *s->heap);
  if (!s->memory || !s->heap) return failed(s, "sorting", ENOMEM);
  for (int i = 0; i < s->run_count; i++) {
    s->runs[i].buffer = s->memory + (size_t)i * (size_t)s->per_run * s->record;
    if (!fill(s, &s->runs[i])) return false;
    s->heap[s->heap_n++] = i;
  }
  for (int i = s->heap_n / 2; i >= 0; i--) sift(s, i);
  return true;
}

bool sorter_next(Sorter *s, void *record) {
  if (s->error || (!s->reading && !begin_reading(s))) return false;
  if (!s->run_count) {
    if (s->next == s->n) return false;
    return memcpy(record, s->memory + s->next++ * s->record, s->record), true;
  }
  if (!s->heap_n) return false;
  Run *r = &s->runs[s->heap[0]];
  memcpy(record, head(s, s->heap[0]), s->record);
  if (++r->next == r->have) {
    if (r->at < r->end) {
      if (!fill(s, r)) return false;
    } else s->heap[0] = s->heap[--s->heap_n];
  }
  if (s->heap_n) sift(s, 0);
  return true;
}

void sorter_free(Sorter *s) {
  if (!s) return;
  if (s->file >= 0) close(s->file);
  free(s->memory), free(s->scratch), free(s->runs), free(s->heap), free(s);
}
