/* trace: the format's fields, and the writer.
 *
 * A writer has two buffers of a chunk each. Threads append to one under `lock`, for the tens of nanoseconds that an
 * event takes; who fills it takes `io` as well, changes the buffers, lets `lock` go and writes, so that the others go
 * on meanwhile. Chunks reach the file in order since `io` is only ever taken by somebody who holds `lock`.
 *
 * The writer lives in other people's processes, so it must not be seen there: its file has a high number that a shell's
 * `exec 3>` or a loop over small numbers does not meet, and before each write it makes sure that the number is still
 * its own file's (a daemon closes all, and the number may be anyone's now); a limit on file sizes does not raise its
 * signal; nothing here aborts, and errno is what it was.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "prof/record/trace_format.h"

/* ---- fields ------------------------------------------------------------------------------------------------------ */

void trace_code_number(TraceCodec *c, uint64_t *value) {
  if (c->writes) {
    uint64_t v = *value;
    for (; v > 127; v >>= 7) *c->at++ = (uint8_t)(v | 128);
    *c->at++ = (uint8_t)v;
    return;
  }
  uint64_t v = 0;
  for (int shift = 0; shift < 64; shift += 7) {
    if (c->at == c->end) break;
    uint8_t byte = *c->at++;
    v |= (uint64_t)(byte & 127) << shift;
    if (byte < 128) {
      *value = v;
      return;
    }
  }
  *value = 0, c->bad = true;
}

static void code_small(TraceCodec *c, uint32_t *value) {
  uint64_t v = *value;
  trace_code_number(c, &v);
  if (!c->writes) *value = (uint32_t)v;
}

static void code_signed(TraceCodec *c, int64_t *value) {
  uint64_t v = (uint64_t)*value << 1 ^ (uint64_t)(*value >> 63);
  trace_code_number(c, &v);
  if (!c->writes) *value = (int64_t)(v >> 1 ^ -(v & 1));
}

static void code_double(TraceCodec *c, double *value) { /* most are whole or zero: the bits from the exponent down */
  uint64_t v;
  memcpy(&v, value, 8);
  v = __builtin_bswap64(v);
  trace_code_number(c, &v);
  v = __builtin_bswap64(v);
  if (!c->writes) memcpy(value, &v, 8);
}

#define CODE_AS_SMALL(c, T, field) \
  do { \
    uint32_t as_small = (c)->writes ? (uint32_t)(field) : 0; \
    code_small((c), &as_small); \
    if (!(c)->writes) (field) = (T)as_small; \
  } while (0)

static void code_time(TraceCodec *c, TraceEvent *e) {
  int64_t step = (int64_t)((uint64_t)e->start - (uint64_t)c->last_time),
          length = (int64_t)((uint64_t)e->end - (uint64_t)e->start);
  code_signed(c, &step);
  code_signed(c, &length);
  c->last_time = (int64_t)((uint64_t)c->last_time + (uint64_t)step);
  if (c->writes) return;
  e->start = c->last_time;
  e->end = (int64_t)((uint64_t)e->start + (uint64_t)length);
}

static void code_place(TraceCodec *c, TraceEvent *e) {
  trace_code_number(c, &e->correlation);
  code_small(c, &e->device);
  trace_code_number(c, &e->stream);
}

