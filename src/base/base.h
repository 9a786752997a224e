/* base: what every other part stands on: arenas, text buffers, growable arrays, hash maps, diagnostics with source
 * spans, numbers of every element type, and a thread pool. Uses libc only.
 *
 * A compilation is one Context. Everything it allocates lies in the context's arena and goes with it. A function that
 * cannot go on calls diag_fail(), which records a diagnostic and unwinds to the nearest context_try(); callers in
 * between need no clean-up, since nothing of theirs lives outside the arena.
 *
 *     Context *cx = context_create();
 *     if (context_try(cx)) { ... compile, may call diag_fail(cx, span, ...) ...; context_end_try(cx); }
 *     else { ... cx->diags holds what went wrong ... }
 *     context_destroy(cx);
 */
#ifndef NEREID_BASE_H
#define NEREID_BASE_H

#include <limits.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#if defined(__GNUC__)
#define PRINTF_LIKE(f, a) __attribute__((format(printf, f, a)))
#define NORETURN __attribute__((noreturn))
#else
#define PRINTF_LIKE(f, a)
#define NORETURN
#endif

/* ---- arena.c: memory that goes all at once ----------------------------------------------------------------------- */

typedef struct Arena Arena;
struct Context;

/* `owner` (may be NULL) gets a diag_fail() when memory runs out; without an owner the process's malloc failure yields
 * NULL.
 */
Arena *arena_create(struct Context *owner);
void arena_destroy(Arena *a);
void *arena_alloc(Arena *a, size_t bytes); /* zeroed, aligned to 16 bytes */
void *arena_copy(Arena *a, const void *p, size_t bytes);
char *arena_strdup(Arena *a, const char *s);
char *arena_strndup(Arena *a, const char *s, size_t n);
char *arena_printf(Arena *a, const char *format, ...) PRINTF_LIKE(2, 3);
size_t arena_used(const Arena *a); /* bytes taken from the system so far */

#define NEW(arena, T) ((T *)arena_alloc((arena), sizeof(T)))
#define NEW_N(arena, T, n) ((T *)arena_alloc((arena), sizeof(T) * (size_t)(n)))

/* ---- growable arrays in an arena: VEC(int) v = {0}; vec_push(arena, &v, 3); v.at[0]; v.n ------------------------- */

#define VEC(T) \
  struct { \
    T *at; \
    int n, cap; \
  }
#define vec_push(arena, v, ...) \
  (vec_reserve((arena), (void **)&(v)->at, &(v)->cap, (v)->n + 1, sizeof *(v)->at), \
   (void)((v)->at[(v)->n++] = (__VA_ARGS__)))
void vec_reserve(Arena *a, void **at, int *cap, int need, size_t elem_size);

/* The greatest common divisor of a and b, neither negative; of a and 0: a. */
static inline int64_t gcd(int64_t a, int64_t b) {
  while (b) {
    int64_t rest = a % b;
    a = b;
    b = rest;
  }
  return a;
}

/* n / of, rounded up, and the next multiple of it; n is not negative, of is above 0. */
static inline int64_t cdiv(int64_t n, int64_t of) { return (n + of - 1) / of; }
static inline int64_t align_up(int64_t n, int64_t of) { return cdiv(n, of) * of; }

/* The largest k with 2^k <= n; of 0: 0. */
static inline int log2_floor(int64_t n) { return n > 1 ? 63 - __builtin_clzll((unsigned long long)n) : 0; }

/* ---- buf.c: text under construction; destroy it or take its text ------------------------------------------------- */

typedef struct Buf {
  char *at;
  size_t n, cap;
  bool failed;
  Arena *arena; /* where it lies; NULL: malloc'ed */
} Buf;          /* at is always NUL-terminated once non-NULL */

void buf_write(Buf *b, const void *bytes, size_t n);
void buf_puts(Buf *b, const char *s);
void buf_putc(Buf *b, char c);
void buf_printf(Buf *b, const char *format, ...) PRINTF_LIKE(2, 3);
void buf_vprintf(Buf *b, const char *format, va_list ap);
void buf_destroy(Buf *b);
/* Shortest decimal text that reads back as the same double ("1e-05", "inf", "nan", "2.0"). */
void buf_double(Buf *b, double v);

