"""Settings, from the environment and from programs, with Triton's names. Those that say how LLVM, MLIR or AMD's
compiler work are kept and change nothing."""
import contextlib
import importlib
import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from functools import lru_cache

from .. import _native

propagate_env = True  # a value that a program sets goes into the environment, too


class Env:
    """Assigned to a knob, takes it back to what the environment says."""


env = Env()
_UNSET = object()
_usual_cache = _UNSET  # NEREID_CACHE_DIR, while cache.dir is set


def getenv(key, default=None):
    return os.environ.get(key, default)


def getenv_bool(key, default):
    text = os.environ.get(key)
    return default if text is None else text.lower() in ("1", "on", "true", "y", "yes")


def setenv(key, value):
    if not propagate_env:
        return
    if value is None:
        os.environ.pop(key, None)
    else:
        os.environ[key] = value


def toenv(value):
    """A 1-tuple of what the environment gets for a value, or None where it cannot say it."""
    if value is None:
        return (None,)
    if type(value) is bool:
        return ("1" if value else "0",)
    return (str(value),) if type(value) in (str, int) else None


class env_base:
    """A knob: an attribute of its group's objects; reading one that was not set reads the environment."""

    def __init__(self, key, default=None):
        self.key, self.default = key, default

    def __set_name__(self, owner, name):
        self.name = name

    def __get__(self, obj, owner=None):
        if obj is None:
            return self
        value = obj.__dict__.get(self.name, _UNSET)
        return self.get() if value is _UNSET else self.transform(value)

    def __set__(self, obj, value):
        if isinstance(value, Env):
            obj.__dict__.pop(self.name, None)
            return
        obj.__dict__[self.name] = value
        text = toenv(value)
        if text:
            setenv(self.key, text[0])

    def __delete__(self, obj):
        obj.__dict__.pop(self.name, None)

    def get(self):
        raise NotImplementedError

    def transform(self, value):
        return value


class env_str(env_base):
    def get(self):
        return getenv(self.key, self.default)


class env_opt_str(env_str):
    pass


class env_str_callable_default(env_base):
    def get(self):
        text = getenv(self.key)
        return self.default() if text is None else text


class env_cache_dir(env_str_callable_default):
    """Set, it moves what Nereid keeps, too."""

    def __set__(self, obj, value):
        super().__set__(obj, value)
        obj._changed()

    def __delete__(self, obj):
        super().__delete__(obj)
        obj._changed()


class env_bool(env_base):
    def __init__(self, key, default=False):
        super().__init__(key, default)

    def get(self):
        return getenv_bool(self.key, self.default)


class env_opt_bool(env_base):
    def get(self):
        return getenv_bool(self.key, None)


class env_int(env_base):
    def __init__(self, key, default=0):
        super().__init__(key, default)

    def get(self):
        text = getenv(self.key)
        if text is None:
            return self.default
        try:
            return int(text)
        except ValueError as e:
            raise RuntimeError(f"Unable to use {self.key}={text}: expected int") from e


class env_class(env_base):
    """MODULE:CLASS; the class must descend from one of this name."""

    def __init__(self, key, type):
        super().__init__(key)
        self.type = type

    def get(self):
        text = getenv(self.key)
        if text is None:
            return None
        module, colon, name = text.partition(":")
        if not colon or ":" in name:
            raise RuntimeError(f"Unable to read {self.key}: '{text}' isn't of the form MODULE:CLASS")
        cls = getattr(importlib.import_module(module), name)
        if self.type in [c.__name__ for c in cls.mro()]:
            return cls
        raise RuntimeError(f"Unable to use '{text}' from {self.key}: not of type '{self.type}'")


@dataclass
class NvidiaTool:
    """A program of CUDA's toolkit, and its release."""
    path: str
    version: str

    @staticmethod
    @lru_cache
    def from_path(path):
        try:
            said = subprocess.check_output([path, "--version"], stderr=subprocess.STDOUT)
        except (subprocess.CalledProcessError, OSError):
            return None
        found = re.search(r"release (\d+\.\d+)", said.decode("utf-8", "replace"))
        return NvidiaTool(path, found.group(1)) if found else None


class env_nvidia_tool(env_base):
    def __init__(self, binary):
        self.binary = binary
        super().__init__(f"TRITON_{binary.upper().replace('-', '_')}_PATH")

    def get(self):
        return self.transform(getenv(self.key))

    def transform(self, path):
        if isinstance(path, NvidiaTool):
            return path
        for p in (path, shutil.which(self.binary), f"/usr/local/cuda/bin/{self.binary}"):
            tool = NvidiaTool.from_path(p) if p else None
            if tool:
                return tool
        raise RuntimeError(f"Cannot find {self.binary}")


