/* Nereid: tile kernels in the Triton language, compiled and run from C.
 *
 *     nereid_device *dev;
 *     nereid_module *mod;
 *     nereid_error *err = NULL;
 *     nereid_device_open("cpu", &dev, &err);
 *     nereid_module_load("add.py", &mod, &err);
 *     nereid_arg args[] = {nereid_pointer(x, NEREID_F32), nereid_pointer(y, NEREID_F32),
 *                          nereid_pointer(out, NEREID_F32), nereid_int(n),
 *                          nereid_named(nereid_constexpr_int(1024), "BLOCK")};
 *     int64_t grid[3] = {(n + 1023) / 1024, 1, 1};
 *     nereid_launch(dev, NULL, mod, "add_kernel", grid, args, 5, NULL, &err);
 *     if (err) fputs(nereid_error_text(err), stderr), nereid_error_free(err);
 *
 * Rules that hold everywhere:
 * - A function that can fail returns a nereid_status. When it is not NEREID_OK and `error` is not NULL, *error is set
 * to a new nereid_error that the caller frees; else *error is left alone. Nothing is changed by a call that failed,
 * unless said.
 * - Objects have a create/open/load and a free/close; freeing NULL does nothing. An object must outlive what was made
 * from it.
 * - Any thread may call anything on any object, several at once, unless said.
 * - The library never exits, aborts, prints (device_print and static_print apart) or changes the process's state.
 * - A program that was built against one version runs with the next of the same soname (libnereid.so.0.1). Structs
 * that have a member `size` may grow at their end: set it to sizeof the struct. The others keep their size: what
 * comes to them takes the place of `reserved`, which is zero.
 * - Sizes are bytes when called `bytes`, elements when called `count`; times are nanoseconds.
 */
#ifndef NEREID_H
#define NEREID_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define NEREID_API __attribute__((visibility("default")))
#else
#define NEREID_API
#endif

#define NEREID_VERSION "0.1.0"
NEREID_API const char *nereid_version(void);

/* ---- errors ------------------------------------------------------------------------------------------------------ */

typedef enum {
  NEREID_OK = 0,
  NEREID_BAD_ARGUMENT, /* a call of this interface that makes no sense: NULL, a size below zero, an unknown name */
  NEREID_BAD_SOURCE,   /* the kernel's file: syntax, types, shapes; nereid_error_text has the place and the reason */
  NEREID_BAD_FILE,     /* missing, unreadable, truncated */
  NEREID_UNSUPPORTED,  /* right, but not on this device (inline PTX on a CPU) */
  NEREID_NO_DEVICE,
  NEREID_NO_COMPILER, /* the CPU device needs a C compiler, or ptxas is missing */
  NEREID_OUT_OF_MEMORY,
  NEREID_KERNEL_FAULT, /* a device_assert, an access out of bounds, a race (`interp`) while running; on a GPU also an
                          illegal address */
  NEREID_INTERNAL,     /* a defect of Nereid; please report it */
  NEREID_OVER_LIMIT    /* more than nereid_limits or options.compiler_seconds allow; the message names the limit and the
                          place */
} nereid_status;

typedef struct nereid_error nereid_error;
NEREID_API nereid_status nereid_error_status(const nereid_error *e);
NEREID_API const char *nereid_error_message(const nereid_error *e); /* the first message, one line, without the place */
/* all of it, several lines: places, source lines, hints */
NEREID_API const char *nereid_error_text(const nereid_error *e);
/* The place of the first message; file is NULL and line 0 when there is none. Lines and columns count from 1. */
NEREID_API void nereid_error_place(const nereid_error *e, const char **file, int *line, int *column);
/* The calls in kernels through which that place was reached, innermost first. False: there is no call i. */
NEREID_API int nereid_error_call_count(const nereid_error *e);
NEREID_API bool nereid_error_call(const nereid_error *e, int i, const char **file, int *line, int *column);
/* What it is about, beside its status: so that another language can raise its own classes. */
typedef enum {
  NEREID_ERROR_OTHER,
  NEREID_ERROR_SYNTAX,
  NEREID_ERROR_NAME,        /* a name without a value, or one that a kernel may not read */
  NEREID_ERROR_TYPE,        /* where Python would raise a TypeError, */
  NEREID_ERROR_VALUE,       /* or a ValueError */
  NEREID_ERROR_UNSUPPORTED, /* Python that kernels do not have */
  NEREID_ERROR_ASSERTION,   /* a static_assert fails */
  NEREID_ERROR_RESOURCES,   /* the kernel needs more than the device has: nereid_error_resource */
  NEREID_ERROR_ASSEMBLER,   /* ptxas refuses what was made */
  NEREID_ERROR_LAUNCH,      /* a call's arguments, grid or options */
  NEREID_ERROR_FAULT        /* while it ran: a failed device_assert, an access out of bounds */
} nereid_error_kind;
NEREID_API nereid_error_kind nereid_error_get_kind(const nereid_error *e);
/* Of what too much is asked for ("shared memory"), how much, and how much there is. False: it is about no such thing.
 * Any may be NULL. */
NEREID_API bool nereid_error_resource(const nereid_error *e, const char **name, int64_t *required, int64_t *limit);
NEREID_API void nereid_error_free(nereid_error *e);

/* ---- element types ----------------------------------------------------------------------------------------------- */

typedef enum {
  NEREID_I1,
  NEREID_I8,
  NEREID_I16,
  NEREID_I32,
  NEREID_I64,
  NEREID_U8,
  NEREID_U16,
  NEREID_U32,
  NEREID_U64,
  NEREID_F8E5,
  NEREID_F8E4NV,
  NEREID_F8E4B15,
  NEREID_F8E4B8,
  NEREID_F8E5B16,
  NEREID_F16,
  NEREID_BF16,
  NEREID_F32,
  NEREID_F64
} nereid_dtype;
NEREID_API const char *nereid_dtype_name(nereid_dtype t);                /* "f32" */
NEREID_API bool nereid_dtype_parse(const char *name, nereid_dtype *out); /* "f32", "fp32", "float32", ... */
NEREID_API size_t nereid_dtype_bytes(nereid_dtype t);                    /* in memory */
NEREID_API double nereid_dtype_load(nereid_dtype t, const void *p);      /* one element, as a double */
/* nearest even; fp8 saturates; integers truncate */
NEREID_API void nereid_dtype_store(nereid_dtype t, void *p, double v);

/* ---- devices and memory ------------------------------------------------------------------------------------------ */

typedef struct nereid_device nereid_device;
/* "cpu" (all processors), "cpu:N" (N threads), "interp" (the checking interpreter), "sim" or "sim:TARGET" (a GPU's
 * threads, one by one, on this machine, as compiled for sm_90a or the TARGET), "cuda" or "cuda:N" (an NVIDIA GPU,
 * counted from 0, in its primary context, which is also the CUDA runtime's: pointers and streams of cudart and PyTorch
 * serve as they are). */
NEREID_API nereid_status nereid_device_open(const char *name, nereid_device **out, nereid_error **error);
/* An NVIDIA GPU in a context of the caller's: a CUcontext, or NULL for the one that is current in the calling thread.
 * It must outlive the device and the modules whose kernels ran there; it is neither made current for good in a thread
 * that has another, nor destroyed. */
NEREID_API nereid_status nereid_device_open_cuda(void *context, nereid_device **out, nereid_error **error);
/* The CUcontext that the device works in; NULL on other devices. */
NEREID_API void *nereid_device_native(const nereid_device *d);
NEREID_API void nereid_device_close(nereid_device *d);
typedef struct nereid_device_info {
  char name[32], description[256]; /* "cpu", "AMD EPYC, 2 threads, AVX-512; gcc 12.2" */
  int threads;
  int64_t memory_bytes;
  bool available;         /* false: `description` says what is missing */
  int compute_capability; /* of a GPU: 90 for 9.0; else 0 */
  int multiprocessors;    /* of a GPU */
  int driver_version;     /* of a GPU: the CUDA version of its driver, 12080 for 12.8 */
  uint64_t reserved[4];
} nereid_device_info;
/* Fills up to `max` entries, returns how many devices there are (those that are not available included). */
NEREID_API int nereid_devices(nereid_device_info *out, int max);

/* Memory of a device, aligned to 64 bytes; of `interp` it counts as unwritten until copied to or stored. */
NEREID_API nereid_status nereid_alloc(nereid_device *d, int64_t bytes, void **out, nereid_error **error);
NEREID_API void nereid_free(nereid_device *d, void *p);
NEREID_API nereid_status nereid_copy_to_device(nereid_device *d, void *dst, const void *host, int64_t bytes,
                                               nereid_error **error);
NEREID_API nereid_status nereid_copy_to_host(nereid_device *d, void *host, const void *src, int64_t bytes,
                                             nereid_error **error);
/* The caller's own memory. `cpu` takes any pointer as it is; `interp` must be told of it first, since it checks every
 * access. */
NEREID_API nereid_status nereid_register(nereid_device *d, void *p, int64_t bytes, const char *name,
                                         nereid_error **error);
NEREID_API void nereid_unregister(nereid_device *d, void *p);

/* Waits for all that was asked of the device, on every stream. On a GPU, what went wrong in a launch since the last
 * synchronize is said here: the error names the kernel when it can only be one; device_print's lines of these launches
 * are handed out here too. After an illegal address and the like the CUDA context is lost: every later call on it
 * fails, and says so. With options.blocking, or the environment variable NEREID_CUDA_BLOCKING=1, each launch waits for
 * its end and has its own errors. */
NEREID_API nereid_status nereid_synchronize(nereid_device *d, nereid_error **error);

/* ---- streams and events ---------------------------------------------------------------------------------------------------
 *
 * An order of launches and copies: those in one stream follow each other, those in different streams may run side by
 * side. NULL is the device's default stream (of CUDA: the legacy one). On cpu, interp and sim whatever is asked has
 * been done when the call returns, so that a program with streams runs there too. */
typedef struct nereid_stream nereid_stream;
NEREID_API nereid_status nereid_stream_create(nereid_device *d, nereid_stream **out, nereid_error **error);
/* The caller's own CUstream (a cudaStream_t is one), which must outlive it; nereid_stream_destroy leaves that stream
 * alone. It may be capturing a CUDA graph: a warm launch (see nereid_run) is captured as one kernel node. cpu, interp
 * and sim take any handle for nothing. */
NEREID_API nereid_status nereid_stream_wrap(nereid_device *d, void *native, nereid_stream **out, nereid_error **error);
NEREID_API void *nereid_stream_native(const nereid_stream *s); /* the CUstream; NULL on other devices */
NEREID_API void nereid_stream_destroy(nereid_stream *s);       /* what is in it still runs */
/* Waits for what is in the stream; else as nereid_synchronize. s NULL: the device's default stream. */
NEREID_API nereid_status nereid_stream_synchronize(nereid_device *d, nereid_stream *s, nereid_error **error);

/* A point in a stream, with its time. */
typedef struct nereid_event nereid_event;
NEREID_API nereid_status nereid_event_create(nereid_device *d, nereid_event **out, nereid_error **error);
NEREID_API void nereid_event_destroy(nereid_event *e);
/* s NULL: the default stream */
NEREID_API nereid_status nereid_event_record(nereid_event *e, nereid_stream *s, nereid_error **error);
/* waits until it has passed */
NEREID_API nereid_status nereid_event_synchronize(nereid_event *e, nereid_error **error);
/* Milliseconds from start to end, both recorded and passed; a GPU measures about half a microsecond. */
NEREID_API nereid_status nereid_event_elapsed(nereid_event *start, nereid_event *end, double *ms, nereid_error **error);
/* What comes into s from now on waits until e has passed. */
NEREID_API nereid_status nereid_stream_wait(nereid_device *d, nereid_stream *s, nereid_event *e, nereid_error **error);