/* ---- map.c: strings or pointers to pointers ---------------------------------------------------------------------- */

typedef struct Map Map; /* keys are compared by content when strings, else by address */
Map *map_create(Arena *a, bool string_keys);
void *map_get(const Map *m, const void *key); /* NULL when absent */
bool map_has(const Map *m, const void *key);
void map_put(Map *m, const void *key, void *value); /* the key must live as long as the map */
/* The same for a string key of n bytes, which need not end in NUL and may contain it (maps with string keys only). */
void *map_get_n(const Map *m, const char *key, size_t n);
void map_put_n(Map *m, const char *key, size_t n, void *value);
int map_count(const Map *m);
/* Entries in order of first insertion: for (int i = 0; i < map_count(m); i++) map_entry(m, i, &key, &value). */
void map_entry(const Map *m, int i, const void **key, void **value);

uint64_t hash_bytes(const void *p, size_t n, uint64_t seed);
uint64_t hash_number(uint64_t x); /* another number of all its bits: splitmix64's finalizer */
/* A 128-bit content hash as 32 hex digits and NUL, for cache keys. */
void hash_hex(const void *p, size_t n, char out[33]);

/* ---- locale.c: numbers as text ----------------------------------------------------------------------------------- */

/* From here on this thread reads and writes 1.5, whatever locale the host has set, until host_numbers() gets the
 * answer. Nests. */
void *plain_numbers(void);
void host_numbers(void *before);
double text_to_double(const char *text, char **end); /* strtod of plain numbers */

/* ---- source.c, diag.c: places and messages ----------------------------------------------------------------------- */

typedef struct Source { /* one file or string that was read */
  const char *path;     /* as the user named it */
  const char *text;     /* NUL-terminated, without a byte-order mark */
  size_t size;
  int line_count;
  const uint32_t *line_start; /* byte offset of line 1, 2, ... */
  bool is_part;               /* of a file, in which it may stand further right */
} Source;

/* A place in a source: lines count from 1, columns from 0 in bytes (as Python's ast does). A span with source NULL is
 * "no place". `inlined_at` is the call through which this code was reached, innermost first; NULL at the top. */
typedef struct Span {
  const Source *source;
  int line, col, end_line, end_col;
  const struct Span *inlined_at;
} Span;

typedef enum { DIAG_ERROR, DIAG_WARNING, DIAG_NOTE } DiagKind;

/* What an error is about, where its caller may care; in Python's words, where Python would raise one of its own. */
typedef enum {
  ERROR_OTHER,
  ERROR_SYNTAX,
  ERROR_NAME,
  ERROR_TYPE,
  ERROR_VALUE,
  ERROR_UNSUPPORTED, /* Python that a kernel does not have */
  ERROR_ASSERTION,   /* a static_assert */
  ERROR_RESOURCES,   /* more than the target has; Context.need says of what */
  ERROR_ASSEMBLER    /* the machine's assembler or compiler refuses what was made */
} ErrorKind;
typedef struct Need {
  const char *what; /* "shared memory"; static */
  int64_t required, limit;
} Need;

typedef struct Diag {
  DiagKind kind;
  ErrorKind error;
  Span span;
  const char *message; /* one sentence, no final newline: what is wrong */
  const char *hint;    /* what to do about it, or NULL */
} Diag;

/* What a compilation may take (limits.c). */
typedef struct Limits {
  int64_t memory; /* bytes of the context's arena */
  int64_t steps;  /* of context_step */
  int64_t file;   /* bytes of one source file */
} Limits;
extern const Limits limits_default;

typedef struct Context {
  Arena *arena;
  VEC(Diag) diags;
  Map *interned;
  Map *types;      /* the tile IR's type table (tile/type.c) */
  Map *layouts;    /* the layouts in use (layout/layout.c) */
  jmp_buf *unwind; /* innermost context_try */
  bool out_of_memory;
  Limits limits;
  bool over_limit;         /* of these */
  int64_t steps;           /* taken so far */
  const Span *place;       /* what is being compiled, for messages about limits; or NULL */
  Map *sources;            /* path -> Source */
  double compiler_seconds; /* see compiler_ns */
  ErrorKind error;         /* of the next diag_fail: see diag_as */
  Need need;
} Context;

