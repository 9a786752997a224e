/* trace: what a profiled process did, as a file of events. The middle of the profiler; nothing here knows CUDA or a
 * device.
 *
 *     runtime's own trace ─────────────┐                                  ┌─ table, tree, advice   (text, JSON)
 *     CUPTI (own or injected process) ─┼─▶ TraceWriter ─▶ FILE ─▶ TraceReader ─┼─ timeline         (Chrome trace, HTML)
 *     CPU samples ─────────────────────┘                                  └─ flame graph           (folded stacks, SVG)
 *
 * A file is written as the run goes and read as a stream, so that a trace of millions of events is never whole in
 * memory. It is a header, then chunks, each with its length and a checksum: of a process that crashed, all chunks but
 * the last are whole. Events stand in the order in which they became known, which is not that of time: GPU activity
 * comes late and in bursts.
 *
 * Times are nanoseconds of CLOCK_MONOTONIC of the profiled machine; whoever writes converts. Names are numbers of an
 * interned string (trace_string), 0 is "". A thread is its Linux tid. Correlation numbers join a call of the CPU with
 * what it started on the GPU; 0: none.
 */
#ifndef NEREID_PROF_TRACE_H
#define NEREID_PROF_TRACE_H

#include "base/base.h"

typedef enum {
  TRACE_PROCESS, /* first of each file */
  TRACE_THREAD,  /* a thread's name */
  TRACE_DEVICE,
  TRACE_CALL,   /* the CPU was in a call of CUDA's, or of ours (nereid_launch, a copy, a compilation) */
  TRACE_KERNEL, /* a kernel ran: on a GPU's stream, or on our cpu device (stream 0 of it) */
  TRACE_COPY,
  TRACE_FILL,
  TRACE_RANGE,  /* a scope of ours or an NVTX range, when it ended */
  TRACE_METRIC, /* a figure that the user gave to the scope that was open in this thread */
  TRACE_WORK,   /* what a launch of ours asked of the machine, by its correlation */
  TRACE_MEMORY, /* allocated or freed */
  TRACE_SAMPLE, /* a stack of a thread that was running on a CPU */
  TRACE_MODULE, /* of the program's address space, for samples */
  TRACE_LOST,   /* events that were dropped, and why */
  TRACE_NOTE,   /* a message to whoever reads: CUPTI is missing, ... */
  TRACE_KINDS
} TraceKind;

typedef enum { /* of a TRACE_CALL */
               CALL_OTHER,
               CALL_LAUNCH,
               CALL_COPY,
               CALL_FILL,
               CALL_ALLOC,
               CALL_FREE,
               CALL_COMPILE,
               CALL_SYNC,     /* the CPU waits for the GPU: device, stream or event synchronisation */
               CALL_COPY_SYNC /* a copy that returns when it is done: it waits for all before it in its stream as well
                               */
} TraceCallKind;

typedef enum {
  COPY_HOST_TO_DEVICE,
  COPY_DEVICE_TO_HOST,
  COPY_DEVICE_TO_DEVICE,
  COPY_HOST_TO_HOST,
  COPY_PEER,
  COPY_UNKNOWN
} TraceCopyKind;
typedef enum { RANGE_OURS, RANGE_NVTX, RANGE_OTHER } TraceRangeOrigin;

enum { TRACE_STACK = 128 }; /* frames kept of a stack, innermost first */