/* What goes into a stream, recorded once and launched as one: the device goes from one kernel to the next without the
 * host. Between begin and end nothing is done; kernels must have been compiled before (nereid_compile), and pointers,
 * numbers and grids are those of the recording. On CUDA a CUDA graph; on cpu, interp and sim a list that is gone
 * through. s: not NULL. A graph may be launched in any stream of its device, any number of times, one at a time; it
 * holds until the modules of its kernels are freed: synchronize before that. */
typedef struct nereid_graph nereid_graph;
NEREID_API nereid_status nereid_graph_begin(nereid_device *d, nereid_stream *s, nereid_error **error);
/* also ends a recording that went wrong */
NEREID_API nereid_status nereid_graph_end(nereid_device *d, nereid_stream *s, nereid_graph **out, nereid_error **error);
NEREID_API nereid_status nereid_graph_launch(nereid_graph *g, nereid_stream *s, nereid_error **error);
NEREID_API void nereid_graph_free(nereid_graph *g);

/* Copies in a stream. The host's memory must stay as it is until the stream has come so far; from memory of
 * nereid_alloc_host the host goes on at once, from other memory the call may take as long as the copy. */
NEREID_API nereid_status nereid_copy_to_device_async(nereid_device *d, nereid_stream *s, void *dst, const void *host,
                                                     int64_t bytes, nereid_error **error);
NEREID_API nereid_status nereid_copy_to_host_async(nereid_device *d, nereid_stream *s, void *host, const void *src,
                                                   int64_t bytes, nereid_error **error);
/* Between two arrays of the device, which do not overlap. */
NEREID_API nereid_status nereid_copy_async(nereid_device *d, nereid_stream *s, void *dst, const void *src,
                                           int64_t bytes, nereid_error **error);
NEREID_API nereid_status nereid_fill_async(nereid_device *d, nereid_stream *s, void *dst, unsigned char value,
                                           int64_t bytes, nereid_error **error); /* every byte becomes value */
/* Memory of the host that the device copies from and to fastest (page-locked; a GPU's kernels reach it as well).
 * Elsewhere plain memory. */
NEREID_API nereid_status nereid_alloc_host(nereid_device *d, int64_t bytes, void **out, nereid_error **error);
NEREID_API void nereid_free_host(nereid_device *d, void *p);

/* ---- kernels ----------------------------------------------------------------------------------------------------- */

/* one file with kernels: Triton's Python, or CUDA C when its name ends in .cu */
typedef struct nereid_module nereid_module;
NEREID_API nereid_status nereid_module_load(const char *path, nereid_module **out, nereid_error **error);
/* `name` stands for the path in messages, and says by its end which language it is; text is copied. */
NEREID_API nereid_status nereid_module_load_string(const char *name, const char *text, nereid_module **out,
                                                   nereid_error **error);
/* Waits for launches of its kernels that are still running on a GPU; a fault of theirs is said at the device's next
 * synchronize. CUDA graphs that captured its kernels must not be launched any more. */
NEREID_API void nereid_module_free(nereid_module *m);

/* texts may be NULL */
typedef struct nereid_param {
  const char *name, *annotation, *default_text;
  bool is_constexpr;
  bool is_set; /* by a decorator (autotune, heuristics): a launch may leave it out */
} nereid_param;
typedef struct nereid_kernel_info {
  const char *name;
  int line;
  int param_count;
  const nereid_param *params;
  uint64_t reserved[4];
} nereid_kernel_info;
NEREID_API int nereid_kernel_count(const nereid_module *m);
/* lives as long as m */
NEREID_API const nereid_kernel_info *nereid_kernel_at(const nereid_module *m, int i);
/* NULL when absent */
NEREID_API const nereid_kernel_info *nereid_kernel_find(const nereid_module *m, const char *name);

/* ---- what surrounds a source -------------------------------------------------------------------------------------
 *
 * A kernel's text has free names: constants, types, other jit functions, modules. Of a file that nereid_module_load
 * reads they are evaluated from the file and what it imports. A host that runs the file itself (Python), or that knows
 * better (a shell with --define), says instead what they are: it gives the text with its file and line, and answers for
 * each free name when a kernel is compiled. docs/guide/embedding.md has an example.
 *
 * A nereid_value is an answer under way. The host fills it in with exactly one nereid_value_set_* while its callback
 * runs; texts are copied. One that cannot be made (out of memory, a NULL text, a tuple of millions, deeper than 64) is
 * an error of the compilation, which names what was asked for. */
typedef struct nereid_value nereid_value;
NEREID_API void nereid_value_set_none(nereid_value *v);
NEREID_API void nereid_value_set_bool(nereid_value *v, bool b);
NEREID_API void nereid_value_set_int(nereid_value *v, int64_t i);
/* An int of up to 128 bits, in decimal. */
NEREID_API void nereid_value_set_int_text(nereid_value *v, const char *digits);
NEREID_API void nereid_value_set_float(nereid_value *v, double f);
NEREID_API void nereid_value_set_str(nereid_value *v, const char *utf8, size_t bytes);
/* An element type or a pointer, by its name in signatures and annotations: "fp16", "i32", "*fp32", "*ki8". */
NEREID_API void nereid_value_set_type(nereid_value *v, const char *type);
/* Something of the language by its full name: "triton.language", "triton.language.load", "triton.language.constexpr",
 * "triton.language.extra.cuda.libdevice.exp", "math", "math.sqrt", "builtins.max". */
NEREID_API void nereid_value_set_library(nereid_value *v, const char *path);
/* `count` items, each to be filled in by nereid_value_item. */
NEREID_API void nereid_value_set_tuple(nereid_value *v, int count);
NEREID_API void nereid_value_set_list(nereid_value *v, int count);
/* items 2 * i are keys, 2 * i + 1 their values */
NEREID_API void nereid_value_set_dict(nereid_value *v, int count);
/* cls: which class it is; NULL: any of this name and these fields */
NEREID_API void nereid_value_set_named_tuple(nereid_value *v, const char *class_name, void *cls, int count,
                                             const char *const *fields);
/* The class itself, which a kernel may call. */
NEREID_API void nereid_value_set_named_tuple_class(nereid_value *v, const char *class_name, void *cls, int count,
                                                   const char *const *fields);
/* A member of an Enum; its item 0 is its value. Two are equal when class, name and value are. */
NEREID_API void nereid_value_set_enum(nereid_value *v, const char *class_name, void *cls, const char *member);
/* NULL: no such item. Filled in as v is, before v's callback returns. */
NEREID_API nereid_value *nereid_value_item(nereid_value *v, int i);
/* A module; its attributes are asked for (NEREID_ASK_ATTRIBUTE of `object`, which is not NULL). what: its name, for
 * messages. */
NEREID_API void nereid_value_set_module(nereid_value *v, const char *what, void *object);
/* Whatever else has attributes: a class, an instance. As a global it must be a constexpr. */
NEREID_API void nereid_value_set_object(nereid_value *v, const char *what, void *object);
/* A triton.constexpr_function: kernels call it with constants, and host->call with `object` computes the result. */
NEREID_API void nereid_value_set_constexpr_function(nereid_value *v, const char *what, void *object);
/* What a Python expression over the kernel's file gives: "128", "tl.float16", "(1, OTHER)". */
NEREID_API void nereid_value_set_expression(nereid_value *v, const char *python_text);
/* Something that a kernel cannot use: an error where it does, with this text. */
NEREID_API void nereid_value_set_other(nereid_value *v, const char *what);
/* The host failed: the compilation does, with this message. */
NEREID_API void nereid_value_set_error(nereid_value *v, const char *message);
/* It was made by tl.constexpr(...): kernels may read it as a global. After set_*. */
NEREID_API void nereid_value_mark_constexpr(nereid_value *v);

typedef enum {
  NEREID_SOURCE_FILE,      /* a whole file; its kernels are found by their decorators */
  NEREID_SOURCE_JIT,       /* the first def in it is a jit function */
  NEREID_SOURCE_CONSTEXPR, /* ... a constexpr function, evaluated here on constants */
  NEREID_SOURCE_CLASS      /* the first class in it is an aggregate, named tuple or Enum */
} nereid_source_kind;
/* A text of Python, and where it stands. Copied where it is given. */
typedef struct nereid_source {
  size_t size; /* sizeof(nereid_source) */
  nereid_source_kind kind;
  const char *path; /* for messages and profiles */
  /* whole lines, indented as they stand in the file or less; decorators are passed over. NULL: the file is read; of a
   * JIT, CONSTEXPR or CLASS the definition of `name` that is nearest to `line` is meant, wherever it stands, and names
   * that the host does not know are those of the file */
  const char *text;
  size_t text_bytes;
  int line;         /* of the first line of text in its file; 0: 1 */
  const char *name; /* NULL: as the text defines it */
  /* whose free names are asked for: handed to host->ask. Two sources with one scope and text are the same function */
  void *scope;
  bool noinline, debug;
  bool launch_only;            /* it stands under autotune or heuristics: kernels cannot call it */
  const char *must_use_result; /* of triton.must_use_result: what its message adds, or ""; NULL: may be ignored */
  /* parameters by name */
  const char *const *do_not_specialize, *const *do_not_specialize_on_alignment;
  int do_not_specialize_count, do_not_specialize_on_alignment_count;
} nereid_source;
NEREID_API void nereid_value_set_source(nereid_value *v, const nereid_source *s);

typedef enum {
  NEREID_ASK_NAME,      /* a free name of the source whose scope `of` is */
  NEREID_ASK_ATTRIBUTE, /* an attribute of the object `of` */
  NEREID_ASK_DEFAULT,   /* a parameter's default; false: what the text says is evaluated */
  NEREID_ASK_ANNOTATION /* a parameter's annotation: a string as Triton's signature has it, a type or
                           triton.language.constexpr; false: as the text has it */
} nereid_ask;
/* Called by the thread that compiles, which need not be that of the call, and by several at once; not to call what
 * compiles or frees the same module. */
typedef struct nereid_host {
  size_t size; /* sizeof(nereid_host) */
  void *arg;
  /* False: there is no such thing. Python's own names (len, range, ...) need no answer. */
  bool (*ask)(void *arg, nereid_ask what, void *of, const char *name, nereid_value *out);
  /* Calls a constexpr function; names[i] is NULL for positional arguments. NULL: none can be called. False, or nothing
   * set: a failure, as nereid_value_set_error is. */
  bool (*call)(void *arg, void *object, int count, const nereid_value *const *args, const char *const *names,
               nereid_value *out);
  /* Names never change while the module is there, or the host itself looks whether they did. Else nereid_launch and
   * nereid_compile ask again for all that was asked for, and compile anew where an answer differs. */
  bool unchanging;
  /* Globals need not be constexprs, as with TRITON_ALLOW_NON_CONSTEXPR_GLOBALS=1 in the environment. */
  bool allow_globals;
  /* A text that is the same where names and values are, in every process: what tuning finds is kept under it. NULL: it
   * is kept in this process alone. Copied. */
  const char *identity;
} nereid_host;
/* A module whose free names the host knows. Of a NEREID_SOURCE_JIT it has that one kernel, named by its def. Of a FILE,
 * names that the host does not know are those of the file; text NULL: it is read from path. host->arg and scopes must
 * outlive the module, *host need not. */
NEREID_API nereid_status nereid_module_load_source(const nereid_source *source, const nereid_host *host,
                                                   nereid_module **out, nereid_error **error);