Context *context_create(void); /* NULL when out of memory */
void context_destroy(Context *cx);

/* `if (context_try(cx)) { work; context_end_try(cx); } else { it failed; the diagnostics say why }`. Nests. A macro,
 * since setjmp must be called in the frame that stays: the frame's block, so not `if (!context_try(cx))`. Locals
 * changed inside must be volatile if read after failure. Inside, numbers are plain (plain_numbers). */
#define context_try(cx) (context_push_try((cx), &(struct ContextTry){0}), setjmp((cx)->unwind[0]) == 0)
struct ContextTry {
  jmp_buf here;
  jmp_buf *outer;
  Context *outer_context;
  void *numbers; /* of the host */
};
void context_push_try(Context *cx, struct ContextTry *t);
void context_end_try(Context *cx);
Context *context_current(void);         /* of the innermost context_try of this thread; NULL: none */
Context *context_exchange(Context *cx); /* makes it the current one; returns the one before. For coroutine.c */
/* For who has caught a failure and means to go on: not after one for want of memory or over a limit, which the whole
 * compilation must hear of. */
void context_go_on(Context *cx);

const char *intern(Context *cx, const char *s, size_t n); /* equal strings get equal pointers within one context */
const char *intern_z(Context *cx, const char *s);

Source *source_from_text(Context *cx, const char *path, const char *text, size_t size); /* copies text */
/* Reads a whole file; NULL with errno set when it cannot be read. Registered in cx->sources. */
Source *source_from_file(Context *cx, const char *path);

NORETURN void diag_fail(Context *cx, Span span, const char *format, ...) PRINTF_LIKE(3, 4);
/* The same with a hint: a second sentence that says the way out. */
NORETURN void diag_fail_hint(Context *cx, Span span, const char *hint, const char *format, ...) PRINTF_LIKE(4, 5);
/* The same context: the error that it records next is of this kind. */
Context *diag_as(Context *cx, ErrorKind kind);
Context *diag_need(Context *cx, const char *what, int64_t required, int64_t limit); /* ERROR_RESOURCES */
void diag_warn(Context *cx, Span span, const char *format, ...) PRINTF_LIKE(3, 4);
void diag_note(Context *cx, Span span, const char *format, ...) PRINTF_LIKE(3, 4);
/* Unwinds with what has been recorded (after several diagnostics, say). */
NORETURN void diag_fail_now(Context *cx);
/* For memory that malloc refused: records "out of memory" without allocating, sets cx->out_of_memory, and unwinds when
 * a context_try is active; returns when none is. arena_alloc calls it for its owner. */
void context_out_of_memory(Context *cx);

/* ---- limits.c: memory, work and stack of one compilation ------------------------------------------------------- */

NORETURN void diag_fail_limit(Context *cx, Span at, const char *hint, const char *format, ...) PRINTF_LIKE(4, 5);
NORETURN void context_over_memory(Context *cx);
void context_step(Context *cx, int64_t n); /* counts work; fails when there is too much */
bool stack_short(void);                    /* whether this thread's stack ends soon */
void stack_guard(void);                    /* counts a step; fails in context_current() when the stack ends soon */
typedef struct StackBounds {
  char *low, *high; /* high NULL: those of the thread's own stack, to be asked for */
} StackBounds;
StackBounds stack_bounds_exchange(
    StackBounds b); /* of this thread from now on; returns those before. For coroutine.c */

/* "k.py:12:7: error: message", the source line, a caret line, the hint, then "called from k.py:30:5" for each
 * inlined_at. `color` writes ANSI colours. */
void diag_print(Buf *out, const Diag *d, bool color);
void diags_print(Buf *out, const Context *cx, bool color);