@dataclass(frozen=True)
class CompileTimes:
    """How long the parts of a compilation took, in microseconds."""
    ir_initialization: int
    lowering_stages: list  # of (name, time)
    store_results: int

    @property
    def total_lowering(self):
        return sum(t for _, t in self.lowering_stages)

    @property
    def total(self):
        return self.ir_initialization + self.total_lowering + self.store_results


class base_knobs:
    @property
    def knob_descriptors(self):
        return {k: v for k, v in type(self).__dict__.items() if isinstance(v, env_base)}

    @property
    def knobs(self):
        return {k: getattr(self, k) for k in self.knob_descriptors}

    def copy(self):
        other = type(self)()
        other.__dict__.update(self.__dict__)
        return other

    def reset(self):
        for name in self.knob_descriptors:
            delattr(self, name)
        return self

    @contextlib.contextmanager
    def scope(self):
        """What is set within is taken back at the end, in the environment, too."""
        before, environment = dict(self.__dict__), {k.key: getenv(k.key) for k in self.knob_descriptors.values()}
        try:
            yield
        finally:
            self.__dict__.clear()
            self.__dict__.update(before)
            for key, text in environment.items():
                if text is None:
                    os.environ.pop(key, None)
                else:
                    os.environ[key] = text
            self._changed()

    def _changed(self):
        pass


class build_knobs(base_knobs):
    cc = env_opt_str("CC")
    cudacrt_path = env_opt_str("TRITON_CUDACRT_PATH")
    cudart_path = env_opt_str("TRITON_CUDART_PATH")
    impl = None

    @property
    def backend_dirs(self):
        return {p for p in (self.cudacrt_path, self.cudart_path) if p is not None}


class redis_knobs(base_knobs):
    key_format = env_str("TRITON_REDIS_KEY_FORMAT", "triton:{key}:{filename}")
    host = env_str("TRITON_REDIS_HOST", "localhost")
    port = env_int("TRITON_REDIS_PORT", 6379)


class cache_knobs(base_knobs):
    home_dir = env_str("TRITON_HOME", os.path.expanduser("~/"))
    dump_dir = env_str_callable_default("TRITON_DUMP_DIR", lambda: cache.get_triton_dir("dump"))
    override_dir = env_str_callable_default("TRITON_OVERRIDE_DIR", lambda: cache.get_triton_dir("override"))
    dir = env_cache_dir("TRITON_CACHE_DIR", lambda: cache.get_triton_dir("cache"))
    manager_class = env_class("TRITON_CACHE_MANAGER", "CacheManager")
    remote_manager_class = env_class("TRITON_REMOTE_CACHE_BACKEND", "RemoteCacheBackend")

    def get_triton_dir(self, dirname):
        return os.path.join(self.home_dir, ".triton", dirname)

    def _changed(self):
        """What Nereid keeps lies in a folder of the one that a program has set, as long as it is set."""
        global _usual_cache
        chosen = self.__dict__.get("dir")
        if chosen is not None and _usual_cache is _UNSET:
            _usual_cache = getenv("NEREID_CACHE_DIR")
        if chosen is not None:
            os.environ["NEREID_CACHE_DIR"] = os.path.join(chosen, "nereid")
        elif _usual_cache is not _UNSET:
            os.environ.pop("NEREID_CACHE_DIR", None)
            if _usual_cache is not None:
                os.environ["NEREID_CACHE_DIR"] = _usual_cache
            _usual_cache = _UNSET


class compilation_knobs(base_knobs):
    override = env_bool("TRITON_KERNEL_OVERRIDE")
    dump_ir = env_bool("TRITON_KERNEL_DUMP")
    dump_ir_extract_di_local_variables = env_bool("LLVM_EXTRACT_DI_LOCAL_VARIABLES")
    store_binary_only = env_bool("TRITON_STORE_BINARY_ONLY")
    always_compile = env_bool("TRITON_ALWAYS_COMPILE")
    use_ir_loc = env_opt_str("USE_IR_LOC")
    enable_asan = env_bool("TRITON_ENABLE_ASAN")
    disable_line_info = env_bool("TRITON_DISABLE_LINE_INFO")
    front_end_debugging = env_bool("TRITON_FRONT_END_DEBUGGING")
    allow_non_constexpr_globals = env_bool("TRITON_ALLOW_NON_CONSTEXPR_GLOBALS")
    instrumentation_mode = env_str("TRITON_INSTRUMENTATION_MODE", "").get()
    listener = None


class autotuning_knobs(base_knobs):
    cache = env_bool("TRITON_CACHE_AUTOTUNING")
    print = env_bool("TRITON_PRINT_AUTOTUNING")


