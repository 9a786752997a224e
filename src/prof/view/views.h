/* views: what the views of a trace share. A view asks for the trace as joined events in the order of time, with each
 * activity of a GPU joined to the call that started it; sorting and joining keep to a fixed amount of memory (sort.c),
 * so that the length of a trace does not matter. */
#ifndef NEREID_PROF_VIEWS_H
#define NEREID_PROF_VIEWS_H

#include "base/json.h"
#include "prof/prof.h"

/* ---- sort.c: records of one size, sorted in memory while they are few, else through a temporary file ------------- */
typedef struct Sorter Sorter;
enum { SORT_MEMORY = 24 << 20 };
/* NULL: out of memory */
Sorter *sorter_create(size_t record, int (*compare)(const void *, const void *), size_t memory);
bool sorter_add(Sorter *s, const void *record); /* false: sorter_error says why */
/* after the last add; equal records come in the order in which they were added */
bool sorter_next(Sorter *s, void *record);
const char *sorter_error(const Sorter *s); /* NULL: none */
void sorter_free(Sorter *s);

/* ---- view/event_join.c: the trace as intervals and points in the order of time ----------------------------------- */

/* An event without what only samples need, and with what is joined to it. Kinds: CALL, RANGE and our own device's
 * KERNELs are intervals of a thread; KERNEL, COPY, FILL of a GPU intervals of a stream; METRIC, MEMORY, NOTE and LOST
 * points. */
typedef struct JoinedEvent {
  int64_t start, end;
  uint64_t correlation, id; /* id: of a RANGE, or that a METRIC belongs to */
  uint64_t stream;
  int64_t call_start, call_end; /* of the call that started this (has_call) */
  double flops, bytes;          /* KERNEL: what a launch of ours asked of the machine; 0: not known */
  uint32_t kind, name, process, thread, device;
  uint32_t call_name, call_thread, shapes;
  uint8_t sub; /* CALL: its kind; COPY: its kind; RANGE: its origin */
  bool has_call, pageable, on_gpu;
  uint32_t sequence; /* keeps the order of events with equal times */
  union {
    struct {
      uint32_t grid[3], block[3], registers, shared;
      uint64_t graph;
    } kernel;
    int64_t moved;  /* COPY, FILL: bytes */
    int32_t result; /* CALL */
    double value;   /* METRIC */
    struct {
      int64_t bytes, in_use;
      uint64_t address;
      bool pinned;
    } memory;
    int64_t count; /* LOST */
  };
} JoinedEvent;

typedef enum {
  BY_TIME,  /* each at its own start */
  BY_LAUNCH /* activity of a GPU at the start of the call that started it, right after that call */
} EventOrder;

/* end: 0 when it was not closed */
typedef struct ProcessInfo {
  uint32_t process, name;
  int64_t start, end, wall;
} ProcessInfo;
typedef struct ThreadInfo {
  uint32_t process, thread, name;
} ThreadInfo;
typedef struct DeviceInfo {
  uint32_t process, device, name;
  int sm, multiprocessors;
  double bandwidth, flops;
  int64_t memory;
} DeviceInfo;

typedef struct EventJoin {
  TraceReader *reader;
  Context *cx;  /* of the view; when memory runs out it unwinds to view_run */
  Arena *arena; /* its */
  VEC(ProcessInfo) processes;
  VEC(ThreadInfo) threads;
  VEC(DeviceInfo) devices;
  int64_t first, last; /* times of the earliest start and the latest end of an event; 0 when there is none */
  int64_t counts[TRACE_KINDS], lost;
  bool has_gpu, truncated;
  Sorter *sorted, *joined; /* inside */
  EventOrder order;
  JoinedEvent current;
  char error[200];
} EventJoin;

/* Runs a view: `body` begins the events as often as it needs, and writes to out. 0, or 1 with why. */
int view_run(TraceReader *r, FILE *out, const ViewOptions *o, char why[300],
             void (*body)(EventJoin *t, FILE *out, const ViewOptions *o));