bool text_ends_with(const char *s, const char *end);
/* The name in `names` (NULL-terminated) nearest to `name` by edit distance, or NULL when none is near. */
const char *nearest_name(const char *name, const char *const *names);

/* ---- cursor.c: the words, numbers and texts of an IR's text form ------------------------------------------------- */

/* A place in a text that is being read. White space and "//" comments are skipped before whatever is asked for; what is
 * expected and not there fails with its place. `at` may be set back to a place that was read before. */
typedef struct Cursor {
  Context *cx;
  const Source *source;
  const char *at, *end;
} Cursor;
Cursor cursor_source(Context *cx, const Source *text);
Span cursor_span(const Cursor *c, const char *at);
NORETURN void cursor_wrong(Cursor *c, const char *expected); /* "expected ..., found ..." */
void cursor_space(Cursor *c);
char cursor_peek(Cursor *c);            /* the next character; 0 at the end */
char cursor_peek_line(Cursor *c);       /* the same, but that a line's end is not skipped */
bool cursor_take(Cursor *c, char sign); /* whether it is next; then it is passed */
void cursor_expect(Cursor *c, char sign);
/* as it stands in the text; *n is its length, 0 when there is none */
const char *cursor_peek_word(Cursor *c, size_t *n);
const char *cursor_word(Cursor *c, const char *expected, size_t *n);
bool cursor_take_word(Cursor *c, const char *wanted);
bool cursor_same(const char *word, size_t n, const char *wanted);
const char *cursor_value_name(Cursor *c); /* of "%name", interned */
int64_t cursor_int(Cursor *c);            /* decimal or 0x..., with a sign; up to 2^64 - 1, as its 64 bits */
int cursor_int_between(Cursor *c, int low, int high, const char *what);
const Span *cursor_place(Cursor *c,
                         const char *start); /* "@line:col" where it is next, else the place of start; in the arena */
const char *cursor_text(Cursor *c);          /* "...", in the arena; \n \t \xhh \" \\ stand for one byte */
void buf_quote(Buf *out, const char *text);  /* writes what cursor_text reads */

/* ---- number.c: the element types and their bits ------------------------------------------------------------------ */

/* One row a type: enumerator, Triton's name, name in PyTorch/NumPy style, bits, kind, C type of storage. */
#define DTYPE_TABLE(X) \
  X(I1, "int1", "i1", "bool", 1, 'u') \
  X(I8, "int8", "i8", "int8", 8, 's') \
  X(I16, "int16", "i16", "int16", 16, 's') \
  X(I32, "int32", "i32", "int32", 32, 's') \
  X(I64, "int64", "i64", "int64", 64, 's') \
  X(U8, "uint8", "u8", "uint8", 8, 'u') \
  X(U16, "uint16", "u16", "uint16", 16, 'u') \
  X(U32, "uint32", "u32", "uint32", 32, 'u') \
  X(U64, "uint64", "u64", "uint64", 64, 'u') \
  X(F8E5, "fp8e5", "fp8e5", "float8_e5m2", 8, 'f') \
  X(F8E4NV, "fp8e4nv", "fp8e4nv", "float8_e4m3fn", 8, 'f') \
  X(F8E4B15, "fp8e4b15", "fp8e4b15", "float8_e4m3b15", 8, 'f') \
  X(F8E4B8, "fp8e4b8", "fp8e4b8", "float8_e4m3fnuz", 8, 'f') \
  X(F8E5B16, "fp8e5b16", "fp8e5b16", "float8_e5m2fnuz", 8, 'f') \
  X(F16, "fp16", "f16", "float16", 16, 'f') \
  X(BF16, "bf16", "bf16", "bfloat16", 16, 'f') \
  X(F32, "fp32", "f32", "float32", 32, 'f') \
  X(F64, "fp64", "f64", "float64", 64, 'f')

typedef enum {
#define X(id, triton, ir, torch, bits, kind) DT_##id,
  DTYPE_TABLE(X)
#undef X
      DT_COUNT
} Dtype;