class HookChain:
    """Functions that are called one after the other."""

    def __init__(self, reversed=False):
        self.calls, self.reversed = [], reversed

    def add(self, func):
        if func not in self.calls:
            self.calls.append(func)
        _see_hooks()

    def remove(self, func):
        if func in self.calls:
            self.calls.remove(func)
        _see_hooks()

    def __call__(self, *args, **kwargs):
        for call in reversed(self.calls) if self.reversed else self.calls:
            call(*args, **kwargs)


class runtime_knobs(base_knobs):
    interpret = env_bool("TRITON_INTERPRET")
    debug = env_bool("TRITON_DEBUG").get()
    override_arch = env_opt_str("TRITON_OVERRIDE_ARCH")
    launch_enter_hook = HookChain()
    launch_exit_hook = HookChain(reversed=True)
    kernel_load_start_hook = HookChain()
    kernel_load_end_hook = HookChain(reversed=True)
    jit_cache_hook = None         # may say that nothing is to be compiled
    jit_post_compile_hook = None
    add_stages_inspection_hook = None
    recorder = None               # nereid.record's

    def __setattr__(self, name, value):
        super().__setattr__(name, value)
        _see_hooks()

    def _changed(self):
        _see_hooks()


class language_knobs(base_knobs):
    fp32_default = env_opt_str("TRITON_F32_DEFAULT")
    default_fp_fusion = env_bool("TRITON_DEFAULT_FP_FUSION", True)


class nvidia_knobs(base_knobs):
    cuobjdump = env_nvidia_tool("cuobjdump")
    nvdisasm = env_nvidia_tool("nvdisasm")
    ptxas = env_nvidia_tool("ptxas")
    ptxas_blackwell = env_nvidia_tool("ptxas-blackwell")
    dump_nvptx = env_bool("NVPTX_ENABLE_DUMP")
    disable_ptxas_opt = env_bool("DISABLE_PTXAS_OPT")
    ptxas_options = env_opt_str("PTXAS_OPTIONS")
    mock_ptx_version = env_opt_str("TRITON_MOCK_PTX_VERSION")
    dump_ptxas_log = env_bool("TRITON_DUMP_PTXAS_LOG")
    libdevice_path = env_opt_str("TRITON_LIBDEVICE_PATH")
    libcuda_path = env_opt_str("TRITON_LIBCUDA_PATH")


class amd_knobs(base_knobs):
    use_buffer_ops = env_bool("AMDGCN_USE_BUFFER_OPS", True)
    use_buffer_atomics = env_bool("AMDGCN_USE_BUFFER_ATOMICS", True)
    buffer_ops_analyze_small_tensor_range = env_bool("AMDGCN_ANALYZE_SMALL_TENSOR_RANGE", False)
    dump_amdgcn = env_bool("AMDGCN_ENABLE_DUMP")
    libhip_path = env_opt_str("TRITON_LIBHIP_PATH")
    use_block_pingpong = env_opt_bool("TRITON_HIP_USE_BLOCK_PINGPONG")
    use_in_thread_transpose = env_opt_bool("TRITON_HIP_USE_IN_THREAD_TRANSPOSE")
    use_async_copy = env_bool("TRITON_HIP_USE_ASYNC_COPY")
    scalarize_packed_fops = env_bool("AMDGCN_SCALARIZE_PACKED_FOPS")


class proton_knobs(base_knobs):
    disable = env_bool("TRITON_PROTON_DISABLE", False)
    cupti_lib_dir = env_str("TRITON_CUPTI_LIB_PATH", "")
    enable_nvtx = env_bool("TRITON_ENABLE_NVTX", True)


def is_set(hook):
    return hook is not None and not (isinstance(hook, HookChain) and not hook.calls)


def _see_hooks():
    """Tells the extension whether each launch has to go through Python, and what else every key depends on."""
    r = globals().get("runtime")
    if r is None:
        return

    hooked = is_set(r.launch_enter_hook) or is_set(r.launch_exit_hook) or r.recorder is not None
    _native.set_state(bool(hooked) | bool(r.debug) << 1)


build, cache, redis = build_knobs(), cache_knobs(), redis_knobs()
autotuning, compilation, language, runtime = autotuning_knobs(), compilation_knobs(), language_knobs(), runtime_knobs()
amd, nvidia, proton = amd_knobs(), nvidia_knobs(), proton_knobs()
_see_hooks()


def refresh_knobs():
    runtime.debug = env_bool("TRITON_DEBUG").get()
    compilation.instrumentation_mode = env_str("TRITON_INSTRUMENTATION_MODE", "").get()
