/* prof: what is made of a trace. One file a view; each reads the trace from its beginning, in one or two passes, and
 * keeps in memory what it shows, not the trace. `out` is any stream; a view returns 0, or 1 with a message in `why` (a
 * failed write is found by the caller with ferror). */
#ifndef NEREID_PROF_PROF_H
#define NEREID_PROF_PROF_H

#include <signal.h>
#include <stdio.h>

#include "prof/record/trace.h"

typedef struct ViewOptions {
  const char *sort; /* table: "cuda_total", "self_cuda", "cpu_total", "self_cpu", "calls", "name"; NULL: self_cuda where
                       a GPU ran, else self_cpu */
  int rows;         /* table, tree: at most; 0: all (functions: 20) */
  int width;        /* of a name's column; 0: 60 */
  bool json;        /* table, tree, functions, advice: as JSON */
  bool shapes;      /* table: kernels by shapes too */
  const char *metrics; /* tree: "time/ms,tflop/s,gbyte/s"; NULL: these, where known */
  const char *title;
} ViewOptions;

/* table.c: as PyTorch's profiler prints it */
int view_table(TraceReader *r, FILE *out, const ViewOptions *o, char why[300]);
/* tree.c: scopes, as Proton's viewer prints them */
int view_tree(TraceReader *r, FILE *out, const ViewOptions *o, char why[300]);
/* tree.c: the JSON that Proton's viewer opens */
int view_hatchet(TraceReader *r, FILE *out, const ViewOptions *o, char why[300]);
/* chrome.c: Chrome's trace format, for Perfetto */
int view_chrome(TraceReader *r, FILE *out, const ViewOptions *o, char why[300]);
/* page.c: one self-contained page with the timeline */
int view_html(TraceReader *r, FILE *out, const ViewOptions *o, char why[300]);
/* functions.c: CPU time by function, of samples */
int view_functions(TraceReader *r, FILE *out, const ViewOptions *o, char why[300]);
int view_folded(TraceReader *r, FILE *out, const ViewOptions *o,
                char why[300]); /* flame.c: "a;b;c weight" lines, of CPU samples */
int view_flame(TraceReader *r, FILE *out, const ViewOptions *o, char why[300]); /* flame.c: SVG; CPU time by stack */
int view_folded_gpu(TraceReader *r, FILE *out, const ViewOptions *o, char why[300]);
/* flame.c: GPU time by scope and kernel */
int view_flame_gpu(TraceReader *r, FILE *out, const ViewOptions *o, char why[300]);
/* advice.c: what is wrong, in words, with evidence */
int view_advice(TraceReader *r, FILE *out, const ViewOptions *o, char why[300]);

/* ---- names.c ----------------------------------------------------------------------------------------------------- */
/* A function's name for people: demangled (libstdc++ or libc++abi where one is found, opened at run time, else as it
 * is), template arguments and parameter lists shortened to `width` characters so that what differs stays. Into out;
 * returns out. */
char *name_legible(const char *name, int width, char *out, size_t size);

/* ---- symbols.c: from addresses of samples to functions ----------------------------------------------------------- */
typedef struct Symbols Symbols;
Symbols *symbols_create(void);
/* path: of a file; "[vdso]"; or, without a slash in front, of code that was made at run time and lies in no file, its
 * function's name. */
/* of TRACE_MODULE events */
void symbols_add(Symbols *s, uint32_t process, const char *path, uint64_t base, uint64_t size, uint64_t offset);
/* The function at an address ("name", "python: f (file.py)" from /tmp/perf-PID.map, "[libfoo.so]", "[unknown]"); lives
 * as long as s. */
const char *symbols_name(Symbols *s, uint32_t process, uint64_t address);
void symbols_free(Symbols *s);

/* ---- cupti.c: CUDA's activity of this process, into a trace ------------------------------------------------------ */
typedef struct CuptiSession CuptiSession;
typedef struct CuptiOptions {
  bool runtime_api, driver_api; /* CALL events of either; launches are joined with kernels in any case */
  bool memory;
  bool own_launches; /* cupti_last_launch is asked for: 0.1 us a launch */
} CuptiOptions;
/* Opens libcupti: $NEREID_CUPTI, one that is in the process already, then where CUDA and PyTorch keep it. NULL: why
 * says what is missing or that another profiler is attached, and what to do. One session a process. */
CuptiSession *cupti_start(TraceWriter *w, const CuptiOptions *o, char why[500]);
void cupti_pause(CuptiSession *c, bool paused);
void cupti_poll(CuptiSession *c);    /* what is known by now, without waiting: from time to time */
void cupti_flush(CuptiSession *c);   /* waits for the devices; then what has run is in the trace */
void cupti_stop(CuptiSession *c);    /* flushes; CUPTI is left as it was found */
void cupti_abandon(CuptiSession *c); /* in the child of a fork, where CUDA is not what it was */
/* The correlation number of this thread's last launch (cuLaunchKernel, ...), as the CALL and KERNEL events have it; 0:
 * there was none. Whoever launches gives it to a TRACE_WORK (and CALL) of his own, so that they are joined with the
 * kernel. */
uint64_t cupti_last_launch(void);
TraceCallKind cupti_call_kind(const char *name); /* of a function of CUDA's */

/* ---- sampler.c: stacks of this process's threads, by CPU time, into a trace -------------------------------------- */
typedef struct Sampler Sampler;
/* NULL: why. From here on the calling thread is sampled */
Sampler *sampler_start(TraceWriter *w, int hz, char why[300]);
bool sampler_help(
    Sampler *s,
    char why[300]); /* starts the helper, unless it runs: the others are, and what is sampled is written. It may come
                       later than the start, so that a process that ends at once need not have it */
void sampler_stop(Sampler *s);
/* Around a fork: in between the helper rests. Elsewhere it may be in the allocator, whose locks the child would find
 * taken for good (not glibc's; others'). */
void sampler_hold(Sampler *s);
void sampler_release(Sampler *s);
void sampler_abandon(Sampler *s); /* in the child of a fork, which has neither its thread nor its timers */
/* In the place of sigaction, of whoever can stand before it: true, and done, when it is the signal of samples that is
 * asked for. The program gets its own signals of that number all the same, and samples go on. */
bool sampler_shares(int number, const struct sigaction *act, struct sigaction *old);

/* ---- spawn.c: any program, with src/inject's library in it ------------------------------------------------------- */
typedef struct InjectOptions {
  int sample_hz; /* stacks a second of CPU time, 0: none */
  bool runtime_api, driver_api, memory, nvtx;
  bool work; /* what launches of ours ask of the machine, where the program is one that uses Nereid */
  /* CPython from 3.12 on names its functions in stacks (PYTHONPERFSUPPORT): they become a little slower */
  bool python;
} InjectOptions;
/* Runs argv with `library` (libnereid-prof.so) in it and in what it starts; each process leaves a trace in the folder
 * trace_dir. Returns the program's exit status, or 128 + signal when one ended it. Negative: why; -127 where there is
 * no such program and -126 where it cannot be executed, after what shells say of these, else -1. */
int inject_run(const char *library, const char *trace_dir, const InjectOptions *o, char **argv, char why[500]);

#endif