const char *dtype_triton_name(Dtype t); /* "fp32", "int1" */
const char *dtype_name(Dtype t);        /* the IR's and the shell's: "f32", "i1" */
const char *dtype_torch_name(Dtype t);  /* "float32", "bool" */
bool dtype_parse(const char *name,
                 Dtype *out); /* any of the three names, also "half", "float", "double", "long", "int" */
int dtype_bits(Dtype t);      /* i1: 1 */
int dtype_bytes(Dtype t);     /* in memory; i1: 1 */
bool dtype_is_float(Dtype t);
bool dtype_is_int(Dtype t);    /* i1 included */
bool dtype_is_signed(Dtype t); /* signed integers only */
bool dtype_is_fp8(Dtype t);

/* Reads or writes one element of memory as a number, converting as the language does (fp -> narrower fp: nearest even;
 * fp8 saturates; integers wrap; i1 is one byte, != 0). */
double dtype_load_float(Dtype t, const void *p);
int64_t dtype_load_int(Dtype t, const void *p); /* u64 comes back as the same 64 bits; floats truncate */
void dtype_store_float(Dtype t, void *p, double v);
void dtype_store_int(Dtype t, void *p, int64_t v);
/* An array's bytes in this process's memory. */
typedef struct HostArray {
  const void *at; /* NULL: they are not known */
  int64_t bytes;  /* its size; 0: not known */
} HostArray;
uint16_t f32_to_f16(float v);
float f16_to_f32(uint16_t bits);
uint16_t f32_to_bf16(float v);
float bf16_to_f32(uint16_t bits);
uint8_t f32_to_f8(Dtype t, float v); /* rounds to nearest even, saturates, keeps NaN */
float f8_to_f32(Dtype t, uint8_t bits);
uint16_t f64_to_f16(double v); /* one rounding */
/* Round towards zero, for fp_downcast_rounding="rtz". */
uint16_t f32_to_f16_rtz(float v);
uint16_t f32_to_bf16_rtz(float v);

/* ---- thread.c: a pool that runs one function over a range of work items ------------------------------------------ */

typedef struct Pool Pool;
Pool *pool_create(int threads); /* 0: one a processor that this process may use; the caller's thread works too */
void pool_destroy(Pool *p);
int pool_threads(const Pool *p);
/* Calls fn(arg, begin, end, worker) so that [0, n) is covered once, in chunks taken by free workers; returns when all
 * is done. worker is in [0, pool_threads). Any thread may call; calls on one pool take turns. */
void pool_run(Pool *p, int64_t n, int64_t chunk, void (*fn)(void *arg, int64_t begin, int64_t end, int worker),
              void *arg);
/* True once a worker's fn called pool_cancel in this run: remaining chunks are skipped. */
void pool_cancel(Pool *p);
int thread_processors(void); /* that this process may use */
void thread_relax(void);     /* an instruction for loops that wait for memory to change */

/* ---- coroutine.c: functions that stop in their middle and go on later ---------------------------------------------- */

typedef struct Coroutine Coroutine;
/* Not begun yet; NULL when out of memory. Its stack has 256 KiB. */
Coroutine *coroutine_create(void (*fn)(void *arg), void *arg);
void coroutine_destroy(Coroutine *c); /* one that has ended */
bool coroutine_resume(Coroutine *c);  /* until it suspends itself; false: until it ended */
Coroutine *coroutine_running(void);   /* that this code is part of; NULL: of none */
void *coroutine_argument(const Coroutine *c);
void coroutine_suspend(void); /* the running one */
/* Calls fn(arg) on the thread and stack of whoever resumed the running coroutine; at once where none runs. For
 * functions of a caller's, which may want more stack, or to know their thread. */
void coroutine_outside(void (*fn)(void *arg), void *arg);

/* ---- resident.c: programs that may wait for each other ------------------------------------------------------------ */

/* Runs `count` programs, each of which may wait for memory that another one writes, also one that is to begin later.
 * Those that have begun and not ended are resident, as on a GPU. Filled by the caller down to the line. */