/* Of the arguments of host->call. */
typedef enum {
  NEREID_VALUE_NONE,
  NEREID_VALUE_BOOL,
  NEREID_VALUE_INT,
  NEREID_VALUE_FLOAT,
  NEREID_VALUE_STR,
  NEREID_VALUE_TYPE, /* its name is the text: "fp16", "*fp32" */
  NEREID_VALUE_LIBRARY,
  NEREID_VALUE_TUPLE,
  NEREID_VALUE_LIST,
  NEREID_VALUE_DICT,
  NEREID_VALUE_ENUM,   /* text: the member's name; item 0: its value; object: the class */
  NEREID_VALUE_OBJECT, /* whatever else came from the host; functions too, whose object is their scope */
  NEREID_VALUE_TENSOR, /* of the running kernel: text: its type; items: its shape, as INTs */
  NEREID_VALUE_OTHER   /* text: what it is */
} nereid_value_kind;
NEREID_API nereid_value_kind nereid_value_get_kind(const nereid_value *v);
NEREID_API int64_t nereid_value_get_int(const nereid_value *v); /* of BOOL and INT; 0 where its text has more bits */
NEREID_API double nereid_value_get_float(const nereid_value *v);
/* Of STR, TYPE, LIBRARY, ENUM, TENSOR, OTHER, and of an INT in decimal; *bytes may be NULL. Lives as long as v. */
NEREID_API const char *nereid_value_get_text(const nereid_value *v, size_t *bytes);
NEREID_API int nereid_value_get_count(const nereid_value *v); /* of items */
NEREID_API const nereid_value *nereid_value_get_item(const nereid_value *v, int i);
/* The field's name of a named tuple's item; NULL: it is none. */
NEREID_API const char *nereid_value_get_field(const nereid_value *v, int i);
NEREID_API void *nereid_value_get_object(const nereid_value *v);

/* ---- arguments and launches -------------------------------------------------------------------------------------- */

/* One argument. Build it with the functions below. Arguments are matched by position until the first named one. A
 * kernel's *args takes those by position that no parameter before it takes, any number; by its name a tuple of them. */
typedef enum {
  NEREID_ARG_POINTER,
  NEREID_ARG_INT,
  NEREID_ARG_FLOAT,
  NEREID_ARG_BOOL,
  NEREID_ARG_NONE,
  NEREID_ARG_CONSTEXPR,
  NEREID_ARG_DESCRIPTOR,
  NEREID_ARG_TUPLE
} nereid_arg_kind;
typedef struct nereid_arg {
  nereid_arg_kind kind;
  const char *name;   /* of the parameter, or NULL: by position; of a tuple's item: its field, if all have one */
  nereid_dtype dtype; /* pointers and descriptors: of an element; numbers: see has_dtype */
  /* a number is of exactly this type (as a parameter annotated with it), not of the type its value suggests */
  bool has_dtype;
  void *pointer;
  int64_t i;        /* int, bool */
  bool is_unsigned; /* i is the bits of a uint64 */
  double f;
  union {
    const char *text; /* constexpr: a Python expression, "128", "'relu'", "tl.float16", "None"; NULL: the integer i */
    /* pointers, descriptors: a copy in host memory of the array's `bytes` as the launch will find them.
     * nereid_launch_cost and nereid_report_launch then know what the kernel loads from it, where it holds integers and
     * the kernel does not write it: lengths, block tables, indices. NULL: not said. Read during the call alone;
     * launches ignore it */
    const void *values;
  };
  int rank;                     /* descriptor: up to 5 dims */
  int64_t shape[5], strides[5]; /* descriptor: elements */
  int32_t block_shape[5];
  bool nan_padding;
  int item_count; /* tuple */
  const struct nereid_arg *items;
  /* pointers, descriptors: from there to the array's end, for tuning, where the device was not told of that memory; 0:
   * not said */
  int64_t bytes;
} nereid_arg;
NEREID_API nereid_arg nereid_pointer(const void *p, nereid_dtype t);
NEREID_API nereid_arg nereid_int(int64_t v);
NEREID_API nereid_arg nereid_float(double v);
NEREID_API nereid_arg nereid_bool(bool v);
NEREID_API nereid_arg nereid_none(void);
NEREID_API nereid_arg nereid_constexpr(const char *python_text); /* the text must live until the call returns */
NEREID_API nereid_arg nereid_constexpr_int(int64_t v);
NEREID_API nereid_arg nereid_named(nereid_arg a, const char *parameter);

/* What compiling and running one kernel may take before it is NEREID_OVER_LIMIT, so that source of others can be
 * compiled, and run on `interp` and `sim`, without harm (the code of `cpu` and `cuda` is not watched while it
 * computes). 0: the default, or what the environment variable NEREID_LIMITS says in the form of nereid_limits_read.
 * Beside these, the nesting of source and values ends where the stack of the calling thread does: 64 KiB are left to
 * others; 256 KiB are enough for the kernels that people write. */
typedef struct nereid_limits {
  /* bytes that one compilation takes, and that the values of one program take on `interp` and `sim`: 1 GiB */
  int64_t memory_bytes;
  /* of a compilation: expressions evaluated, loop iterations unrolled, operations built and looked at: 4 * 10^8, some
   * ten seconds */
  int64_t steps;
  /* of a launch on `interp` and `sim`: elements that its operations compute (on `sim` a dot's products), and 64 for
   * each operation: 2^40, more than a quarter of an hour. On `cpu`, too: 2^20 for every 20 us in which all its programs
   * wait for each other; 2^40 are gone after a minute or two */
  int64_t operations;
  int64_t file_bytes; /* of a source file, an imported one too: 64 MiB */
  uint64_t reserved[4];
} nereid_limits;
/* "memory=4G,steps=1e9,operations=1e12,file=1M", any of them; K, M, G, T are powers of 1024. The others become 0. */
NEREID_API nereid_status nereid_limits_read(const char *text, nereid_limits *out, nereid_error **error);

typedef struct nereid_options {
  /* 0: what tuning found (see below), else from the file's autotune configuration, else Triton's defaults */
  int num_warps, num_stages, num_ctas;
  /* sizeof(nereid_options); 0: the members that version 0.1 has, and none that came later */
  size_t size;
  bool debug;              /* device_assert checks; on interp, undefined elements that are used */
  bool check_races;        /* interp: report conflicting accesses of different programs */
  bool allow_unwritten;    /* interp: memory nobody wrote may be read and, with debug, undefined elements used */
  const int64_t *programs; /* run only these programs (linear ids, x fastest); NULL: all */
  int64_t program_count;
  const char *dump_after;                     /* a pass's name or "all": its IR goes to `dump` (see nereid_inspect) */
  void (*print)(void *arg, const char *line); /* device_print and static_print, a line without its end; NULL: stderr */
  void *print_arg;                            /* on a GPU, print is called when the device is next synchronized */
  /* cuda: each launch waits for its end, so that an error names it (NEREID_CUDA_BLOCKING=1: all do) */
  bool blocking;
  /* sim, cuda: blocks run one program after the other, as many blocks as the GPU runs at once, wherever that is right;
   * else where the compiler finds that it pays. `without` may forbid it. */
  bool persist;
  /* sim, cuda: warps of their own copy tiles for those that multiply, wherever that can be; else for loops that ask for
   * it (tl.range(warp_specialize=True)), and where the compiler finds that it pays. Such kernels are persistent, too.
   */
  bool specialize;
  /* a kernel of CUDA C: threads of a block along x, y, z; zeros count as 1, but x must be given */
  int block[3];
  int shared_bytes; /* a kernel of CUDA C: its dynamic shared memory */
  /* a nereid_instrument_regions: the kernel is instrumented, for nereid_inspect to show. Launches:
   * nereid_instrument_run */
  int instrument;
  void *instrument_buffer; /* set by nereid_instrument_run; else NULL */
  /* Programs along x, y, z as Python expressions, "cdiv(n, BLOCK), heads", over the launch's numbers and what its
   * configuration sets (constexprs, num_warps, num_stages); also cdiv, next_power_of_2, min, max. It serves where a
   * launch's grid is NULL, so that the grid may follow the configuration. */
  const char *grid;
  /* take the first configuration that fits, and nothing that tuning found; NEREID_AUTOTUNE=0: all do */
  bool no_autotune;
  const struct nereid_tune_options *tune; /* how a launch that has to measure does; NULL: as usual */
  nereid_limits limits;
  /* What a run of the C compiler or of ptxas may take before it is killed; 0: NEREID_COMPILER_SECONDS, else 600. */
  double compiler_seconds;
  /* sim, cuda, for who wants to see what each is worth: what the compiler leaves out, of nereid_without_names(), with
   * commas between. NULL: nothing */
  const char *without;
  /* What the compiler warns of, one call each; the warning is gone when the call returns, its status is NEREID_OK.
   * NULL: it is not said. */
  void (*warn)(void *arg, const nereid_error *warning);
  void *warn_arg;
  /* of tl.dot where it says none: "tf32" (as NULL), "tf32x3", "ieee", "bf16x3", "bf16x6" */
  const char *dot_precision;
  /* with debug, sums, differences and products of ints narrower than 64 bits are checked for overflow, as a
   * device_assert: not these */
  bool no_sanitize_overflow;
  bool no_fp_fusion; /* products and sums of floats are rounded each, never as one fused operation */
  /* cuda: registers of a thread at most (PTX's .maxnreg); 0: as many as it needs */
  int max_registers;
  /* cuda: the kernel may begin before the one ahead of it in the stream has ended (programmatic dependent launch); or
   * all of its blocks run at the same time, or the launch fails */
  bool launch_pdl, cooperative_grid;
  /* cuda: a device_assert that fails is an error of the driver's, for who shares its context with others (PyTorch):
   * whoever waits for the GPU gets it, and the context is of no use after it. nereid_synchronize still says what
   * failed. Else the program that failed ends, others go on, and only Nereid knows. */
  bool trap_asserts;
  /* sim, cuda: of what has no element (a scalar, or a prefix alone) device_print says a line for each thread of the
   * program, as under Triton; else one */
  bool print_threads;
} nereid_options;

/* A launch may leave its configuration open: the parameters that @triton.autotune sets, warps and stages. On a device
 * that measures (cpu, cuda) the first launch of a kind (the values that autotune's `key` names, the element types, the
 * configurations, the device) then tries all configurations on its own arrays, as Triton does, and keeps the fastest,
 * in memory and in the cache's folder; later ones take it from there. With options.grid all configurations are tried;
 * with a numeric grid, which is made for one block size, only those that differ from the first in warps, stages and
 * ctas. Who gives all the parameters has chosen, and nothing is tried. Arrays named in reset_to_zero are zeros after
 * that first launch's trials, those of restore_value, and all that the kernel reads and writes and whose end is known,
 * as before. interp and sim take the first configuration that fits. What nereid_tune has kept comes before autotune. */

/* Compiles what is not in the caches yet, and runs grid[0] * grid[1] * grid[2] programs; any of them zero: none. The
 * limits of a grid are CUDA's on every device: 2^31 - 1 along x, 65535 along y and z. A device_assert that fails, and
 * on `interp` any wrong access, is NEREID_KERNEL_FAULT; on `cpu` a kernel is C code, and one that runs past its arrays
 * may crash the process: `interp` finds such. */
NEREID_API nereid_status nereid_launch(nereid_device *d, nereid_stream *s, nereid_module *m, const char *kernel,
                                       const int64_t grid[3], const nereid_arg *args, int arg_count,
                                       const nereid_options *options, nereid_error **error);

