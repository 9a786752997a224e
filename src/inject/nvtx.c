/* nvtx: ranges that a program marks with NVTX, into the trace.
 *
 * NVTX is a header: its first call looks for the library that $NVTX_INJECTION64_PATH names and lets it fill tables of
 * functions, one table a module, at places that never change (nvtxTypes.h of NVTX 3; the names below are its). What a
 * program does not call stays empty.
 *
 * Pushed ranges are a stack of their thread and domain; started ones belong to the process, and end in any thread.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <wchar.h>

#include "inject/inject.h"

enum { CORE = 1, CORE2 = 5, EXPORT_CALLBACKS = 1, DEPTH = 256, STARTED = 1024 };
enum { MESSAGE_ASCII = 1, MESSAGE_WIDE = 2, MESSAGE_REGISTERED = 3 };

typedef struct Attributes { /* nvtxEventAttributes_v2 */
  uint16_t version, size;
  uint32_t category;
  int32_t color_type;
  uint32_t color;
  int32_t payload_type, reserved;
  uint64_t payload;
  int32_t message_type;
  const void *message;
} Attributes;

typedef struct Open {
  uint32_t name, thread;
  int64_t start;
  uint64_t id, parent;
  const void *domain;
} Open;

/* Of a thread: its open ranges of all domains, in order. What is deeper than DEPTH is counted and not recorded. */
static _Thread_local struct {
  Open open[DEPTH];
  int n, deeper;
} mine;

static _Atomic uint64_t last_id;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static Open started[STARTED]; /* id 0: free */

void nvtx_forget(void) {
  lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
  mine.n = mine.deeper = 0;
  memset(started, 0, sizeof started);
}

/* ---- names ------------------------------------------------------------------------------------------------------- */

static uint32_t wide_string(TraceWriter *w, const wchar_t *text) { /* as UTF-8 */
  char out[1024];
  size_t n = 0;
  for (; text && *text && n + 4 < sizeof out; text++) {
    uint32_t c = (uint32_t)*text;
    if (c < 0x80) out[n++] = (char)c;
    else if (c < 0x800) out[n++] = (char)(0xc0 | c >> 6), out[n++] = (char)(0x80 | (c & 63));
    else if (c < 0x10000)
      out[n++] = (char)(0xe0 | c >> 12), out[n++] = (char)(0x80 | (c >> 6 & 63)), out[n++] = (char)(0x80 | (c & 63));
    else {
      out[n++] = (char)(0xf0 | (c >> 18 & 7)), out[n++] = (char)(0x80 | (c >> 12 & 63));
      out[n++] = (char)(0x80 | (c >> 6 & 63)), out[n++] = (char)(0x80 | (c & 63));
    }
  }
  out[n] = 0;
  return trace_string(w, out);
}

/* A registered string's handle is its text. */
static uint32_t message_of(TraceWriter *w, const Attributes *a) {
  if (!a || !a->message) return trace_string(w, "(no message)");
  return a->message_type == MESSAGE_WIDE ? wide_string(w, a->message) : trace_string(w, a->message);
}

/* ---- ranges ------------------------------------------------------------------------------------------------------ */

static uint32_t this_thread(void) { return (uint32_t)syscall(SYS_gettid); }

static void write_range(TraceWriter *w, const Open *o, int64_t end) {
  inject_has_ranges();
  trace_event(w, &(TraceEvent){.kind = TRACE_RANGE,
                               .name = o->name,
                               .start = o->start,
                               .end = end,
                               .thread = o->thread,
                               .range = {RANGE_NVTX, o->id, o->parent}});
}

static int push(const void *domain, uint32_t name) {
  if (mine.n == DEPTH) return mine.n + mine.deeper++;
  uint64_t id = atomic_fetch_add_explicit(&last_id, 1, memory_order_relaxed) + 1;
  mine.open[mine.n] = (Open){name, this_thread(), trace_clock(), id, mine.n ? mine.open[mine.n - 1].id : 0, domain};
  return mine.n++;
}

static int pop(const void *domain) {
  if (mine.deeper) return mine.n + --mine.deeper;
  int at = mine.n;
  while (at && mine.open[at - 1].domain != domain) at--;
  if (!at) return -2; /* as NVTX says that no tool is there: popped without a push */
  TraceWriter *w = inject_trace();
  if (w) write_range(w, &mine.open[at - 1], trace_clock());
  memmove(&mine.open[at - 1], &mine.open[at], sizeof(Open) * (size_t)(mine.n - at));
  return --mine.n;
}

static uint64_t start(const void *domain, uint32_t name) {
  uint64_t id = atomic_fetch_add_explicit(&last_id, 1, memory_order_relaxed) + 1;
  pthread_mutex_lock(&lock);
  for (int i = 0; i < STARTED; i++) {
    Open *o = &started[(id + (uint64_t)i) % STARTED];
    if (o->id) continue;
    *o = (Open){name, this_thread(), trace_clock(), id, 0, domain};
    break;
  }
  pthread_mutex_unlock(&lock);
  return id;
}