typedef struct Residents {
  int64_t count;
  int64_t bytes;            /* of a program's state, about */
  void *(*open)(void *arg); /* what a program needs to run, used by one after another; NULL: out of memory */
  void (*close)(void *arg, void *state);
  bool (*run)(void *arg, void *state, int64_t program); /* of [0, count); false: all end */
  void *arg;
  _Atomic int64_t *operations; /* what is left of the launch's; NULL: any */
  /* ---- */
  int64_t most;
  int looks;
  _Atomic int64_t next, resident;
  _Atomic int busy;          /* threads of which some program may not be waiting */
  _Atomic int64_t in_vain;   /* programs that waited when the operations were gone; 0: they are not */
  _Atomic int64_t not_begun; /* at that time */
  _Atomic bool stopped;
  _Atomic int asleep;     /* how sure it is that all wait: 0: not so */
  _Atomic bool refused;   /* the memory for the next program to begin, when it was last asked for */
  _Atomic bool no_memory; /* so that the launch had to end */
} Residents;
void residents_init(Residents *r, int threads); /* that are going to work on it, at most */
/* On each of these threads, or some: returns when no program is left for this one. False: not all programs ran. */
bool residents_work(Residents *r);
/* Called by a program in a loop that has found what it waits for not to be there; got_ahead: for the first time, or it
 * has done something since the last call. False: it is to end. */
bool residents_wait(Residents *r, bool got_ahead);
void residents_stop(Residents *r); /* any thread: all programs that wait, or begin, are to end */
/* Whether all programs have been waiting for so long that the threads sleep. */
bool residents_all_wait(const Residents *r);
bool residents_in_vain(const Residents *r); /* they have been stopped for it */
/* What to say of either. */
void residents_message(const Residents *r, char *out, size_t size);

/* ---- fork.c: what a child of fork() keeps ------------------------------------------------------------------------ */

/* Lies in an object and is filled before it is added. All but owner may be NULL. */
typedef struct ForkHook {
  struct ForkHook *next, **at;
  pthread_mutex_t *held; /* taken before a fork, so that what it guards is whole in the child */
  pthread_rwlock_t *read;
  void (*in_child)(void *owner); /* the thread that forked is the only one; locks have been made anew */
  void *owner;
} ForkHook;
/* Registers what takes them before a fork. Comes before the pthread_atfork of a lock that is held around theirs. */
void fork_hooks_begin(void);
void fork_hook_add(ForkHook *h);
void fork_hook_remove(ForkHook *h); /* which may never have been added */

/* ---- os.c: files and the clock ----------------------------------------------------------------------------------- */

bool file_read(const char *path, Buf *out); /* the whole of it, appended; false with errno when it cannot be read */
/* for its owner only; false with errno, also when it exists */
bool file_write_new(const char *path, const void *bytes, size_t n);
/* A file that is there as a whole or not at all: written beside its path, then renamed. What is no file (/dev/stdout,
 * a pipe) is written as it is, and a link stays one. whole_file_open: -1 with errno. whole_file_end: once the
 * descriptor is closed, where !good, errno stays. */
typedef struct WholeFile {
  char path[PATH_MAX], temporary[PATH_MAX];
} WholeFile;
int whole_file_open(WholeFile *w, const char *path);
bool whole_file_end(WholeFile *w, bool good);
bool file_write_atomic(const char *path, const void *bytes, size_t n); /* such a file, on disk; errno on false */
/* Opens a regular file of at most `most` bytes for reading, the only kind that is ever read: a pipe, a device or a
 * folder could keep its reader forever. Never waits. -1 with errno: EISDIR, ESPIPE when it is no regular file either,
 * EFBIG when it is larger. *size may be NULL. */
int file_open(const char *path, int64_t most, int64_t *size);
FILE *file_open_stream(const char *path, int64_t most); /* the same */
const char *file_reason(int number);                    /* strerror, with words for these two */
bool dir_create_all(const char *path);                  /* folders that are made are their owner's alone */
/* A variable of the environment, the one way to read it; NULL where it is not set, and in a process that has more
 * rights than its caller (set-user-ID): there nobody chooses folders and programs for it. */