/* One specialization, compiled: for launches that must cost nothing but the call. `options` holds for all its runs. The
 * values of pointers, and of numbers that are not constexpr, may differ from launch to launch as long as they
 * specialise alike (divisibility by 16, equality to 1, int32 or int64); if they do not, nereid_run fails with
 * NEREID_BAD_ARGUMENT. On a GPU nereid_run is one call of the driver: nothing is allocated, loaded or waited for, so
 * that a stream may be captured meanwhile. (Kernels that print or assert excepted under capture: their reports need a
 * synchronize.) */
typedef struct nereid_function nereid_function;
NEREID_API nereid_status nereid_compile(nereid_device *d, nereid_module *m, const char *kernel, const nereid_arg *args,
                                        int arg_count, const nereid_options *options, nereid_function **out,
                                        nereid_error **error);
/* nereid_compile takes the configuration that tuning found. Where there is none yet and options.grid is given, it
 * measures: then args must be those of a launch, whose arrays are there. Without options.grid it takes the first that
 * fits. What was taken, "BLOCK=1024\nnum_warps=8\nnum_stages=3\nnum_ctas=1\n": */
NEREID_API const char *nereid_function_config(const nereid_function *f); /* lives as long as the module */
/* Whether a launch may write memory through the array of that parameter; true where that is not known, as of CUDA C. */
NEREID_API bool nereid_function_writes(const nereid_function *f, const char *parameter);
/* The grid of a launch by the options.grid that the function was compiled with. */
NEREID_API nereid_status nereid_function_grid(const nereid_function *f, const nereid_arg *args, int arg_count,
                                              int64_t grid[3], nereid_error **error);
/* grid may be NULL with options.grid. */
NEREID_API nereid_status nereid_run(nereid_function *f, nereid_stream *s, const int64_t grid[3], const nereid_arg *args,
                                    int arg_count, nereid_error **error);
NEREID_API void nereid_function_free(nereid_function *f);
NEREID_API const char *nereid_function_name(const nereid_function *f); /* the kernel's; lives as long as its module */
/* 32 hexadecimal digits: those of two functions are equal when source, kernel, kind of device, specialization and
 * options are. */
NEREID_API void nereid_function_key(const nereid_function *f, char key[33]);
/* The key of the function that nereid_compile would give for these arguments; nothing is compiled. */
NEREID_API nereid_status nereid_key(nereid_device *d, nereid_module *m, const char *kernel, const nereid_arg *args,
                                    int arg_count, const nereid_options *options, char key[33], nereid_error **error);

/* What a function's code reads of a launch: 8 bytes a slot, in this order. Constants, and numbers that it was
 * specialized for, have none. */
typedef enum {
  NEREID_SLOT_VALUE,  /* a pointer or number */
  NEREID_SLOT_BASE,   /* of a tensor descriptor: its base, */
  NEREID_SLOT_SHAPE,  /* a dimension, */
  NEREID_SLOT_STRIDE, /* a stride */
} nereid_slot_kind;
typedef struct nereid_slot {
  size_t size; /* sizeof(nereid_slot), set by the caller */
  nereid_slot_kind kind;
  int param;          /* of the kernel, counted from 0 */
  int path[4], depth; /* into nested tuples: the item of each level */
  int dim;            /* SHAPE, STRIDE */
  bool is_pointer;
  nereid_dtype dtype; /* of the number, or of what the pointer points to */
} nereid_slot;
NEREID_API int nereid_function_slot_count(const nereid_function *f);
/* False: there is no slot i, or out->size is not set. */
NEREID_API bool nereid_function_slot(const nereid_function *f, int i, nereid_slot *out);
/* nereid_run by slots, at the price of the driver's call and little more: integers extended to 64 bits by their sign,
 * floats as the bits of their type in the low bytes, pointers as they are. Whether they specialise as the function does
 * is the caller's to know. stream: the native one (a CUstream), not checked; NULL: the default stream. */
NEREID_API nereid_status nereid_run_values(nereid_function *f, void *stream, const int64_t grid[3],
                                           const uint64_t *values, nereid_error **error);
/* An argument of a type that a signature names, for compiling before there are any: "*fp32", "i32", "fp16", "i1",
 * "none", after it ":16" (divisible by 16, aligned to 16 bytes) or ":1" (equal to 1). False: there is no such type. */
NEREID_API bool nereid_arg_of_type(const char *type, nereid_arg *out);
typedef struct nereid_function_info {
  double front_ms, backend_ms, compiler_ms; /* source -> tile IR; tile IR -> text; cc or ptxas (0 from a cache) */
  bool from_cache;
  int64_t peak_bytes; /* memory that compiling took */
  int num_warps, num_stages;
  /* GPU: registers of a thread, bytes of them that ptxas spills (0 without ptxas); shared memory of a block */
  int registers, spill_bytes, shared_bytes;
  /* whether programs may wait for each other (locks, grid barriers, look-back): a part of the grid alone may never end
   */
  bool programs_wait;
  /* GPU: products of f32 that were asked for as tf32 (Triton's default) run on tensor cores, which take 10 bits of each
   * operand's fraction: a result is off by about 2^-10 of the largest, from that of interp and cpu, which take all. How
   * many such products, each with the one before among its operands, a result may go through; 0: there are none */
  int tf32_chain;
  uint64_t reserved[8];
} nereid_function_info;
NEREID_API void nereid_function_get_info(const nereid_function *f, nereid_function_info *out);

/* ---- kernels that were built ahead of time -----------------------------------------------------------------------
 *
 * A bundle holds machine code of kernels, for several targets, and what a launch needs beside it: `nereid build` and
 * nereid_build make it (docs/guide/ahead-of-time.md). libnereid-rt, which has no compiler, runs bundles as libnereid
 * does. Of this interface it has: errors, element types, devices and memory (cpu and cuda), streams, events, copies,
 * graphs, and this section down to nereid_build. */
typedef struct nereid_bundle nereid_bundle;
/* For launches on d, which must outlive it. NEREID_BAD_FILE: no bundle, one of another format, cut off or damaged. Code
 * is loaded by the first launch that needs it. */
NEREID_API nereid_status nereid_bundle_open(nereid_device *d, const char *path, nereid_bundle **out,
                                            nereid_error **error);
/* The same of memory, which must stay as it is; aligned to 64 bytes. */
NEREID_API nereid_status nereid_bundle_open_memory(nereid_device *d, const void *bytes, size_t size,
                                                   nereid_bundle **out, nereid_error **error);
/* Waits for launches of its kernels that are still running on a GPU. */
NEREID_API void nereid_bundle_close(nereid_bundle *b);
/* A kernel counts once for each set of types and constants that it was built for; a constant stands as default_text. */
NEREID_API int nereid_bundle_kernel_count(const nereid_bundle *b);
NEREID_API const nereid_kernel_info *nereid_bundle_kernel_at(const nereid_bundle *b, int i); /* lives as long as b */
/* As nereid_launch does, of what the bundle has: the code that was built for arguments of these types and constants, by
 * the best of its specializations. Constexprs may be left out. grid NULL: what --grid said when it was built.
 * NEREID_UNSUPPORTED: there is no code for this device; the message names what there is. */
NEREID_API nereid_status nereid_bundle_launch(nereid_bundle *b, nereid_stream *s, const char *kernel,
                                              const int64_t grid[3], const nereid_arg *args, int arg_count,
                                              nereid_error **error);
/* The same. Of the options (NULL: none) it takes print, print_arg, blocking, and on cpu programs; the others say how a
 * kernel is compiled, which it is: one of them that is set is NEREID_UNSUPPORTED. */
NEREID_API nereid_status nereid_bundle_launch_with(nereid_bundle *b, nereid_stream *s, const char *kernel,
                                                   const int64_t grid[3], const nereid_arg *args, int arg_count,
                                                   const nereid_options *options, nereid_error **error);

/* What the files that `nereid build -o NAME` writes are made of: the bundle inside a program, and what its launchers
 * call. values: of each parameter a pointer, an integer, the bits of a double, or 0 for a constexpr. */
typedef struct nereid_builtin {
  const char *name;
  const void *bytes; /* aligned to 64 */
  size_t size;
} nereid_builtin;
NEREID_API nereid_status nereid_builtin_launch(const nereid_builtin *b, nereid_device *d, nereid_stream *s, int kernel,
                                               const uint64_t *values, nereid_error **error);
NEREID_API nereid_status nereid_builtin_launch_grid(const nereid_builtin *b, nereid_device *d, nereid_stream *s,
                                                    int kernel, const int64_t grid[3], const uint64_t *values,
                                                    nereid_error **error);

/* Building them. A build gathers kernels, each compiled for all targets when it is added; the targets need not be here.
 */
typedef struct nereid_build nereid_build;
typedef struct nereid_build_options {
  /* with commas between: "sm_80", "sm_90a", ... (their PTX stands in for later GPUs); "cpu:PROCESSOR", which is what
   * -march takes, "cpu:native", or "cpu": x86-64-v3, and on other machines what their compiler does by itself */
  const char *targets;
  const char *cc; /* of cpu targets, as NEREID_CC: "aarch64-linux-gnu-gcc"; NULL: what that says */
} nereid_build_options;
NEREID_API nereid_status nereid_build_create(const nereid_build_options *o, nereid_build **out, nereid_error **error);
NEREID_API void nereid_build_free(nereid_build *b);
/* type: "f32*", "f32[M,N]" (the shape is for people), "i32", "none", "tensordesc<f16[128,64]>", "(f32*, n=i32)", or a
 * constant. After a pointer's, integer's or descriptor's type ":16|1|any" names the cases to build for: divisible by
 * 16 (a pointer: aligned), equal to one, any. Without: for all divisible, pointers alone, and none. */
typedef struct nereid_build_arg {
  const char *name, *type;
} nereid_build_arg;
typedef struct nereid_build_how {
  const char *grid; /* of a launch: "cdiv(n, BLOCK), heads" over its integers and constants; + - * // %, cdiv,
                       next_power_of_2, min, max. NULL: each launch says it */
  /* "n=4096,m=8": compiled for these values, in the configuration that tuning found on tuned_on, or that stands after
   * a colon: "n=4096:BLOCK=256,num_warps=8" */
  const char *const *cases;
  int case_count;
  bool only_cases;         /* and for no others */
  nereid_device *tuned_on; /* may be NULL */
} nereid_build_how;
NEREID_API nereid_status nereid_build_add(nereid_build *b, nereid_module *m, const char *kernel,
                                          const nereid_build_arg *args, int arg_count, const nereid_build_how *how,
                                          const nereid_options *options, nereid_error **error);
/* What a launch with these arguments takes: their types, alignment and values as they specialize. Kernels of one name,
 * types and constants with other free names (nereid_host) are called k, k.2, k.3 in the bundle, in this order. */
NEREID_API nereid_status nereid_build_add_launch(nereid_build *b, nereid_module *m, const char *kernel,
                                                 const nereid_arg *args, int arg_count, const nereid_options *options,
                                                 nereid_error **error);
/* A bundle. Files are written whole or not at all. */
NEREID_API nereid_status nereid_build_write(nereid_build *b, const char *path, nereid_error **error);
/* base.h, with a launcher for each kernel that nereid_build_add added, and base.c, which has them and the bundle. */
NEREID_API nereid_status nereid_build_write_c(nereid_build *b, const char *base, nereid_error **error);

/* ---- tensor programs ---------------------------------------------------------------------------------------------
 *
 * A Python function over tensors, an ATen graph as torch.fx prints it or PyTorch as people write it, becomes Triton
 * kernels and a plan that launches them (docs/guide/fuse.md). */