void trace_code_event(TraceCodec *c, TraceEvent *e) {
  code_time(c, e);
  code_small(c, &e->name);
  code_small(c, &e->thread);
  switch (e->kind) {
    case TRACE_PROCESS: code_signed(c, &e->process_.wall); break;
    case TRACE_THREAD:
    case TRACE_NOTE:
    case TRACE_KINDS: break;
    case TRACE_DEVICE:
      code_small(c, &e->device);
      CODE_AS_SMALL(c, int, e->device_.sm);
      CODE_AS_SMALL(c, int, e->device_.multiprocessors);
      code_double(c, &e->device_.bandwidth);
      code_double(c, &e->device_.flops);
      code_signed(c, &e->device_.memory);
      break;
    case TRACE_CALL:
      trace_code_number(c, &e->correlation);
      CODE_AS_SMALL(c, TraceCallKind, e->call.kind);
      CODE_AS_SMALL(c, int32_t, e->call.result);
      break;
    case TRACE_KERNEL:
      code_place(c, e);
      for (int i = 0; i < 3; i++) code_small(c, &e->kernel.grid[i]);
      for (int i = 0; i < 3; i++) code_small(c, &e->kernel.block[i]);
      code_small(c, &e->kernel.registers);
      code_small(c, &e->kernel.shared);
      trace_code_number(c, &e->kernel.graph);
      break;
    case TRACE_COPY:
      code_place(c, e);
      CODE_AS_SMALL(c, TraceCopyKind, e->copy.kind);
      CODE_AS_SMALL(c, bool, e->copy.pageable);
      code_signed(c, &e->copy.bytes);
      break;
    case TRACE_FILL:
      code_place(c, e);
      code_signed(c, &e->fill.bytes);
      break;
    case TRACE_RANGE:
      CODE_AS_SMALL(c, TraceRangeOrigin, e->range.origin);
      trace_code_number(c, &e->range.id);
      trace_code_number(c, &e->range.parent);
      break;
    case TRACE_METRIC:
      trace_code_number(c, &e->metric.range);
      code_double(c, &e->metric.value);
      break;
    case TRACE_WORK:
      trace_code_number(c, &e->correlation);
      code_double(c, &e->work.flops);
      code_double(c, &e->work.bytes);
      CODE_AS_SMALL(c, bool, e->work.exact);
      code_small(c, &e->work.shapes);
      break;
    case TRACE_MEMORY:
      code_small(c, &e->device);
      trace_code_number(c, &e->memory.address);
      code_signed(c, &e->memory.bytes);
      code_signed(c, &e->memory.in_use);
      CODE_AS_SMALL(c, bool, e->memory.pinned_host);
      break;
    case TRACE_SAMPLE:
      code_signed(c, &e->sample.weight);
      CODE_AS_SMALL(c, bool, e->sample.is_symbolic);
      code_small(c, &e->sample.depth);
      /* only what is read: trace_event has looked */
      if (e->sample.depth > TRACE_STACK) e->sample.depth = 0, c->bad = true;
      for (uint32_t i = 0; i < e->sample.depth; i++) trace_code_number(c, &e->sample.stack[i]);
      break;
    case TRACE_MODULE:
      trace_code_number(c, &e->module.base);
      trace_code_number(c, &e->module.size);
      trace_code_number(c, &e->module.offset);
      break;
    case TRACE_LOST: code_signed(c, &e->lost.count); break;
  }
}

/* ---- writer ------------------------------------------------------------------------------------------------------ */

typedef struct Chunk {
  size_t n; /* bytes of payload */
  int64_t events;
  int64_t last_time;
  uint8_t bytes[TRACE_CHUNK_HEADER + TRACE_CHUNK];
} Chunk;

struct TraceWriter {
  pthread_mutex_t lock, io;
  Chunk *filling, *spare;
  Arena *arena;
  Map *strings; /* text -> id */
  uint32_t string_count, process, command;
  char *command_text;
  int64_t start, wall;
  /* under io: */
  char *path;
  int file;
  dev_t device;
  ino_t inode;
  off_t size;   /* of the whole chunks in the file */
  int error;    /* errno of the first write that failed */
  int64_t lost; /* events */
};

int64_t trace_clock(void) { return clock_ns(); }

static void put32(uint8_t *at, uint32_t v) { memcpy(at, &v, 4); }

static void chunk_clear(Chunk *c) { c->n = 0, c->events = 0, c->last_time = 0; }

/* All n bytes or false with errno. A limit on file sizes (RLIMIT_FSIZE) would send this thread SIGXFSZ, which ends a
 * process. */
static bool write_all(int file, const uint8_t *bytes, size_t n) {
  sigset_t limit, before, pending;
  sigemptyset(&limit);
  sigaddset(&limit, SIGXFSZ);
  pthread_sigmask(SIG_BLOCK, &limit, &before);
  bool was_pending = !sigpending(&pending) && sigismember(&pending, SIGXFSZ);
  while (n) {
    ssize_t done = write(file, bytes, n);
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) {
      if (!done) errno = ENOSPC;
      break;
    }
    bytes += done, n -= (size_t)done;
  }
  int why = errno;
  if (n && why == EFBIG && !was_pending && !sigismember(&before, SIGXFSZ))
    sigtimedwait(&limit, NULL, &(struct timespec){0});
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  errno = why;
  return !n;
}

/* The file's number, out of the way of the program's. */
static int high_number(int file) {
  for (int low = 900; low >= 100; low -= 400) {
    int high = fcntl(file, F_DUPFD_CLOEXEC, low);
    if (high >= 0) {
      close(file);
      return high;
    }
  }
  return file;
}

/* Whether w->file is still our file; the program may have closed it and given its number away. Opened again when it can
 * be. */