typedef struct TraceEvent {
  TraceKind kind;
  uint32_t name; /* PROCESS: its command line; THREAD, DEVICE: its name; CALL: of the function; KERNEL: as the driver
                    knows it (mangled); RANGE, METRIC: its; MODULE: path; LOST: of what; NOTE: text */
  /* ns; of what has no length: equal. PROCESS: start and (in the last event of a whole file) end of profiling */
  int64_t start, end;
  uint32_t process, thread;
  uint64_t correlation; /* CALL, KERNEL, COPY, FILL, WORK */
  /* KERNEL, COPY, FILL, MEMORY, DEVICE: its number; TRACE_CPU_DEVICE: our cpu (interp, sim) device */
  uint32_t device;
  /* KERNEL, COPY, FILL: a small number of the stream, 7 is CUDA's default stream by CUPTI's count */
  uint64_t stream;
  union {
    struct {
      int64_t wall;
    } process_; /* CLOCK_REALTIME - CLOCK_MONOTONIC at start, ns */
    struct {
      int sm, multiprocessors;
      double bandwidth, flops;
      int64_t memory;
    } device_; /* compute capability 90; bytes/s and fp32 flop/s at
their peak by the device's attributes, 0: not known */
    struct {
      TraceCallKind kind;
      int32_t result;
    } call; /* result: of the call, 0 for success */
    struct {
      uint32_t grid[3], block[3];
      uint32_t registers, shared;
      uint64_t graph;
    } kernel; /* shared: bytes of a block; graph: of a CUDA
graph's launch, else 0 */
    /* pageable: the host's side is not page-locked */
    struct {
      TraceCopyKind kind;
      bool pageable;
      int64_t bytes;
    } copy;
    struct {
      int64_t bytes;
    } fill;
    /* id: unique, from 1; parent: the range around it in its thread, 0: none */
    struct {
      TraceRangeOrigin origin;
      uint64_t id;
      uint64_t parent;
    } range;
    struct {
      uint64_t range;
      double value;
    } metric; /* range: id of the scope that it belongs to */
    struct {
      double flops, bytes;
      bool exact;
      uint32_t shapes;
    } work; /* shapes: a string such as "f32[4096,781]"; 0: not known */
    /* bytes < 0: freed; in_use: of the device after it, -1: not known */
    struct {
      uint64_t address;
      int64_t bytes;
      int64_t in_use;
      bool pinned_host;
    } memory;
    struct {
      uint32_t depth;
      uint64_t stack[TRACE_STACK];
      int64_t weight;
      bool is_symbolic;
    } sample; /* addresses, or (is_symbolic) strings; weight: ns
of CPU time that it stands for */
    struct {
      uint64_t base, size, offset;
    } module; /* mapped from base on; file offset */
    struct {
      int64_t count;
    } lost;
  };
} TraceEvent;
#define TRACE_CPU_DEVICE 0xffffffffu

/* ---- writing: any thread, several at once; none of it fails its caller --------------------------------------------------------
 *
 * What is written is kept in memory until a chunk is full, then appended by whoever filled it. When the disk is full
 * (or another error comes) the file keeps all whole chunks, everything later is counted as lost, and trace_close says
 * so. */
typedef struct TraceWriter TraceWriter;
/* NULL: errno says why, the file is not there. */
TraceWriter *trace_create(const char *path, const char *command);
uint32_t trace_string(TraceWriter *w, const char *text); /* text may be NULL: 0 */
void trace_event(TraceWriter *w, const TraceEvent *e);   /* process is filled in */
/* to the file, as a chunk; before a fork or an exec, and from time to time */
void trace_flush(TraceWriter *w);
/* as trace_close, but the writer goes on: before an exec, which may fail */
void trace_mark_end(TraceWriter *w);
/* The last PROCESS event, and the end. 0, or an errno when not all was written: *lost (may be NULL) events are not in
 * the file. */
int trace_close(TraceWriter *w, int64_t *lost);
void trace_abandon(TraceWriter *w); /* in the child of a fork: forgets the writer; the parent's file is left alone */
int64_t trace_clock(void);          /* now, as events have it */

/* ---- reading: one file, or a folder with one a process (its files *.trace) --------------------------------------- */
typedef struct TraceReader TraceReader;
/* NULL: *why (a static text, or one in `buffer`) says what is wrong: no such file, no trace, of another version. */
TraceReader *trace_open(const char *path, const char **why, char buffer[300]);
/* The next event; false at the end. Strings are numbered through over all files of a folder. */
bool trace_next(TraceReader *r, TraceEvent *e);
bool trace_rewind(TraceReader *r);                         /* to the first event */
const char *trace_text(const TraceReader *r, uint32_t id); /* lives as long as r */
/* How many events there are is not known before the last. What is damaged is passed over, with a TRACE_LOST event or a
 * TRACE_NOTE. */
/* known from the opening on: a process did not close its trace (it crashed, or the disk was full) */
bool trace_truncated(const TraceReader *r);
void trace_reader_free(TraceReader *r);

#endif