typedef struct nereid_fusion nereid_fusion;
enum { NEREID_MAX_DIMS = 16 };
typedef struct nereid_tensor_info {
  const char *name;
  nereid_dtype dtype;
  int rank; /* -1: no tensor; an output that is None */
  int64_t shape[NEREID_MAX_DIMS];
  bool is_written;        /* an input that a run gives another value */
  bool is_state;          /* an input that an optimizer keeps: zeros before the first step */
  bool is_complex;        /* complex numbers: its last dim, of 2, has the real and the imaginary part */
  nereid_dtype narrowest; /* of the floats on the way to it: what its accuracy depends on */
  uint64_t reserved[4];
} nereid_tensor_info;
/* What is said of one parameter, by its name: a tensor's type and shape, or a number, tuple, ... as Python text. The
 * value of a symbolic size is said by the size's name. */
typedef struct nereid_fuse_input {
  const char *name;
  const char *text; /* NULL: a tensor */
  nereid_dtype dtype;
  int rank;
  int64_t shape[NEREID_MAX_DIMS];
} nereid_fuse_input;
/* Who computes a product of matrices, or a convolution (docs/guide/fuse.md): whoever is known to be faster, which takes
 * a second for each the first time; a kernel; a library, where it can; whoever was faster, where that has been
 * measured, else a kernel. */
typedef enum {
  NEREID_PRODUCTS_AUTO = 0,
  NEREID_PRODUCTS_OWN = 1,
  NEREID_PRODUCTS_LIBRARY = 2,
  NEREID_PRODUCTS_KEPT = 3
} nereid_fuse_products;
/* How a library's convolutions have their images: AUTO as it is measured, else as a tensor of PyTorch's that is
 * contiguous, or with the channels of a pixel side by side. Inputs and outputs of the program are row-major always. */
typedef enum nereid_fuse_layouts {
  NEREID_LAYOUTS_AUTO = 0,
  NEREID_LAYOUTS_CONTIGUOUS = 1,
  NEREID_LAYOUTS_CHANNELS_LAST = 2
} nereid_fuse_layouts;
typedef struct nereid_fuse_options {
  bool eager;     /* a kernel for each operation */
  bool no_online; /* a reduction that depends on another one has a loop of its own (docs/guide/fuse.md) */
  uint64_t seed;  /* of the program's random numbers */
  /* Gradients of the sum of all outputs by inputs, as outputs after the others, called grad_NAME: "x,w", or "all" of
   * floats. An output is weighted with the input grad_output (the first), grad_output_1, ... where `inputs` says its
   * type. NULL: none. */
  const char *grad;
  nereid_limits limits;
  /* For which tiles are chosen, and on which products and convolutions are measured; NULL: none in particular. Kernels
   * run on every device. */
  const nereid_device *device;
  nereid_fuse_products products;
  nereid_fuse_layouts layouts;
  /* "x,w": tensors of `inputs` that are complex numbers; their last dim, of 2, has the parts. NULL: none. */
  const char *complex_inputs;
  uint64_t reserved[6];
} nereid_fuse_options;
/* Reads FUNCTION (NULL: the only one, or `forward`) of a file and plans its kernels. Parameters whose annotation says
 * "f32[64, 1000]" need no input. options may be NULL. */
NEREID_API nereid_status nereid_fuse(const char *path, const char *function, const nereid_fuse_input *inputs, int n,
                                     const nereid_fuse_options *options, nereid_fusion **out, nereid_error **error);
NEREID_API void nereid_fusion_free(nereid_fusion *f);
/* The tensors that a run takes and gives, in order; names live as long as f. */
NEREID_API int nereid_fusion_input_count(const nereid_fusion *f);
NEREID_API nereid_tensor_info nereid_fusion_input(const nereid_fusion *f, int i);
NEREID_API int nereid_fusion_output_count(const nereid_fusion *f);
NEREID_API nereid_tensor_info nereid_fusion_output(const nereid_fusion *f, int i);
NEREID_API int nereid_fusion_kernel_count(const nereid_fusion *f);
/* "graph": the tensor graph; "code": the kernels, a file that Triton takes; "explain": what each kernel computes;
 * "plot": a picture of the kernels and the arrays between them, SVG. Lives
 * as long as f; NULL: there is no such text. "launches": a line of JSON for each launch of a kernel of that code with
 * the sizes that are set, as `nereid replay` reads it; lives until it is asked for again. */
NEREID_API const char *nereid_fusion_text(const nereid_fusion *f, const char *what);
/* Launches all kernels on row-major arrays of the device: one for each input, and one for each output that is a tensor
 * (another's entry is not looked at). No output may overlap another array. Inputs that are written are written in
 * place. The memory between is f's own, for one device at a time: one run at a time. */
NEREID_API nereid_status nereid_fusion_run(nereid_fusion *f, nereid_device *d, nereid_stream *s, void *const *inputs,
                                           void *const *outputs, nereid_error **error);
/* Compiles what the first run on this device needs, for arrays that lie at multiples of 16 bytes. */
NEREID_API nereid_status nereid_fusion_compile(nereid_fusion *f, nereid_device *d, nereid_error **error);
/* Another value of a symbolic size, for the runs that follow; nothing is planned anew. */
NEREID_API nereid_status nereid_fusion_set_size(nereid_fusion *f, const char *name, int64_t value,
                                                nereid_error **error);
/* The same in double precision on arrays of the host, operation by operation: what is right. outputs: an array of the
 * size of each output in doubles, or NULL; written: likewise for each input that is written. */
NEREID_API nereid_status nereid_fusion_reference(nereid_fusion *f, const void *const *inputs, double *const *outputs,
                                                 double *const *written, nereid_error **error);

/* ---- tensor graphs, built in C -----------------------------------------------------------------------------------
 *
 * For engines without Python: inputs, operations on them, their gradients, and kernels of it all.
 *
 *     nereid_builder_input(g, "x", NEREID_F32, 2, (int64_t[]){64, 512}, &x, &error);
 *     nereid_builder_op(g, "F.gelu(a @ b)", (nereid_tensor[]){x, w}, 2, &y, 1, &error);
 *     nereid_builder_compile(g, &y, 1, NULL, &fusion, &error);
 *
 * A call that fails leaves the graph as it was. Threads may build different graphs at the same time, and one graph one
 * thread at a time. examples/transformer_block.c does a transformer's block and its gradients. */
typedef struct nereid_builder nereid_builder;
typedef int32_t nereid_tensor; /* a value of its graph, by number; -1: none */
/* limits may be NULL. The caller frees the graph. */
NEREID_API nereid_status nereid_builder_create(const nereid_limits *limits, nereid_builder **out, nereid_error **error);
NEREID_API void nereid_builder_free(nereid_builder *g); /* NULL: nothing */
/* An array that each run takes, row-major, in the order in which they are declared. name is copied; rank is 0 (a
 * scalar) to NEREID_MAX_DIMS. */
NEREID_API nereid_status nereid_builder_input(nereid_builder *g, const char *name, nereid_dtype dtype, int rank,
                                              const int64_t *shape, nereid_tensor *out, nereid_error **error);
/* What an expression in PyTorch's syntax says of tensors a, b, c, ..., which are in[0], in[1], ... (at most 26):
 * "a @ b.T + c", "F.layer_norm(a, (512,), b, c)", "a.chunk(3, -1)", "torch.where(a > 0, a, 0)". Shapes broadcast and
 * types promote as PyTorch's do. It gives out_count tensors, exactly. NEREID_BAD_SOURCE: it is no expression, a name is
 * not known, shapes do not fit; the message says where in the text. */
NEREID_API nereid_status nereid_builder_op(nereid_builder *g, const char *expression, const nereid_tensor *in, int n,
                                           nereid_tensor *out, int out_count, nereid_error **error);
/* Gradients of the sum of all elements of outputs[i] * seeds[i] (n of them; seeds NULL, or -1 in it: ones) by each
 * tensor of `by`, inputs or others: gradients[i] has the shape and type of by[i], or is -1 where no output depends on
 * it. They are tensors like others: operations may follow, and gradients of them. */
NEREID_API nereid_status nereid_builder_gradients(nereid_builder *g, const nereid_tensor *outputs,
                                                  const nereid_tensor *seeds, int n, const nereid_tensor *by, int count,
                                                  nereid_tensor *gradients, nereid_error **error);
/* When a run ends, an input's array gets `value`, which has its type and shape: a parameter's update. */
NEREID_API nereid_status nereid_builder_write(nereid_builder *g, nereid_tensor input, nereid_tensor value,
                                              nereid_error **error);
/* Type and shape (name and shape; is_written and narrowest are not set). It lives as long as g. */
NEREID_API nereid_status nereid_builder_get_info(nereid_builder *g, nereid_tensor t, nereid_tensor_info *out,
                                                 nereid_error **error);
/* Kernels that compute `outputs` and the writes. The fusion is the caller's, and needs g no longer; its inputs are all
 * of g's, in order. g may go on and be compiled again. options may be NULL. */
NEREID_API nereid_status nereid_builder_compile(nereid_builder *g, const nereid_tensor *outputs, int n,
                                                const nereid_fuse_options *options, nereid_fusion **out,
                                                nereid_error **error);

/* ---- looking inside ---------------------------------------------------------------------------------------------- */

/* The text of a stage. Of the whole file (args may be NULL): "ast". Of the kernel: "tile-raw" (as the front end made
 * it), "tile" (optimised); for this machine "c"; for a GPU, which need not be there, "layout" (which thread holds which
 * element), "lane" (what one thread does), "ptx", "sass" (needs ptxas and a disassembler of CUDA), "summary"
 * (registers, spills, shared memory, barriers, the width of each load and store). After ptx and sass stands the
 * summary, as comments. `target`: "host" or NULL, a device's name, or a GPU's: "sm_80", "sm_90a", "sm_100a", "sm_120a",
 * ...; a GPU's stages take "host" for "sm_90a". *text is malloc'ed; free it with free(). */
NEREID_API nereid_status nereid_inspect(nereid_module *m, const char *kernel, const nereid_arg *args, int arg_count,
                                        const nereid_options *options, const char *stage, const char *target,
                                        char **text, nereid_error **error);

/* The same, and "cubin", which is no text: a GPU's machine code (needs ptxas). *data is malloc'ed; after it stands a
 * zero. */
NEREID_API nereid_status nereid_inspect_bytes(nereid_module *m, const char *kernel, const nereid_arg *args,
                                              int arg_count, const nereid_options *options, const char *stage,
                                              const char *target, void **data, size_t *bytes, nereid_error **error);

/* What is supported: every name of the language, and whether each device has it. docs/reference/language.md is made
 * from this. */
typedef struct nereid_language_name {
  const char *group, *name;
  bool interp, cpu, sim, cuda; /* sim and cuda: what a GPU's compiler has, and what the simulated GPU runs of it */
  const char *remark;          /* or NULL */
  const char *arguments;       /* "x, y, ieee_rounding=False"; NULL: not called */
  bool is_method;              /* of tensors too: x.sum() */
  uint64_t reserved[2];
} nereid_language_name;
NEREID_API int nereid_language_count(void);
NEREID_API nereid_language_name nereid_language_at(int i);

/* ---- measuring ---------------------------------------------------------------------------------------------------------------
 *
 * What a launch asks of the machine, counted by the compiler from the kernel: nobody types operations or bytes. Loops
 * and masks that the arguments decide are counted exactly: of a BLOCK of 1024 with n = 1000, 1000 elements. So are
 * those that integer arrays decide whose `values` are given. `at_least`:
 * data decides on a branch or a loop, and only what is certain is counted. `remarks` names what was not exact and
 * where, one line each; "" when all is. */