bool events_begin(EventJoin *t, EventOrder order); /* reads the trace from its beginning; false: t->error */
const JoinedEvent *events_next(EventJoin *t);      /* in order; NULL at the end, or when t->error has a text */
const ProcessInfo *events_process(const EventJoin *t, uint32_t process); /* NULL: none */
const DeviceInfo *events_device(const EventJoin *t, uint32_t process, uint32_t device);
/* Whether all kernels ran on a device whose time says nothing of a machine (interp, sim). */
bool events_simulated(const EventJoin *t);
const char *events_thread_name(const EventJoin *t, uint32_t process, uint32_t thread); /* "" when it has none */
bool event_of_thread(const JoinedEvent *i);   /* an interval of a thread (as against one of a GPU, or a point) */
bool event_is_activity(const JoinedEvent *i); /* a kernel, copy or fill on a GPU */
/* What happened: of a copy "Memcpy HtoD (Pageable -> Device)", as PyTorch has it; else the name as it is in the trace.
 */
const char *event_name(const EventJoin *t, const JoinedEvent *i);
/* What a reader must know of the trace itself: events lost, a process that did not end it, notes in it. Each line
 * begins with `prefix`. */
void events_warnings(EventJoin *t, FILE *out, const char *prefix);
const char *lost_text(char out[800], int64_t count, const char *what); /* count < 0: it is not known */

/* ---- interval_stack.c: which intervals of a thread are open ---------------------------------------------------------------- */

/* Intervals of a thread come in order of their start; those that have ended by then are closed, the inner first. Clocks
 * differ a little: an interval that outlasts the one around it is still inside of it. */
typedef struct Open {
  JoinedEvent event;
  int64_t covered; /* ns of it that intervals right inside it cover */
  int row;         /* the view's */
} Open;
typedef struct IntervalStack {
  uint32_t process, thread;
  Open *open; /* outermost first */
  int n, cap;
  int row; /* the view's */
} IntervalStack;
typedef struct IntervalStacks {
  Arena *arena;
  Map *by_thread;
  void (*closed)(void *view, IntervalStack *n, const Open *o); /* o is still the last of n->open. May be NULL */
  void *view;
} IntervalStacks;
IntervalStack *intervals_get(IntervalStacks *all, uint32_t process, uint32_t thread);
Open *intervals_open(IntervalStacks *all, const JoinedEvent *i); /* closes what ended before it, opens i */
/* The depth of the call that started an activity, in its thread's stack: open[0 .. depth] are the call and all around
 * it; -1: it is not open. */
int intervals_launch(IntervalStacks *all, const JoinedEvent *activity, IntervalStack **n);
void intervals_close_all(IntervalStacks *all);

/* ---- samples (flame.c): after events_begin ------------------------------------------------------------------------ */
Symbols *samples_begin(EventJoin *t); /* to be freed */
bool samples_next(EventJoin *t, TraceEvent *e);
/* of the frame `at` of its stack */
const char *sample_name(const EventJoin *t, Symbols *symbols, const TraceEvent *e, uint32_t at);

/* A function that was on a thread's stack from one sample to another. Those of one thread come together, the inner
 * before the outer that ends with it, those of one depth in the order of time. */
typedef struct SampleSpan {
  uint32_t process, thread;
  int64_t start, end;
  const char *name; /* lives as long as the view */
  int depth;        /* 0: outermost */
} SampleSpan;
void sample_spans(EventJoin *t, void (*put)(void *arg, const SampleSpan *s), void *arg); /* sample_spans.c */
void sample_times(EventJoin *t, int64_t *first, int64_t *last);                          /* widens what spans lie in */

/* ---- cells of a table, 12 columns each after a name (table.c) --------------------------------------------------- */
void cell_percent(FILE *out, int64_t part, int64_t whole);
void cell_time(FILE *out, double ns);
void cell_name(FILE *out, const char *text, int width);
void cell_rule(FILE *out, int width, int columns);

/* ---- text of all views (view/event_join.c) ----------------------------------------------------------------------- */
void xml_text(FILE *out, const char *s);
void plain_text(FILE *out, const char *s);      /* on one line, and without what a terminal obeys */
const char *time_text(char out[32], double ns); /* "12.345us", as PyTorch writes it */
const char *bytes_text(char out[32], double bytes);
int utf8_columns(const char *s);                                /* how many columns it takes */
char *name_demangled(const char *name, char *out, size_t size); /* whole, as C++ writes it; into out; returns out */
/* Names of several functions, at most `width` columns each, so that different names stay different. */
void names_legible(Arena *a, const char *const *names, int n, int width, const char **out);

#endif