static bool file_is_ours(TraceWriter *w) {
  struct stat s;
  if (w->file >= 0 && !fstat(w->file, &s) && s.st_dev == w->device && s.st_ino == w->inode) return true;
  w->file = open(w->path, O_WRONLY | O_CLOEXEC | O_APPEND);
  if (w->file < 0) return false;
  if (!fstat(w->file, &s) && s.st_dev == w->device && s.st_ino == w->inode) {
    w->file = high_number(w->file);
    return true;
  }
  close(w->file);
  w->file = -1, errno = ENOENT;
  return false;
}

/* A chunk with a payload of c->n bytes, to the file; holds io. */
static void chunk_write(TraceWriter *w, Chunk *c) {
  size_t size = TRACE_CHUNK_HEADER + c->n;
  uint64_t hash = hash_bytes(c->bytes + TRACE_CHUNK_HEADER, c->n, 0);
  put32(c->bytes, TRACE_CHUNK_MAGIC);
  put32(c->bytes + 4, (uint32_t)c->n);
  memcpy(c->bytes + 8, &hash, 8);
  if (w->error) {
    w->lost += c->events;
    return;
  }
  if (file_is_ours(w) && write_all(w->file, c->bytes, size)) {
    w->size += (off_t)size;
    return;
  }
  w->error = errno ? errno : EIO;
  w->lost += c->events;
  if (w->file >= 0 && ftruncate(w->file, w->size)) { /* the reader skips what is not whole */
  }
}

/* Writes what is there; holds lock when called, nothing afterwards. */
static void flush_unlock(TraceWriter *w) {
  int before = errno;
  pthread_mutex_lock(&w->io);
  Chunk *full = w->filling;
  w->filling = w->spare, w->spare = full;
  pthread_mutex_unlock(&w->lock);
  if (full->n) chunk_write(w, full);
  chunk_clear(full);
  pthread_mutex_unlock(&w->io);
  errno = before;
}

/* Holds lock when it returns, with room for n bytes. */
static void lock_with_room(TraceWriter *w, size_t n) {
  for (pthread_mutex_lock(&w->lock); w->filling->n + n > TRACE_CHUNK; pthread_mutex_lock(&w->lock)) flush_unlock(w);
}

static uint32_t string_locked(TraceWriter *w, const char *text, size_t n) {
  uint32_t id = ++w->string_count;
  char *copy = arena_strndup(w->arena, text, n);
  if (!copy) return 0;
  map_put_n(w->strings, copy, n, (void *)(uintptr_t)id);
  TraceCodec c = {w->filling->bytes + TRACE_CHUNK_HEADER + w->filling->n, NULL, true};
  uint64_t number = id, length = n;
  *c.at++ = RECORD_STRING;
  trace_code_number(&c, &number);
  trace_code_number(&c, &length);
  memcpy(c.at, text, n);
  w->filling->n = (size_t)(c.at - w->filling->bytes) - TRACE_CHUNK_HEADER + n;
  return id;
}

uint32_t trace_string(TraceWriter *w, const char *text) {
  if (!w || !text || !*text) return 0;
  size_t n = strnlen(text, TRACE_TEXT);
  lock_with_room(w, n + 32);
  uint32_t id = (uint32_t)(uintptr_t)map_get_n(w->strings, text, n);
  if (!id) id = string_locked(w, text, n);
  pthread_mutex_unlock(&w->lock);
  return id;
}

static void event_locked(TraceWriter *w, const TraceEvent *e) {
  Chunk *f = w->filling;
  TraceCodec c = {f->bytes + TRACE_CHUNK_HEADER + f->n, NULL, true, false, f->last_time};
  *c.at++ = (uint8_t)e->kind;
  trace_code_event(&c, (TraceEvent *)e); /* writing leaves it as it is */
  f->n = (size_t)(c.at - f->bytes) - TRACE_CHUNK_HEADER;
  f->last_time = c.last_time;
  f->events++;
}

void trace_event(TraceWriter *w, const TraceEvent *e) {
  if (!w || (unsigned)e->kind >= TRACE_KINDS || (e->kind == TRACE_SAMPLE && e->sample.depth > TRACE_STACK)) return;
  lock_with_room(w, RECORD_MAX);
  event_locked(w, e);
  pthread_mutex_unlock(&w->lock);
}

/* After chunks were lost: whether a string's own chunk is among them is not known, so it gets a new number. */
static void strings_forget(TraceWriter *w) {
  pthread_mutex_lock(&w->lock);
  Map *fresh = map_create(w->arena, true);
  if (fresh) w->strings = fresh;
  pthread_mutex_unlock(&w->lock);
}