typedef struct nereid_typed_cost {
  int64_t add, mul, fma;
} nereid_typed_cost;
typedef struct nereid_cost {
  /* of the grid; those that were counted one by one: the others count as those around them */
  int64_t programs, programs_walked;
  double flops;                    /* floating-point operations: the next six, of which fma and dot count twice */
  int64_t add, mul, fma, div;      /* additions and subtractions; products; fused multiply-adds; quotients */
  int64_t transcendental;          /* exp, log, sqrt, sin, ... */
  int64_t dot;                     /* multiply-adds of matrix products */
  int64_t compare;                 /* min, max, comparisons of floats; not in flops */
  int64_t integer;                 /* operations on integers and addresses; not in flops */
  int64_t atomic;                  /* atomic operations, by element */
  int64_t load_bytes, store_bytes; /* that the programs ask for */
  int64_t load_distinct,
      store_distinct; /* each byte of an argument once: what must come from and go to memory at least, if nothing of it
                         is in a cache. At most the span from an argument's first to its last byte touched, and no more
                         than what is asked for; atomics load and store */
  nereid_typed_cost typed[4]; /* of add, mul and fma: those in f64, f32, f16, bf16 */
  /* of dot: by its operands, f64, f32, f32 rounded to tf32, f16, bf16, fp8, integers */
  int64_t dots[7];
  bool exact, at_least;
  char remarks[600];
  uint64_t reserved[8];
} nereid_cost;
/* Nothing is run and no memory touched; takes milliseconds, under a second for the largest grids; above 2^40 programs:
 * NEREID_UNSUPPORTED. d: whose code is meant (NULL: cpu). A kernel of CUDA C cannot be counted: NEREID_UNSUPPORTED. */
NEREID_API nereid_status nereid_launch_cost(nereid_device *d, nereid_module *m, const char *kernel,
                                            const int64_t grid[3], const nereid_arg *args, int arg_count,
                                            const nereid_options *options, nereid_cost *out, nereid_error **error);

/* Looks, without running it, for an access of a launch that is certain to lie outside of its argument's array:
 * NEREID_KERNEL_FAULT, with the kernel's line. An array begins at its pointer; its size is nereid_arg.bytes, or what
 * the device allocated. NEREID_OK: none was found. That is no proof: what data decides is looked at only where `values`
 * say what it is, and of a large grid some programs are. Fails as nereid_launch_cost does, and takes as long. */
NEREID_API nereid_status nereid_check_bounds(nereid_device *d, nereid_module *m, const char *kernel,
                                             const int64_t grid[3], const nereid_arg *args, int arg_count,
                                             const nereid_options *options, nereid_error **error);

/* Times of repeated trials, in nanoseconds. */
typedef struct nereid_times {
  int count;                                /* of trials; 0: not measured, and the rest is 0 */
  double median, mean, min, max, deviation; /* deviation: the standard deviation of a trial */
  double p10, p90;                          /* nine in ten trials took longer than p10; nine in ten less than p90 */
} nereid_times;

/* What is timed: one or more launches that follow each other. Pointed-to things must live until the call returns. */
typedef struct nereid_bench_launch {
  nereid_function *function; /* compiled for the device that measures */
  int64_t grid[3];
  const nereid_arg *args;
  int arg_count;
} nereid_bench_launch;
typedef struct nereid_bench_case {
  const nereid_bench_launch *launches;
  int launch_count;
  /* Instead of launches: something else that is timed in turn with them and measures itself, such as another process's
   * kernel, in nanoseconds
   * (*device_ns 0: it does not know). false ends the measurement with NEREID_BAD_ARGUMENT. */
  bool (*trial)(void *arg, bool cold, double *device_ns, double *wall_ns);
  void *trial_arg;
  uint64_t reserved[4];
} nereid_bench_case;

typedef struct nereid_bench_options {
  int warmup;    /* trials of each case before those that count; 0: 3 */
  int repeat;    /* trials of each case; 0: until min_ms have gone into it, at least 5 and at most 1000; a case that has
                    had them waits    for the others */
  double min_ms; /* milliseconds; 0: 200 */
  bool cold;     /* before each trial the caches are filled with other data */
  bool trials_only;   /* neither `queued` nor `graph` is measured */
  bool copy;          /* measure a copy in memory in turn with the cases: the ceiling of the machine's bandwidth */
  int64_t copy_bytes; /* of each of its two arrays; 0: nereid_bench_bytes */
  /* after each round; false ends the measurement, as if all rounds had been done; may be NULL */
  bool (*progress)(void *arg, int done, int of);
  void *progress_arg;
  uint64_t reserved[8];
} nereid_bench_options;

typedef struct nereid_bench_result {
  nereid_times device; /* by events of the device; count 0 where it has none (cpu, interp, sim) */
  nereid_times wall;   /* by the host's clock, from the first launch to the end of a synchronisation */
  nereid_times launch; /* by the host's clock, until the launches' calls returned: what a launch costs the host, on a
                          device that works meanwhile; count 0 on others */
  /* nanoseconds a trial of many launched without waiting in between, by the host's clock; 0: not measured (cold) */
  double queued;
  nereid_times
      graph; /* a trial of many replayed as a CUDA graph, by the device's events: the kernels' time alone, without
                launches; count 0: not measured (no graphs, cold, or so long that a launch does not show) */
  uint64_t reserved[8];
} nereid_bench_result;

/* Runs the cases in turn (A B A B ...), so that all meet the same machine: a GPU's clock follows its temperature.
 * results has an entry a case; `copy` (may be NULL) gets the copy's, *copy_bytes (may be NULL) the bytes that it reads
 * and writes together. The copy is not measured on interp and sim. Cold or with a copy, memory for two arrays is taken
 * while it runs. */
NEREID_API nereid_status nereid_bench_run(nereid_device *d, const nereid_bench_case *cases, int case_count,
                                          const nereid_bench_options *options, nereid_bench_result *results,
                                          nereid_bench_result *copy, int64_t *copy_bytes, nereid_error **error);
/* Bytes of an array that leaves the device's caches: 2^29 on a GPU; on a CPU what its last cache holds, between 2^26
 * and 2^29. */
NEREID_API int64_t nereid_bench_bytes(const nereid_device *d);
/* The figures of `count` numbers, which are put in order. */
NEREID_API nereid_times nereid_times_of(double *samples, int count);

/* ---- tuning ------------------------------------------------------------------------------------------------------------------
 *
 * Which configuration of a kernel is fastest for a launch, found by trying; `nereid tune` is made of this. */

typedef struct nereid_config {
  /* named: what it sets, in addition to the launch's arguments or in their stead */
  const nereid_arg *args;
  int arg_count;
  int num_warps, num_stages, num_ctas; /* 0: the launch's options */
  /* in options.grid's stead, or NULL; what has its own grid cannot be kept for launches, which have theirs */
  const char *grid;
  uint64_t reserved[4];
} nereid_config;

typedef enum {
  NEREID_TUNE_NOT_REACHED, /* time was up, or the caller ended it */
  NEREID_TUNE_MEASURED,    /* to the end */
  NEREID_TUNE_DROPPED,     /* measured until it was known to lose */
  NEREID_TUNE_SAME,        /* its code and grid are those of another, which stands for it */
  NEREID_TUNE_SKIPPED,     /* not compiled: hopeless */
  NEREID_TUNE_FAILED,      /* it does not compile, or faults */
  NEREID_TUNE_WRONG        /* what it writes differs from what the first wrote */
} nereid_tune_state;

typedef struct nereid_tune_result {
  nereid_tune_state state;
  int same_as;        /* NEREID_TUNE_SAME: of which */
  char why[240];      /* of all states but MEASURED: a line */
  nereid_times times; /* count 0: never measured. By the device's clock where it has one, else the host's */
  int64_t grid[3];
  nereid_function_info info;
  uint64_t reserved[4];
} nereid_tune_result;

typedef struct nereid_tune_progress {
  const char *phase;       /* "compiling", "checking", "measuring" */
  int done, of;            /* configurations; trials of each */
  int left;                /* configurations that may still win */
  int best;                /* -1: not known yet */
  double best_ns, seconds; /* the best's median; since the beginning */
} nereid_tune_progress;

typedef enum { NEREID_CACHES_USUAL, NEREID_CACHES_COLD, NEREID_CACHES_WARM } nereid_caches;

typedef struct nereid_tune_options {
  double budget_s; /* 0: 60. What was not measured by then has lost */
  int threads;     /* that compile; 0: one a processor */
  int repeat;      /* most trials of a configuration; 0: 100, exhaustive 30; at most 1000 */
  /* a nereid_caches: whether they are emptied before each trial. USUAL: on cuda they are, as in Triton */
  int caches;
  bool exhaustive; /* nothing is skipped or dropped */
  bool unchecked;  /* what configurations write is not compared */
  const char *const *ignore;
  int ignore_count; /* arrays that are not compared, by parameter */
  bool keep; /* nereid_tune: launches that leave the configuration open take the winner from now on, in this process and
                others. NEREID_BAD_FILE where the cache's folder cannot be written: results and *best are there all the
                same, and this process takes the winner */
  /* Between trials and compilations, by one thread at a time, which may be another than the caller's. False ends it
   * with what is known then. */
  bool (*progress)(void *arg, const nereid_tune_progress *p);
  void *progress_arg;
  /* The time of a trial, in ns, in the clock's stead: to test who uses this. The trial is run all the same. */
  double (*measure)(void *arg, int config, int trial);
  void *measure_arg;
  uint64_t reserved[8];
} nereid_tune_options;

/* Measures the configurations on the launch's own arrays; options.grid says the grid (or grid, if the same serves all).
 * results has an entry each. *best: the fastest. Fails when none could be measured: the results say why. Arrays that
 * the kernel both reads and writes are given back what they held before each run and at the end; where an array ends
 * must be known for that and for comparing (nereid_alloc, nereid_register, nereid_arg.bytes): others are left alone.
 * options may be NULL.
 *
 * What is kept serves launches of the same kernel (by the text of its file) on the same kind of device that leave open
 * what the configurations set, and that in the rest specialise alike: types, divisibility, other constexprs, other
 * options; where a parameter without default is left open, the same numbers too. When the configurations set
 * parameters, the launch needs options.grid. Launches like those that this process has made already stay with what they
 * have. */
NEREID_API nereid_status nereid_tune(nereid_device *d, nereid_module *m, const char *kernel, const int64_t grid[3],
                                     const nereid_arg *args, int arg_count, const nereid_options *options,
                                     const nereid_config *configs, int config_count, const nereid_tune_options *how,
                                     nereid_tune_result *results, int *best, nereid_error **error);

/* ---- reports ------------------------------------------------------------------------------------------------------------------
 *
 * What a launch will ask of a GPU, found without one: from the compiled kernel and the rules of the target's
 * multiprocessors. */

/* How many blocks of a kernel a multiprocessor holds at once, and what keeps it from holding more (the rules of CUDA's
 * occupancy calculator). */
typedef struct nereid_occupancy {
  int blocks;                                       /* 0: not even one fits */
  int by_registers, by_shared, by_warps, by_blocks; /* the blocks that each of these alone would allow */
  const char *limit;     /* the scarcest: "registers", "shared memory", "warps" or "blocks"; static */
  int warps, max_warps;  /* resident, and the most there can be */
  double occupancy;      /* warps / max_warps */
  int registers_granted; /* registers of a block, as they are handed out */
  int shared_granted;    /* bytes of a block, likewise: with what the driver reserves */
} nereid_occupancy;
/* Arithmetic alone: microseconds at most. target as for nereid_inspect. registers: of a thread; 0: not known, no limit.
 * shared_bytes: of a block. A launch of a kernel that does not fit (blocks 0) fails; one whose warps or registers are
 * past any block's is no error here. */
NEREID_API nereid_status nereid_occupancy_of(const char *target, int registers, int shared_bytes, int num_warps,
                                             nereid_occupancy *out, nereid_error **error);