static void end(uint64_t id) {
  Open found = {0};
  pthread_mutex_lock(&lock);
  for (int i = 0; id && i < STARTED && !found.id; i++) {
    Open *o = &started[(id + (uint64_t)i) % STARTED];
    if (o->id == id) found = *o, o->id = 0;
  }
  pthread_mutex_unlock(&lock);
  TraceWriter *w = inject_trace();
  if (found.id && w) write_range(w, &found, trace_clock());
}

static void mark(uint32_t name) {
  TraceWriter *w = inject_trace();
  if (!w) return;
  int64_t now = trace_clock();
  uint64_t id = atomic_fetch_add_explicit(&last_id, 1, memory_order_relaxed) + 1;
  write_range(w, &(Open){name, this_thread(), now, id, mine.n ? mine.open[mine.n - 1].id : 0}, now);
}

/* ---- NVTX's functions -------------------------------------------------------------------------------------------- */

static void mark_ex(const Attributes *a) { mark(message_of(inject_trace(), a)); }
static void mark_a(const char *s) { mark(trace_string(inject_trace(), s)); }
static void mark_w(const wchar_t *s) { mark(wide_string(inject_trace(), s)); }
static uint64_t start_ex(const Attributes *a) { return start(NULL, message_of(inject_trace(), a)); }
static uint64_t start_a(const char *s) { return start(NULL, trace_string(inject_trace(), s)); }
static uint64_t start_w(const wchar_t *s) { return start(NULL, wide_string(inject_trace(), s)); }
static int push_ex(const Attributes *a) { return push(NULL, message_of(inject_trace(), a)); }
static int push_a(const char *s) { return push(NULL, trace_string(inject_trace(), s)); }
static int push_w(const wchar_t *s) { return push(NULL, wide_string(inject_trace(), s)); }
static int pop_core(void) { return pop(NULL); }
static void name_thread_a(uint32_t thread, const char *s) {
  TraceWriter *w = inject_trace();
  int64_t now = trace_clock();
  trace_event(
      w, &(TraceEvent){.kind = TRACE_THREAD, .name = trace_string(w, s), .start = now, .end = now, .thread = thread});
}

static void domain_mark(const void *d, const Attributes *a) { mark_ex(a); }
static uint64_t domain_start(const void *d, const Attributes *a) { return start(d, message_of(inject_trace(), a)); }
static void domain_end(const void *d, uint64_t id) { end(id); }
static int domain_push(const void *d, const Attributes *a) { return push(d, message_of(inject_trace(), a)); }
static int domain_pop(const void *d) { return pop(d); }
static void *domain_string(const void *d, const char *s) { return strdup(s ? s : ""); }
static void *domain_string_w(const void *d, const wchar_t *s) {
  char text[1024];
  mbstate_t state = {0};
  const wchar_t *at = s;
  size_t n = s ? wcsrtombs(text, &at, sizeof text - 1, &state) : 0;
  text[n == (size_t)-1 ? 0 : n] = 0;
  return strdup(text);
}
static void *domain_create(const char *name) { return strdup(name ? name : ""); } /* any address of its own will do */
static void *domain_create_w(const wchar_t *name) { return domain_string_w(NULL, name); }
static void domain_destroy(void *d) {} /* its ranges may still be open */

typedef void (*Any)(void);
/* clang-format off */
static const struct { int module, place; Any function; } functions[] = {
    {CORE, 1, (Any)mark_ex}, {CORE, 2, (Any)mark_a}, {CORE, 3, (Any)mark_w}, {CORE, 4, (Any)start_ex},
    {CORE, 5, (Any)start_a},
    {CORE, 6, (Any)start_w}, {CORE, 7, (Any)end}, {CORE, 8, (Any)push_ex}, {CORE, 9, (Any)push_a},
    {CORE, 10, (Any)push_w},
    {CORE, 11, (Any)pop_core}, {CORE, 14, (Any)name_thread_a}, {CORE2, 1, (Any)domain_mark},
    {CORE2, 2, (Any)domain_start}, {CORE2, 3, (Any)domain_end},
    {CORE2, 4, (Any)domain_push}, {CORE2, 5, (Any)domain_pop}, {CORE2, 10, (Any)domain_string},
    {CORE2, 11, (Any)domain_string_w},
    {CORE2, 12, (Any)domain_create}, {CORE2, 13, (Any)domain_create_w}, {CORE2, 14, (Any)domain_destroy},
};
/* clang-format on */

typedef struct Callbacks {
  size_t size;
  int (*table)(int module, Any ***out, unsigned *count);
} Callbacks;

ENTRY int InitializeInjectionNvtx2(const void *(*export_table)(uint32_t id)) {
  const Callbacks *c = export_table ? export_table(EXPORT_CALLBACKS) : NULL;
  if (!inject_trace() || !c || c->size < sizeof *c || !inject_wants("nvtx")) return 0;
  for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
    Any **table = NULL;
    unsigned count = 0;
    if (c->table(functions[i].module, &table, &count) && table && (unsigned)functions[i].place < count &&
        table[functions[i].place])
      *table[functions[i].place] = functions[i].function;
  }
  return 1;
}
ENTRY int InitializeInjectionNvtx(const void *(*export_table)(uint32_t id)) {
  return InitializeInjectionNvtx2(export_table);
}