const char *environment_get(const char *name);
/* Full path of `name` in PATH, or NULL. */
char *find_program(Arena *a, const char *name);
int64_t clock_ns(void); /* monotonic */

/* ---- process.c: compilers and the like --------------------------------------------------------------------------- */

typedef struct ProcessOptions {
  const char *setting;     /* a "NAME=value" for its environment, unless NAME is there already */
  const char *folder;      /* its TMPDIR */
  int64_t most_ns;         /* after which it is killed, with all of its process group; 0: it may take its time */
  const atomic_bool *stop; /* so it is as soon as another thread sets this; or NULL */
} ProcessOptions;
/* Runs argv[0] with argv without a shell that would read them, its stdout+stderr gathered in `output` up to a size;
 * returns the exit status, 128+signal when killed, -1 with errno when it could not be started, took too long
 * (ETIMEDOUT), or was stopped (ECANCELED) by *stop or process_stop_all. */
int process_run(const char *const *argv, Buf *output);
int process_run_with(const char *const *argv, const ProcessOptions *o, Buf *output);
/* Kills what runs. For signal handlers, too. */
void process_stop_all(void);
/* What a compilation grants a compiler or an assembler: cx->compiler_seconds, else NEREID_COMPILER_SECONDS, else 600
 * seconds. */
int64_t compiler_ns(const Context *cx);

/* ---- temp.c: temporary folders and files ------------------------------------------------------------------------- */

typedef struct TempFolder {
  char *path;
  int lock, slot;
} TempFolder;
const char *temp_place(void); /* $TMPDIR, or /tmp */
/* For its owner only, below parent (NULL: temp_place); false with errno. */
bool temp_create(TempFolder *t, const char *parent);
void temp_remove(TempFolder *t); /* with all that is in it; keeps errno. Again, or for one of zeros: nothing */
void temp_remove_all(void);      /* all folders of this process; for signal handlers, too */
int temp_file(void);             /* a file without a name; -1 with errno */

/* ---- library.c: libraries that are opened at run time -------------------------------------------------------------- */

typedef struct LibrarySymbol {
  const char *name;
  size_t offset; /* of a pointer to it, in a struct of such */
  bool needed;
} LibrarySymbol;
enum { LIBRARY_PATH = 1024 };
/* The file that the environment's `variable` names; else the first that there is of `names` (which NULL ends). It stays
 * loaded. NULL: dlerror() says why. */
void *library_open(const char *variable, const char *const *names);
/* Fills a struct with n pointers, NULL where there is no such function. Returns the first needed one that is missing,
 * or NULL. */
const char *library_take(void *library, const LibrarySymbol *symbols, size_t n, void *into);
void library_of(const void *function, char path[LIBRARY_PATH]); /* the file that it was loaded from; "": not known */
void library_identity(Buf *out, const char *path);              /* what changes when the file does */

/* ---- store.c: the cache on disk ---------------------------------------------------------------------------------- */

/* Where it is: $NEREID_CACHE_DIR, else $XDG_CACHE_HOME/nereid, else ~/.cache/nereid; NULL when none is known. */
char *cache_dir(Arena *a);
/* Appends why the folder is not used; false: it is, or is not there yet. */
bool store_problem(Buf *out);
/* The content of an entry; false: there is none of this maker ("": of any), or none to be trusted; *out is empty then.
 * maker NULL: a file as it is, which tells by itself whether it is whole. kind ".": in the cache's folder itself. */
bool store_find(const char *kind, const char *name, const char *maker, Buf *out);
bool store_keep(const char *kind, const char *name, const char *maker, const void *bytes, size_t n); /* or errno */
bool store_temp(TempFolder *t); /* a temporary folder in the cache's; false with errno */

typedef struct StoreSize {
  int entries;
  int64_t bytes;
} StoreSize;
StoreSize store_size(void);
int64_t store_limit(void);      /* NEREID_CACHE_SIZE, else 1 GiB; 0: none */
bool store_trim(int64_t limit); /* removes what was used longest ago while there is more than limit; 0: all */
bool parse_size(const char *text, int64_t *out); /* "500M", "2GiB", "4096" */

#endif