/* Accesses of one kind on one source line. Counts are of the whole launch. */
typedef struct nereid_report_access {
  const char *file, *text; /* of the line; "" when there is none */
  int line;                /* 0: none */
  /* "load", "store", "atomic", "copy" (asynchronous; once with what it reads of global memory, once with what it writes
   * of shared memory), "wgmma" (what a warpgroup's product reads); static */
  const char *what;
  /* of shared memory: its conversions of layouts, reductions and the like; else of global memory */
  bool shared;
  const char *buffer; /* shared: what for; else "" */
  int bytes;          /* that one thread accesses at once */
  int count;          /* how often it stands in the kernel's code */
  bool masked, in_loop;
  /* false: data decides on addresses, masks or how often, and no argument's `values` say what they are; then counted as
   * if all such data were zeros */
  bool known;
  int64_t requests; /* by a warp, with one thread of it at least */
  int64_t lanes;    /* threads that took part, of all requests */
  /* global: pieces of 32 bytes that are asked for; and as many as a request's different bytes would fill */
  int64_t sectors, ideal_sectors;
  /* shared: passes over the 32 banks; and without conflicts. (wavefronts - ideal) are bank conflicts */
  int64_t wavefronts, ideal_wavefronts;
  uint64_t reserved[4];
} nereid_report_access;

/* Instructions of one class, as warps issue them. */
typedef struct nereid_report_class {
  const char *name;
  int64_t warps;
} nereid_report_class;

/* Shared memory for tiles that asynchronous copies bring while others are read. */
typedef struct nereid_report_ring {
  int slots, slot_bytes;
} nereid_report_ring;

/* The least time that the launch takes by one measure. */
typedef struct nereid_report_time {
  const char
      *bound; /* "memory", "L2", "L1 and shared memory", "fp32", "tensor", ..., "issue", "latency", "launch"; static */
  double ns;
  char why[96]; /* "201.3 MB at 4800 GB/s" */
} nereid_report_time;

typedef struct nereid_report {
  const char *kernel, *target;
  int num_warps, num_stages;
  int registers, spill_bytes, stack_bytes; /* of a thread, from ptxas; registers 0: there is no ptxas */
  int shared_bytes;                        /* of a block */
  nereid_occupancy occupancy;
  const char *machine; /* whose multiprocessors, clock and bandwidth: "H200", ... or "as given" */
  int multiprocessors;
  double clock_mhz, memory_gbs;
  int64_t grid[3], programs;
  double waves;      /* programs over what all multiprocessors hold at once */
  double tail_waste; /* the share of (waves rounded up) in which multiprocessors stand idle */
  /* What follows is not filled with occupancy_only. */
  bool counted;
  int64_t programs_walked; /* of the grid; the others count as those between which they lie */
  /* no data that is not known decides on an address, mask or loop, and no program was counted for others that may
   * differ */
  bool exact;
  int access_count, class_count, time_count;
  const nereid_report_access *accesses; /* by line; those of global memory first */
  const nereid_report_class *classes;   /* of lane IR: ptxas makes about as many instructions of it */
  int64_t warp_instructions;            /* all of them */
  int64_t divergent;                    /* branches that not all threads of a warp took alike */
  double active_lanes;                  /* of 32: the mean over all instructions */
  nereid_cost cost;
  /* that memory gives and takes at least: cost's distinct bytes, but in whole sectors */
  int64_t load_bytes, store_bytes;
  double intensity;                /* cost.flops over these bytes */
  const nereid_report_time *times; /* the longest first: what bounds it */
  const char *bound;               /* times[0].bound */
  const char
      *remarks; /* what was not exact and where, and what to do about what is bad; a line each; "" when there is none */
  int ring_count;                  /* these two without a walk, too */
  const nereid_report_ring *rings; /* of a block */
  int bytes_in_flight;             /* that a block's copies bring at once, at most */
  uint64_t reserved[8];
} nereid_report;

typedef struct nereid_report_options {
  const char *target;           /* NULL: "sm_90a"; as for nereid_inspect */
  bool occupancy_only;          /* compile, and leave out what needs the program's walk */
  int multiprocessors;          /* 0: as many as a typical machine of the target has, or the device that target names */
  double clock_mhz, memory_gbs; /* 0: likewise */
  uint64_t reserved[8];
} nereid_report_options;

/* Nothing is run and no memory touched: pointers may be stand-ins, aligned as the real ones. *out is freed with
 * nereid_report_free. A grid may be NULL with occupancy_only. A kernel of CUDA C has occupancy alone; with more asked:
 * NEREID_UNSUPPORTED. */
NEREID_API nereid_status nereid_report_launch(nereid_module *m, const char *kernel, const int64_t grid[3],
                                              const nereid_arg *args, int arg_count, const nereid_options *options,
                                              const nereid_report_options *how, nereid_report **out,
                                              nereid_error **error);
NEREID_API void nereid_report_free(nereid_report *r);
/* As `nereid inspect --report` prints it, or as one JSON object. *text is malloc'ed. */
NEREID_API nereid_status nereid_report_text(const nereid_report *r, bool json, char **text, nereid_error **error);

/* ---- ceilings -----------------------------------------------------------------------------------------------------------------
 *
 * What a machine can do at most: bandwidths by the size of what is touched, rates of arithmetic, what a launch of
 * nothing takes; measured by kernels of ours (kernels/roofline.py) and, for products of matrices, by cuBLAS or OpenBLAS
 * where one is found. And where a kernel stands under them. `nereid roofline` is made of this. Bandwidths are bytes a
 * nanosecond (GB/s), rates operations a nanosecond (GFLOP/s); 0: not measured, or the machine has none. */
typedef enum {
  NEREID_RATE_F64,
  NEREID_RATE_F32,
  NEREID_RATE_F16,
  NEREID_RATE_BF16, /* multiply-adds, two operations each */
  NEREID_RATE_I32,  /* products and sums of integers, one each */
  NEREID_RATE_EXP,
  NEREID_RATE_DIV, /* in f32 */
  NEREID_RATE_DOT_F64,
  NEREID_RATE_DOT_F32,
  NEREID_RATE_DOT_TF32,
  NEREID_RATE_DOT_F16,
  NEREID_RATE_DOT_BF16,
  NEREID_RATE_DOT_F8,
  NEREID_RATE_DOT_I8,
  NEREID_RATE_COUNT
} nereid_rate;
NEREID_API const char *nereid_rate_name(nereid_rate r); /* "f32", "exp", "dot f16" */

typedef struct nereid_bandwidth {
  char name[12];            /* of a level: "L1", "L2", "L3", "memory"; of a size: "" */
  double bytes;             /* a level: what it holds (memory: 0); a size: the working set, all arrays together */
  double read, write, copy; /* copy: bytes read and written together */
} nereid_bandwidth;
/* One array of `elements`, read once and written once, with `operations` products on each element in between: the
 * roofline's experiment. */
typedef struct nereid_roofline_point {
  nereid_dtype dtype;
  int operations;
  double elements, ns;
} nereid_roofline_point;
enum { NEREID_MAX_LEVELS = 5, NEREID_MAX_SIZES = 40, NEREID_MAX_POINTS = 40 };
typedef struct nereid_ceilings {
  char device[32], description[256]; /* of which device, as nereid_devices has it */
  char date[24];                     /* when: "2026-01-31 12:00:00" (UTC) */
  bool quick;
  int level_count, size_count; /* levels: the nearest first, memory last; sizes: ascending */
  nereid_bandwidth levels[NEREID_MAX_LEVELS], sizes[NEREID_MAX_SIZES];
  double rates[NEREID_RATE_COUNT];
  /* a kernel that does nothing: launched alone; as one of many in a graph (0: no graphs) */
  double launch_ns, replay_ns;
  char blas[160]; /* the library that the dots' rates are from; "" where none was found */
  int point_count;
  nereid_roofline_point points[NEREID_MAX_POINTS]; /* by type, operations ascending */
} nereid_ceilings;

typedef struct nereid_ceilings_options {
  bool quick; /* small arrays and short trials: seconds, and rough */
  bool no_blas;
  /* before each measurement; false ends it with NEREID_BAD_ARGUMENT; may be NULL */
  bool (*progress)(void *arg, const char *what, int done, int of);
  void *progress_arg;
  uint64_t reserved[4];
} nereid_ceilings_options;
/* Takes under a minute. On cpu and cuda alone. */
NEREID_API nereid_status nereid_ceilings_measure(nereid_device *d, const nereid_ceilings_options *options,
                                                 nereid_ceilings *out, nereid_error **error);
/* In the cache folder, by device. load: NEREID_BAD_FILE when there are none of this device (or they were written by
 * another version). */
NEREID_API nereid_status nereid_ceilings_save(const nereid_ceilings *c, nereid_error **error);
NEREID_API nereid_status nereid_ceilings_load(nereid_device *d, nereid_ceilings *out, nereid_error **error);

typedef enum {
  NEREID_BOUND_MEMORY,
  NEREID_BOUND_REQUESTS,
  NEREID_BOUND_ARITHMETIC,
  NEREID_BOUND_LAUNCH,
  NEREID_BOUND_LATENCY
} nereid_bound_kind;
typedef struct nereid_bound {
  nereid_bound_kind
      kind;      /* memory: a level of it; requests: what the programs ask the nearest cache for; arithmetic: of `name`;
                    launch: of the launch itself;      latency: none of these explains half of the time */
  char name[24]; /* "memory", "L2", "f32", "exp", "dot f16", "launch", "latency" */
  double share;  /* of the time, that the nearest ceiling explains: 1 at the ceiling */
  double least_ns;    /* what the launch would take at that ceiling */
  double working_set; /* bytes, each once */
  char level[12];     /* where a working set of that size lies */
  double bandwidth;   /* the ceiling there, for this mix of reads and writes; GB/s */
  double memory_ns, requests_ns, launch_ns, rate_ns[NEREID_RATE_COUNT]; /* the time each would take alone */
  char text[700];                                                       /* all that in a sentence or two */
} nereid_bound;
/* Under which ceiling a launch stands that took ns. cold: its data was in no cache; replayed: ns is of a graph's
 * replay. Touches no device. */
NEREID_API nereid_status nereid_bound_of(const nereid_ceilings *c, const nereid_cost *cost, double ns, bool cold,
                                         bool replayed, nereid_bound *out, nereid_error **error);

/* ---- profiles -----------------------------------------------------------------------------------------------------------------
 *
 * A session writes what happens in this process to a trace: launches, compilations, copies and waits of ours, scopes,
 * and on a GPU all that CUDA did, ours or not, with device times (through CUPTI, opened at run time). The trace is a
 * file that is written as the run goes; nereid_prof_view makes tables, trees, timelines, flame graphs and advice of it,
 * then or later, here or elsewhere. `nereid prof` is made of this.
 *
 * Scopes are of the thread that opens them and nest; a scope costs a load when no session runs. Up to eight sessions
 * run at once, each with its file; CUPTI serves one of them. In the child of a fork there are none: nereid_prof_stop
 * there frees, and no more. */
typedef struct nereid_prof nereid_prof;
typedef struct nereid_prof_options {
  bool no_cuda; /* leave CUDA alone: only calls of ours and scopes */
  /* flops and bytes of each launch of ours, counted once for each kernel, grid and arguments (see nereid_launch_cost)
   */
  bool count_work;
  int sample_hz;     /* stacks of threads that run on a CPU, so many a second; 0: none */
  bool python_names; /* nereid_prof_run: Python (3.12 or later) names its functions in stacks. Its calls become slower,
                        and recursion in it uses more of its stack */
  uint64_t reserved[8];
} nereid_prof_options;
/* path: of the trace file, which is made new. options may be NULL. NEREID_UNSUPPORTED when a CUDA device is open here
 * but CUPTI is missing or another profiler holds it (set no_cuda to go on without). */