static void process_event(TraceWriter *w, int64_t end) {
  trace_event(w, &(TraceEvent){.kind = TRACE_PROCESS,
                               .name = w->command,
                               .start = w->start,
                               .end = end,
                               .process = w->process,
                               .process_.wall = w->wall});
}

static void writer_free(TraceWriter *w) {
  if (!w) return;
  if (w->arena) arena_destroy(w->arena);
  free(w->path);
  free(w->filling);
  free(w->spare);
  pthread_mutex_destroy(&w->lock);
  pthread_mutex_destroy(&w->io);
  free(w);
}

TraceWriter *trace_create(const char *path, const char *command) {
  TraceWriter *w = calloc(1, sizeof *w);
  if (!w) return NULL;
  pthread_mutex_init(&w->lock, NULL);
  pthread_mutex_init(&w->io, NULL);
  w->file = -1;
  w->filling = calloc(1, sizeof *w->filling), w->spare = calloc(1, sizeof *w->spare);
  if ((w->arena = arena_create(NULL))) w->strings = map_create(w->arena, true);
  if (!w->filling || !w->spare || !w->strings) return writer_free(w), errno = ENOMEM, NULL;

  struct stat s;
  w->file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_APPEND, 0666);
  if (w->file < 0) goto failed;
  w->file = high_number(w->file);
  w->path = realpath(path, NULL);
  if (!w->path || fstat(w->file, &s)) goto failed;
  w->device = s.st_dev, w->inode = s.st_ino, w->process = (uint32_t)getpid();
  uint8_t header[TRACE_HEADER] = TRACE_MAGIC;
  put32(header + 8, TRACE_VERSION);
  put32(header + 12, w->process);
  if (!write_all(w->file, header, sizeof header)) goto failed;
  w->size = TRACE_HEADER;

  struct timespec wall;
  clock_gettime(CLOCK_REALTIME, &wall);
  w->start = trace_clock(), w->wall = wall.tv_sec * INT64_C(1000000000) + wall.tv_nsec - w->start;
  w->command_text = arena_strdup(w->arena, command ? command : "");
  w->command = trace_string(w, w->command_text);
  process_event(w, w->start);
  return w;

failed:;
  int why = errno;
  if (w->file >= 0) {
    if (!fstat(w->file, &s) && S_ISREG(s.st_mode)) unlink(path); /* not /dev/full */
    close(w->file);
  }
  writer_free(w);
  errno = why;
  return NULL;
}

void trace_flush(TraceWriter *w) {
  if (!w) return;
  pthread_mutex_lock(&w->lock);
  flush_unlock(w);
}

/* The last event and the mark of the end. What could not be written is said in the file, if a few bytes of room are
 * left. */
static int write_end(TraceWriter *w) {
  trace_flush(w);
  pthread_mutex_lock(&w->io);
  int64_t lost = w->lost;
  int error = w->error;
  w->error = 0;
  pthread_mutex_unlock(&w->io);
  if (error) {
    char text[200];
    strings_forget(w);
    w->command = trace_string(w, w->command_text);
    snprintf(text, sizeof text, "events that could not be written: %s", strerror(error));
    trace_event(w, &(TraceEvent){.kind = TRACE_LOST,
                                 .name = trace_string(w, text),
                                 .start = trace_clock(),
                                 .end = trace_clock(),
                                 .lost.count = lost});
  }
  process_event(w, trace_clock());
  trace_flush(w);
  pthread_mutex_lock(&w->io);
  chunk_clear(w->spare);
  if (!w->error) chunk_write(w, w->spare); /* of length 0 */
  if (!w->error) w->error = error, w->lost = lost;
  error = w->error;
  pthread_mutex_unlock(&w->io);
  return error;
}

void trace_mark_end(TraceWriter *w) {
  if (w) write_end(w);
}

int trace_close(TraceWriter *w, int64_t *lost) {
  if (lost) *lost = 0;
  if (!w) return 0;
  int before = errno, error = write_end(w);
  if (lost) *lost = w->lost;
  if (file_is_ours(w) && close(w->file) && !error) error = errno;
  writer_free(w);
  errno = before;
  return error;
}

void trace_abandon(TraceWriter *w) {
  if (!w) return;
  struct stat s;
  if (w->file >= 0 && !fstat(w->file, &s) && s.st_dev == w->device && s.st_ino == w->inode) close(w->file);
  /* The locks may be held by threads that this process does not have: they and what they guard are left as they are. */
}
