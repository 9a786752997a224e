/* The extension module nereid._native: what Python cannot do fast, or at all, over include/nereid.h.
 *
 * It is built for the limited API of CPython 3.10, so that one file serves every later version:
 *
 *     argument.c   a Python object as a nereid_arg, and as a part of the key of its specialization
 *     names.c      what surrounds a kernel: its free names, asked back from Python
 *     launcher.c   Launcher: kernel[grid](...) from the call to nereid_run, warm, without Python code in between
 *     launcher.h   its parts: bind.c (arguments to parameters), entries.c (specializations launched before), device.c
 *                  (where to run), compile.c
 *     function.c   Device, Module, Function: nereid.h's objects
 *     fusion.c     Fusion: tensor programs, for torch.compile
 *     prof.c       Session: profiles
 *     module.c     the module, errors, small functions
 *
 * All state is that of the one main interpreter: others are refused. Whoever touches it holds the GIL, which is given
 * back while something compiles, and while a kernel runs on a device that does not go on by itself.
 */
#ifndef NEREID_NATIVE_H
#define NEREID_NATIVE_H

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030A0000
#include <Python.h>
#include <nereid.h>

/* ---- module.c ---------------------------------------------------------------------------------------------------- */

/* Raises what `error` says, as nereid._errors makes it; frees it. Returns NULL. */
PyObject *raise_error(nereid_error *error);
/* What Python code has set by `_native.configure(name=value)`; borrowed, NULL when it is not set. */
enum Setting {
  SETTING_ERROR,         /* f(status, kind, message, text, places, resource, required, limit): what to raise */
  SETTING_DTYPE,         /* f(dtype object) -> a nereid_dtype, or raises */
  SETTING_TENSOR,        /* the type torch.Tensor, and */
  SETTING_PARAMETER,     /* torch.nn.Parameter, once torch is loaded */
  SETTING_IS_CUDA,       /* descriptors of torch.Tensor's is_cuda */
  SETTING_DTYPE_OF,      /* and dtype; */
  SETTING_DATA_PTR,      /* its method data_ptr */
  SETTING_CONSTEXPR,     /* the class of constexpr values */
  SETTING_DESCRIPTOR,    /* the class of tensor descriptors */
  SETTING_DEVICE,        /* f(kind, index) -> the Device for arrays that are there; kind 0: the host, 1: CUDA */
  SETTING_CUDA_INDEX,    /* f() -> the current CUDA device */
  SETTING_CUDA_STREAM,   /* f(index) -> the current stream of it, an integer */
  SETTING_PRINT,         /* f(line) */
  SETTING_WARN,          /* f(message, file, line) */
  SETTING_MEMORY,        /* f(arguments): [(address, bytes)] of their arrays, which do not overlap */
  SETTING_ASK,           /* f(module, what, object, name) -> the object; NotImplemented: there is none */
  SETTING_DESCRIBE,      /* f(object) -> what it is: see names.c */
  SETTING_VALUE,         /* f(kind, text, object, items): a kernel's constant as a Python object */
  SETTING_PRINT_THREADS, /* not NULL: nereid_options.print_threads */
  SETTING_COUNT
};
PyObject *setting(enum Setting s);
extern PyObject *str_data_ptr, *str_dtype, *str_is_cuda, *str_is_cpu, *str_value, *str_device, *str_type;

/* ---- function.c -------------------------------------------------------------------------------------------------- */

typedef struct Device {
  PyObject_HEAD nereid_device *device;
  bool async, registers; /* goes on by itself (cuda); must be told of arrays (interp, sim) */
  int index;             /* of cuda */
  struct WrappedStream *streams;
} Device;

typedef struct Module {
  PyObject_HEAD nereid_module *module;
  PyObject *kept; /* a dict: what the front end has addresses of */
  bool on_gpu;    /* it has kernels there, which a captured graph may launch for as long as the process lives */
} Module;