NEREID_API nereid_status nereid_prof_start(const char *path, const nereid_prof_options *options, nereid_prof **out,
                                           nereid_error **error);
/* what happens until resume is not recorded; work is counted, so pause for a warm-up */
NEREID_API nereid_status nereid_prof_pause(nereid_prof *p, nereid_error **error);
NEREID_API nereid_status nereid_prof_resume(nereid_prof *p, nereid_error **error);
/* Ends and frees the session, also when it fails: NEREID_BAD_FILE when not all could be written (the disk is full),
 * with how much is lost; scopes still open are closed with a note in the trace. */
NEREID_API nereid_status nereid_prof_stop(nereid_prof *p, nereid_error **error);
NEREID_API void nereid_prof_enter(const char *scope);
/* scope: the name it was opened with, or NULL for the innermost. Closes those inside it that are still open (a note is
 * made of it). A scope that is not open: false, and a note. Without a session: false. */
NEREID_API bool nereid_prof_leave(const char *scope);
NEREID_API void nereid_prof_metric(
    const char *name, double value); /* added to the innermost open scope: "flops", "bytes", or any other */
/* Runs any program with the profiler in it, and waits for its end; what it prints and reads is its own affair. It and
 * what it starts leave a trace each in `folder`, which is made if it is not there, and holds no traces yet;
 * nereid_prof_view takes the folder. *exit_status is the program's, or 128 + the signal that ended it; with
 * NEREID_BAD_FILE because the program cannot be started 127 (there is none) or 126, as shells have it. */
NEREID_API nereid_status nereid_prof_run(char *const *argv, const char *folder, const nereid_prof_options *options,
                                         int *exit_status, nereid_error **error);
/* What of a trace: "table", "tree", "functions", "advice" (text, or JSON with options.json), "hatchet" (JSON that
 * Proton's viewer opens), "chrome" (for Perfetto), "html" (a page with the timeline), "folded", "flame" (SVG; CPU
 * samples), "folded-gpu", "flame-gpu" (GPU time by scope); "report" is the table, the advice, the tree where there are
 * scopes, and CPU time by function where there are samples; several texts may be asked for, as "table,advice". trace: a
 * file, or a folder with one a process. out: a path, written whole or not at all, or NULL for standard output. */
typedef struct nereid_prof_view_options {
  const char *sort, *metrics, *title;
  int rows, width;
  bool json, shapes;
  uint64_t reserved[8];
} nereid_prof_view_options;
NEREID_API nereid_status nereid_prof_view(const char *trace, const char *view, const char *out,
                                          const nereid_prof_view_options *options, nereid_error **error);

/* ---- inside a kernel -----------------------------------------------------------------------------------------------------------
 *
 * Where the time of one launch goes, warp by warp: the kernel is compiled anew with a record at the beginning and the
 * end of each of its regions, which a warp writes to memory of the device together with its clock. `nereid prof
 * --instrument` is made of this; docs/guide/instrument.md says how a source marks regions, and what a record can and
 * cannot tell.
 *
 * Works on cuda; on sim, whose clock counts the operations that a warp executes; on cpu, where a program is one warp;
 * on interp, whose clock counts operations of the tile IR. */
typedef enum {
  NEREID_INSTRUMENT_OFF,
  NEREID_INSTRUMENT_DEFAULT,   /* those that the source marks; where it marks none, automatic ones */
  NEREID_INSTRUMENT_MARKED,    /* NEREID_BAD_SOURCE where there are none */
  NEREID_INSTRUMENT_AUTOMATIC, /* loops, their iterations, products, reductions, scans, sorts, and on a GPU barriers */
  NEREID_INSTRUMENT_BOTH
} nereid_instrument_regions;

typedef struct nereid_instrument_options {
  nereid_instrument_regions regions; /* OFF counts as DEFAULT */
  /* which programs of the grid are recorded, by linear id (x fastest); NULL: program 0 */
  const int64_t *blocks;
  int64_t block_count;
  bool all_blocks;
  /* room for so many a warp, a region's beginning and end are two; 0: 16384, or what 256 MB have room for */
  int records;
  /* of the slowdown, instrumented and plain in turn; 0: enough for 100 ms; below 0: it is not measured */
  int trials;
  uint64_t reserved[8];
} nereid_instrument_options;

typedef struct nereid_instrument nereid_instrument;
typedef struct nereid_instrument_info {
  const char *kernel, *device;
  const char *unit; /* of the clock: "cycles", "ns", "operations" */
  /* 0: the clock is no time (sim, interp). A GPU's: by its timer, over the warps that were recorded */
  double ns_per_unit;
  int warps;      /* of a block */
  int64_t blocks; /* recorded */
  int64_t region_count, span_count;
  int64_t records, lost; /* kept; and those for which there was no room */
  /* beginnings whose end is not there, because records were lost or an assertion ended the program */
  int64_t cut;
  double warp_mean, warp_max;     /* of the recorded warps' times from beginning to end, in units */
  double plain_ns, instrument_ns; /* medians of a launch without and with records; 0: not measured */
  uint64_t reserved[8];
} nereid_instrument_info;
typedef struct nereid_instrument_region {
  const char *name;
  int line; /* 0: not known */
  bool automatic;
  int depth;             /* regions around it, where it was met first */
  int64_t count;         /* how often warps were in it */
  double mean, min, max; /* units */
  double share;          /* of the recorded warps' time, regions within it included */
} nereid_instrument_region;
typedef struct nereid_instrument_span {
  int region;          /* or -1: the warp's whole time */
  int64_t block;       /* linear id of the program */
  int warp, sm, depth; /* sm: the multiprocessor; on cpu the processor; else 0 */
  /* units since the first recorded warp began; on a GPU multiprocessors' clocks are brought together by its timer */
  double start, end;
} nereid_instrument_span;

/* Compiles, measures the slowdown (so that the kernel runs many times; see trials), runs the kernel once more and reads
 * what it recorded. Waits for the device. */
NEREID_API nereid_status nereid_instrument_run(nereid_device *d, nereid_module *m, const char *kernel,
                                               const int64_t grid[3], const nereid_arg *args, int arg_count,
                                               const nereid_options *options, const nereid_instrument_options *inside,
                                               nereid_instrument **out, nereid_error **error);
NEREID_API void nereid_instrument_get_info(const nereid_instrument *in, nereid_instrument_info *out);
/* in the order in which they were met */
NEREID_API const nereid_instrument_region *nereid_instrument_region_at(const nereid_instrument *in, int64_t i);
/* warp by warp, each by its start, outer ones first */
NEREID_API const nereid_instrument_span *nereid_instrument_span_at(const nereid_instrument *in, int64_t i);
/* As a trace for nereid_prof_view: each warp is a thread of its own ("block 0 warp 3, SM 17"), each region a range. */
NEREID_API nereid_status nereid_instrument_save(const nereid_instrument *in, const char *path, nereid_error **error);
NEREID_API void nereid_instrument_free(nereid_instrument *in);

/* ---- the cache on disk, and compilers ---------------------------------------------------------------------------- */

/* Compiled kernels, machine code and what tuning found are kept in $NEREID_CACHE_DIR, else $XDG_CACHE_HOME/nereid, else
 * ~/.cache/nereid. Together they stay below a limit, NEREID_CACHE_SIZE ("500M", "4G"; "0": none), else 1 GiB; what was
 * used longest ago goes. A folder that other users may write to is not used. */
typedef struct nereid_cache_info {
  char folder[4096];  /* "": none is known */
  char problem[4400]; /* why it is not used; "": it is */
  int entries;
  int64_t bytes, limit; /* limit 0: none */
} nereid_cache_info;
NEREID_API nereid_status nereid_cache_get_info(nereid_cache_info *out, nereid_error **error);
/* Removes what was used longest ago while there is more than so many bytes; 0: all but measured ceilings. */
NEREID_API nereid_status nereid_cache_trim(int64_t bytes, nereid_error **error);
/* Kills the compilers and assemblers that this process runs, with all that they started, and removes their files. Their
 * compilations fail. Safe in a signal handler, before the process ends: nothing is left then. */
NEREID_API void nereid_stop_compilers(void);

/* ---- small services ---------------------------------------------------------------------------------------------- */

/* What nereid_options.without may name: "hoist_loads, async_loads, ...". */
NEREID_API const char *nereid_without_names(void);

/* Evaluates "cdiv(n, BLOCK)" over named numbers. */
NEREID_API nereid_status nereid_eval(const char *expression, int count, const char *const *names, const double *values,
                                     int64_t *out, nereid_error **error);

/* A .npy file (NumPy format 1.0 to 3.0; C order, little-endian or one byte). */
typedef struct nereid_array {
  nereid_dtype dtype;
  int rank;
  int64_t shape[8];
  int64_t bytes;
  void *data; /* malloc'ed */
} nereid_array;
NEREID_API nereid_status nereid_npy_read(const char *path, nereid_array *out, nereid_error **error);
/* Complex numbers (c8, c16), too, as pairs of f32 or f64: *is_complex, and after its dims a has one of 2. */
NEREID_API nereid_status nereid_npy_read_pairs(const char *path, nereid_array *out, bool *is_complex,
                                               nereid_error **error);
/* Such pairs, as complex numbers. */
NEREID_API nereid_status nereid_npy_write_pairs(const char *path, const nereid_array *a, nereid_error **error);
/* Written whole or not at all. bf16 and fp8 are written as their bits (u2, u1). */
NEREID_API nereid_status nereid_npy_write(const char *path, const nereid_array *a, nereid_error **error);
/* The tensor `name` of a .safetensors file. NEREID_BAD_ARGUMENT: it has none of that name; NEREID_BAD_FILE: it is no
 * such file, or what it says of the tensor cannot be. */
NEREID_API nereid_status nereid_safetensors_read(const char *path, const char *name, nereid_array *out,
                                                 nereid_error **error);
NEREID_API void nereid_array_free(nereid_array *a);

/* Walks a kernel on the interpreter statement by statement; `nereid run --device interp --step` is made of this. The
 * callback gets the place of the next statement and may print values by name; returning false stops the launch. */
typedef struct nereid_step nereid_step;
typedef bool (*nereid_step_fn)(void *arg, nereid_step *step, const char *file, int line, const int32_t program[3]);
NEREID_API nereid_status nereid_launch_stepped(nereid_device *interp, nereid_module *m, const char *kernel,
                                               const int64_t grid[3], const nereid_arg *args, int arg_count,
                                               const nereid_options *options, nereid_step_fn fn, void *fn_arg,
                                               nereid_error **error);
/* named values known so far, newest last */
NEREID_API int nereid_step_value_count(nereid_step *s);
NEREID_API const char *nereid_step_value_name(nereid_step *s, int i);
/* The first line at or after `line` of the file that the walk is in before which it can stop; 0: there is none. */
NEREID_API int nereid_step_line(nereid_step *s, int line);
NEREID_API char *nereid_step_value_text(nereid_step *s, int i,
                                        int max_elements); /* "f32[4,8] [[0.1, ...], ...]"; free() it */
/* The same of what may stand in a kernel, over the values known so far and `count` numbers as constexprs: "x * 2",
 * "tl.sum(x)"; around it, as NumPy does, elements and slices: "x[3]", "(x - y)[0, 1:4]". Names of triton.language need
 * no prefix. Pointers are not taken. */
NEREID_API nereid_status nereid_step_eval(nereid_step *s, const char *expression, int count, const char *const *names,
                                          const double *values, int max_elements, char **text, nereid_error **error);

#ifdef __cplusplus
}
#endif
#endif
