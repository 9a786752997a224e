"""python -m nereid.record -o LOG [--contents] [--root DIR] SCRIPT ARGS... (or -m MODULE ARGS...): runs a program and
records every launch of a kernel that it makes, through Triton or through this package, for `nereid replay`.

One line a launch that differs from those before, with how often it was made: file (relative to --root, by default the
current folder), kernel, line, from which lines of the program how often, arguments (types, shapes, strides, alignment,
values), options, grid, the values of the kernel's free names, and what small arrays of integers hold (indices, offsets,
lengths, page tables); with --contents all arrays of at most 65536 elements, those between the rows of a view included.
Nothing of the program or of Triton is changed on disk.
"""
import argparse
import atexit
import ctypes
import hashlib
import json
import math
import operator
import os
import runpy
import signal
import struct
import sys

from . import _devices, _native
from ._surroundings import Surroundings, _names_of

SMALL = 65536  # elements of an array whose contents are recorded
_OPTIONS = ("num_warps", "num_stages", "num_ctas", "maxnreg")


def _is_integer(dtype):
    name = str(dtype).rsplit(".", 1)[-1]
    return name.startswith(("int", "uint", "i", "u")) or name == "bool"


def _layout(v):
    """Shape and strides, in elements, of an array that is no tensor."""
    about = getattr(v, "__cuda_array_interface__", None)
    try:
        if about is not None:
            shape, steps, item = about["shape"], about.get("strides"), int(about["typestr"][2:])
        else:
            view = memoryview(v)
            shape, steps, item = view.shape, view.strides, view.itemsize
    except (TypeError, ValueError, BufferError):  # by DLPack alone
        shape, steps, item = getattr(v, "shape", ()), None, 1
    if steps is None:
        steps = [item * math.prod(shape[i + 1:]) for i in range(len(shape))]
    return shape, [n // item for n in steps]


_CODES = {"i1": "?", "i8": "b", "u8": "B", "i16": "h", "u16": "H", "i32": "i", "u32": "I", "i64": "q", "u64": "Q",
          "f16": "e", "f32": "f", "f64": "d"}  # struct's


def _values(v, name, address, room):
    """What lies between an array's first and its last element, side by side; None: that is not known."""
    if hasattr(v, "as_strided"):
        return v.detach().as_strided((room,), (1,)).cpu().tolist()
    if hasattr(v, "data_ptr"):
        return v.detach().cpu().reshape(-1).tolist() if hasattr(v, "tolist") else None
    code, extent = _CODES.get(name), _native.array_extent(v)
    if code is None or extent is None or extent[0] != address or not _is_here(v):
        return None
    return list(struct.unpack(f"={room}{code}", ctypes.string_at(address, room * struct.calcsize("=" + code))))


def _is_here(v):
    """Whether this process can read the array's memory: it is a buffer, or lies on DLPack's device 1, a CPU."""
    return not hasattr(v, "__cuda_array_interface__") and (
        not hasattr(v, "__dlpack_device__") or int(v.__dlpack_device__()[0]) == 1)


class Recorder:
    def __init__(self, path, root=None, contents=False):
        self.path, self.root, self.contents = path, os.path.abspath(root or os.getcwd()), contents
        self.rows = {}  # text of a launch -> {place: how often}
        self.sources = {}  # of fused kernels: text -> file
        self.lost = set()  # kernels of which a launch could not be recorded

    # ---- values ----

    def array(self, v):
        """None: it is none."""
        base = v
        while type(base).__name__ == "TensorWrapper":
            base = base.base
        if hasattr(v, "data_ptr"):
            name, address = str(getattr(v.dtype, "name", v.dtype)).rsplit(".", 1)[-1], v.data_ptr()
            shape, strides = getattr(v, "shape", ()), v.stride() if hasattr(v, "stride") else ()
        else:
            name, address = _native.array_type(v)
            if name is None:
                return None
            shape, strides = _layout(v)
        row = {"ptr": name, "aligned": address % 16 == 0, "shape": [int(n) for n in shape],
               "strides": [int(n) for n in strides]}
        room = 1 + sum((n - 1) * s for n, s in zip(row["shape"], row["strides"]))
        if all(row["shape"]) and 0 < room <= SMALL and (_is_integer(name) or self.contents and base is v):
            values = _values(base, name, address, room)
            if values is not None:
                row["values"] = values
        return row

    def argument(self, name, v, is_constexpr, around, names=()):
        row = {"name": name}
        kind = type(v).__name__
        if is_constexpr or kind == "constexpr":
            row["constexpr"] = around.value(v, names)
        elif v is None:
            row["none"] = True
        elif isinstance(v, bool):
            row["bool"] = v
        elif isinstance(v, int):
            row["int"] = v
        elif isinstance(v, float):
            row["float"] = v
        elif hasattr(v, "block_shape") and hasattr(v, "base"):
            array = self.array(v.base)
            row.update(desc=array["ptr"], shape=[int(n) for n in v.shape], strides=[int(n) for n in v.strides],
                       block=list(v.block_shape), aligned=array["aligned"])
        elif isinstance(v, tuple):
            row["tuple"] = [self.argument(f, x, False, around, names) for f, x in
                            zip(getattr(v, "_fields", [str(i) for i in range(len(v))]), v)]
        elif not isinstance(v, str) and (array := self.array(v)) is not None:
            row.update(array)
        elif hasattr(type(v), "__index__"):  # NumPy's
            row["int"] = operator.index(v)
        elif hasattr(type(v), "__float__"):
            row["float"] = float(v)
        else:
            row["constexpr"] = around.value(v, names)
        return row

    # ---- launches ----

    def relative(self, file):
        file = os.path.abspath(file)
        return os.path.relpath(file, self.root) if file.startswith(self.root + os.sep) else file

    def place(self):
        """file:line of the innermost call that is neither Triton's nor ours, and not PyTorch's if one is not."""
        frame, found = sys._getframe(1), None
        while frame is not None:
            module = str(frame.f_globals.get("__name__")).partition(".")[0]
            ours = module in ("nereid", "triton") or frame.f_code.co_filename.startswith("<nereid")
            if not ours and frame.f_globals is not globals():
                found = found or frame
                if module != "torch":
                    found = frame
                    break
            frame = frame.f_back
        return f"{self.relative(found.f_code.co_filename)}:{found.f_lineno}" if found else "?"

    def launch(self, fn, arguments, options, grid):
        """fn: the @jit function; arguments: all of them by name, in order; grid: numbers. What cannot be recorded is
        said, and never the program's affair."""
        try:
            self.record(fn, arguments, options, grid)
        except Exception as e:
            if fn.__name__ not in self.lost:
                self.lost.add(fn.__name__)
                print(f"nereid.record: a launch of {fn.__name__} is not in the log: {type(e).__name__}", file=sys.stderr)

    def record(self, fn, arguments, options, grid):
        code = fn.fn.__code__
        constexprs = {p.name for p in fn.params if p.is_constexpr}
        around, names = Surroundings(self.relative), _names_of(code)
        row = {**around.place(fn.fn, fn), "kernel": fn.__name__,
               "args": [self.argument(k, v, k in constexprs, around, names) for k, v in arguments.items()],
               "meta": {k: options[k] for k in _OPTIONS if options.get(k) is not None},
               "grid": [int(n) for n in grid], "names": around.free_names(fn.fn, names)}
        for rule in ("do_not_specialize", "do_not_specialize_on_alignment"):
            listed = [p.name for p in fn.params if getattr(p, rule, False)]
            if listed:
                row[rule] = listed
        row["functions"] = around.functions
        text = json.dumps(row, separators=(",", ":"), default=str)  # NaN and Infinity as Python writes them
        places, place = self.rows.setdefault(text, {}), self.place()
        places[place] = places.get(place, 0) + 1

    def fused(self, fusion):
        """A run of a program that torch.compile(backend="nereid") has made; its kernels' source is kept beside the log."""
        try:
            code, place = fusion.text("code"), self.place()
            if code not in self.sources:
                folder = self.path + ".kernels"
                os.makedirs(folder, exist_ok=True)
                self.sources[code] = os.path.join(folder, f"{hashlib.sha256(code.encode()).hexdigest()[:16]}.py")
                with open(self.sources[code], "w", encoding="utf-8") as f:
                    f.write(code)
            file = self.relative(self.sources[code])
            for line in fusion.text("launches").splitlines():
                places = self.rows.setdefault(json.dumps({"file": file, **json.loads(line)}, separators=(",", ":")), {})
                places[place] = places.get(place, 0) + 1
        except Exception as e:
            if None not in self.lost:
                self.lost.add(None)
                print(f"nereid.record: a compiled graph is not in the log: {type(e).__name__}: {e}", file=sys.stderr)

    def save(self):
        """Written whole or not at all."""
        temporary = f"{self.path}.{os.getpid()}"
        with open(temporary, "w", encoding="utf-8") as f:
            for text, places in self.rows.items():
                f.write(f'{text[:-1]},"count":{sum(places.values())},"from":{json.dumps(places)}}}\n')
        os.replace(temporary, self.path)
        if not self.rows:
            print(f"nereid.record: {self.path} is empty: no kernel was launched through Triton, nereid.triton or "
                  "torch.compile's backend of Nereid", file=sys.stderr)


# ---- where launches come by -----------------------------------------------------------------------------------------

def _bound(fn, args, kwargs):
    """(arguments by name in order, options)"""
    names = [p.name for p in fn.params]
    given = {**dict(zip(names, args)), **{k: v for k, v in kwargs.items() if k in names}}
    for p in fn.params:
        if p.name not in given and p.has_default:
            given[p.name] = p.default
    return {n: given[n] for n in names if n in given}, {k: v for k, v in kwargs.items() if k not in names}


def watch_triton(recorder, jit):
    """Triton's own JITFunction.run, as long as this process lives."""
    run = jit.JITFunction.run

    def recorded(self, *args, grid, warmup, **kwargs):
        if not warmup:
            arguments, options = _bound(self, args, kwargs)
            recorder.launch(self, arguments, options, grid(arguments) if callable(grid) else grid)
        return run(self, *args, grid=grid, warmup=warmup, **kwargs)

    jit.JITFunction.run = recorded


def watch_nereid(recorder):
    from .triton import knobs
    from .triton.runtime import jit
    knobs.runtime.recorder = _devices.recorder = recorder
    return jit


class _WhenImported:
    """Watches Triton as soon as the program imports it."""

    def __init__(self, recorder):
        self.recorder, self.busy = recorder, False

    def find_spec(self, name, path=None, target=None):
        if name != "triton.runtime.jit" or self.busy:
            return None
        import importlib.util
        self.busy = True
        try:
            spec = importlib.util.find_spec(name)
        finally:
            self.busy = False
        if spec is None or spec.loader is None or not hasattr(spec.loader, "exec_module"):
            return spec
        execute, recorder = spec.loader.exec_module, self.recorder

        def exec_module(module):
            execute(module)
            if not module.__name__.startswith("nereid"):
                watch_triton(recorder, module)

        spec.loader.exec_module = exec_module
        return spec


def start(path, root=None, contents=False):
    """Records from now on; the log is written when the process ends, or by save()."""
    recorder = Recorder(path, root, contents)
    loaded = sys.modules.get("triton.runtime.jit")
    if loaded is not None and not loaded.__name__.startswith("nereid"):
        watch_triton(recorder, loaded)
    else:
        sys.meta_path.insert(0, _WhenImported(recorder))
    watch_nereid(recorder)
    atexit.register(recorder.save)
    return recorder


def main():
    parser = argparse.ArgumentParser(prog="python -m nereid.record", description=__doc__.split("\n\n")[0])
    parser.add_argument("-o", metavar="LOG", required=True)
    parser.add_argument("--contents", action="store_true", help="of all arrays up to 65536 elements")
    parser.add_argument("--root", help="of the files' names in the log; the current folder")
    parser.add_argument("--nereid", action="store_true", help="`import triton` means Nereid in the program")
    parser.add_argument("-m", action="store_true", dest="module", help="SCRIPT is the name of a module")
    parser.add_argument("script")
    parser.add_argument("args", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    folder = os.path.dirname(os.path.abspath(options.o))
    if not os.access(folder, os.W_OK):  # which would be found when the program has run
        parser.error(f"there is no folder {folder} that can be written")
    if options.nereid:
        from . import use_as_triton
        use_as_triton()
    start(os.path.abspath(options.o), options.root, options.contents)
    if signal.getsignal(signal.SIGTERM) == signal.SIG_DFL:  # who is ended, by a limit of time say, writes its log
        signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    sys.argv = [options.script, *options.args]
    if options.module:
        sys.path.insert(0, os.getcwd())
        runpy.run_module(options.script, run_name="__main__", alter_sys=True)
    else:
        sys.path[0] = os.path.dirname(os.path.abspath(options.script))
        runpy.run_path(options.script, run_name="__main__")


if __name__ == "__main__":
    main()