typedef struct Function {
  PyObject_HEAD nereid_function *function;
  Device *device;
  Module *module;
  int count;
  nereid_arg *args; /* as it was compiled; those that are constexpr serve each launch */
  bool *is_constexpr;
  bool *writes;   /* through the array of that parameter */
  PyObject *kept; /* what args' texts belong to */
} Function;

extern PyTypeObject *device_type, *module_type, *function_type;
bool function_types_create(PyObject *m);
/* Makes m->module of a source as names.c describes it. */
bool load_source(Module *m, PyObject *source);
/* The device's stream of this handle; NULL is the default one. Fails with an exception set. */
bool device_stream(Device *d, void *native, nereid_stream **out);

/* ---- argument.c -------------------------------------------------------------------------------------------------- */

/* What is known of one parameter, beside its arguments. */
typedef struct ParamInfo {
  PyObject *name, *fallback; /* fallback: its default or NULL */
  bool is_constexpr, no_specialize, no_align, has_dtype;
  nereid_dtype dtype;
} ParamInfo;

/* A key has up to two words an argument; tuples, options and the device take some more. */
enum { MAX_PARAMS = 512, KEY_WORDS = 2 * MAX_PARAMS + 256, KEY_OBJECTS = MAX_PARAMS };
/* One call's arguments: what nereid_run takes, and what distinguishes specializations. Objects are borrowed from the
 * caller's arguments, but for those in `owned`. */
typedef struct Call {
  int word_count, object_count, owned_count, block_count, buffer_count;
  signed char where; /* -1: no array seen yet; 0 on the host, 1 in CUDA memory */
  bool placed;       /* an array that has memory was seen */
  bool real;         /* false: nothing will run, so that arrays may be stand-ins */
  uint64_t words[KEY_WORDS];
  PyObject *objects[KEY_OBJECTS]; /* constexprs that a word cannot stand for: compared by == */
  PyObject *owned[KEY_OBJECTS];
  void *blocks[KEY_OBJECTS];           /* malloc'ed: items of tuples */
  void *buffers[KEY_OBJECTS];          /* Py_buffers that are held */
  uint64_t read_only[MAX_PARAMS / 64]; /* a bit a parameter: the array may not be written */
  uint64_t extent_begin, extent_bytes; /* of the last array that came as a buffer or by DLPack */
} Call;
void call_begin(Call *c, bool real);
void call_end(Call *c);
/* Reads one argument. False: an exception is set. */
bool call_add(Call *c, const ParamInfo *p, int index, PyObject *o, nereid_arg *out);
/* array_type(o): (element type, address); (None, 0): it is no array */
PyObject *argument_array_type(PyObject *m, PyObject *o);
/* array_extent(o): (address, bytes) of the memory between an array's elements; None: it does not say */
PyObject *argument_array_extent(PyObject *m, PyObject *o);
/* A value of the call beside its parameters: an option. */
bool call_add_value(Call *c, PyObject *o);

/* ---- launcher.c -------------------------------------------------------------------------------------------------- */

bool launcher_type_create(PyObject *m);
PyObject *launcher_set_state(PyObject *module, PyObject *number);

/* ---- device.c ---------------------------------------------------------------------------------------------------- */

/* The stream that launches go into now. False: an exception is set. */
bool current_stream(Device *d, nereid_stream **out);
PyObject *launcher_forget_devices(PyObject *module, PyObject *unused);

/* ---- fusion.c ---------------------------------------------------------------------------------------------------- */

bool fusion_type_create(PyObject *m);

/* ---- prof.c ------------------------------------------------------------------------------------------------------ */

bool prof_type_create(PyObject *m);
PyObject *prof_enter(PyObject *m, PyObject *args);
PyObject *prof_leave(PyObject *m, PyObject *args);
PyObject *prof_metric(PyObject *m, PyObject *args);
PyObject *prof_view(PyObject *m, PyObject *args);

#endif
