"""Launches: arguments, grids, defaults, options, what they return."""
import array
import collections
import contextlib
import copy
import ctypes
import functools
import gc
import linecache
import mmap
import os
import pickle
import runpy
import signal
import subprocess
import sys
import tempfile
import threading
import types
import unittest
import unittest.mock
import weakref

import nereid
import nereid.triton as triton
import nereid.triton.language as tl
from kit import add, fill, floats, zeros

SCALE = tl.constexpr(3)
CHANGING = tl.constexpr(5)


@triton.jit
def helper(x, y=2):
    return x * y


@triton.jit
def surroundings(out_ptr, KIND: tl.constexpr):
    i = tl.arange(0, 16)
    x = helper(i) + SCALE
    if KIND == "square":
        x = x * x
    tl.store(out_ptr + i, x)


@triton.jit
def strided(x_ptr, out_ptr, stride, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out_ptr + i, tl.load(x_ptr + i * stride))


@triton.jit
def either(x_ptr, y_ptr, out_ptr, n, FIRST: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out_ptr + i, tl.load((x_ptr if FIRST else y_ptr) + i, mask=i < n, other=0.0))


@triton.jit
def reads_changing(out_ptr):
    tl.store(out_ptr, CHANGING)


class Launches(unittest.TestCase):
    def test_buffers(self):
        x, y, out = floats(100), floats(100, 2), zeros(100)
        kernel = add[(triton.cdiv(100, 64),)](x, y, out, 100, BLOCK=64)
        self.assertEqual(list(out), list(array.array("f", (a + b for a, b in zip(x, y)))))
        self.assertEqual(kernel.metadata.num_warps, 4)
        self.assertIn("tile.load" if "tile.load" in kernel.asm["ttir"] else "load", kernel.asm["ttir"])
        self.assertIn("for", kernel.asm["c"])

    def test_grids(self):
        x, out = floats(200), zeros(200)
        seen = []

        def grid(meta):
            seen.append(sorted(meta))
            return (triton.cdiv(meta["n"], meta["BLOCK"]), 1)

        add[grid](x, x, out, 200, BLOCK=64)
        self.assertEqual(list(out), [2 * v for v in x])
        self.assertEqual(seen, [["BLOCK", "n", "out_ptr", "x_ptr", "y_ptr"]])
        add[[4]](x, x, out, n=200, BLOCK=64)
        with self.assertRaisesRegex(ValueError, "one to three dimensions, not 4"):
            add[(1, 1, 1, 1)](x, x, out, 200, BLOCK=64)
        with self.assertRaisesRegex(ValueError, "65535"):
            add[(1, 70000)](x, x, out, 200, BLOCK=64)
        with self.assertRaises(TypeError):
            add[("a",)](x, x, out, 200, BLOCK=64)

    def test_names_and_defaults(self):
        out = zeros(64)
        fill[(1,)](out, value=2.5)
        self.assertEqual(list(out), [2.5] * 64)
        fill[(1,)](value=1, out_ptr=out, BLOCK=32)
        self.assertEqual(list(out), [1.0] * 32 + [2.5] * 32)
        for args, kwargs, says in [((out,), {}, "missing a required argument: 'value'"),
                                   ((out, 1, 64, 5), {}, "takes 3 arguments but 4"),
                                   ((out, 1), {"value": 2}, "multiple values for argument 'value'")]:
            with self.assertRaisesRegex(TypeError, says):
                fill[(1,)](*args, **kwargs)
        with self.assertRaisesRegex(KeyError, "num_wraps"):
            fill[(1,)](out, 1, num_wraps=4)
        with self.assertRaises(AssertionError):
            fill[(1,)](out, 1, num_warps=3)

    def test_kinds_of_numbers(self):
        out = zeros(64, "q")
        for value in (0, 1, 16, 2**31, -2**63, True, 2**63 - 1):
            fill[(1,)](out, value)
            self.assertEqual(out[0], int(value))
        unsigned = zeros(64, "Q")
        fill[(1,)](unsigned, 2**64 - 1)
        self.assertEqual(unsigned[0], 2**64 - 1)
        with self.assertRaisesRegex(OverflowError, "'value'"):
            fill[(1,)](out, 2**64)
        with self.assertRaisesRegex(OverflowError, "'value'"):
            fill[(1,)](out, -2**63 - 1)

    def test_surroundings(self):
        out = zeros(16, "i")
        surroundings[(1,)](out, "plain")
        self.assertEqual(list(out), [2 * i + 3 for i in range(16)])
        surroundings[(1,)](out, KIND="square")
        self.assertEqual(list(out), [(2 * i + 3)**2 for i in range(16)])

    def test_closures(self):
        def make(scale, function):
            @triton.jit
            def kernel(out_ptr):
                tl.store(out_ptr, function(scale))
            return kernel

        @triton.jit
        def next_one(x):
            return x + 1

        out = zeros(1, "i")
        for scale, function, want in [(7, helper, 14), (9, helper, 18), (9, next_one, 10)]:
            make(tl.constexpr(scale), function)[(1,)](out)
            self.assertEqual(out[0], want)

    def test_functions_as_arguments(self):
        @triton.jit
        def apply(out_ptr, f: tl.constexpr, dtype: tl.constexpr):
            tl.store(out_ptr, tl.cast(f(4), dtype) if dtype == tl.float32 else f(5))

        out = zeros(1)
        apply[(1,)](out, helper, tl.float32)
        self.assertEqual(out[0], 8)
        apply[(1,)](out, helper, None)
        self.assertEqual(out[0], 10)

    def test_constexpr_functions(self):
        calls = []

        @triton.constexpr_function
        def folded(n, by=1):
            calls.append((n, by))
            return n * 10 + by

        @triton.jit
        def kernel(out_ptr, N: tl.constexpr):
            tl.store(out_ptr, folded(N, by=2) + triton.next_power_of_2(N))

        out = zeros(1, "i")
        kernel[(1,)](out, 5)
        self.assertEqual(out[0], 52 + 8)
        self.assertIn((5, 2), calls)
        self.assertEqual(folded(3), 31)

    def test_functions_that_a_constexpr_holds(self):
        @tl.constexpr
        def wider(dtype):
            return tl.int64 if dtype.is_int() else tl.float32

        scaled = tl.constexpr(functools.partial(lambda n, by: n * by, by=3))

        def plain(n):
            return n + 1

        @triton.jit
        def kernel(x_ptr, out_ptr, N: tl.constexpr, F: tl.constexpr):
            T: tl.constexpr = wider(x_ptr.type.element_ty)
            tl.static_assert(T == tl.int64)
            tl.store(out_ptr, tl.load(x_ptr).to(T) * scaled(N) + F(N))

        @triton.jit
        def refused(out_ptr):
            tl.store(out_ptr, plain(4))

        x, out = zeros(1, "i"), zeros(1, "q")
        x[0] = 7
        kernel[(1,)](x, out, 5, plain)
        self.assertEqual(out[0], 7 * 15 + 6)
        with self.assertRaisesRegex(RuntimeError, "Unsupported function referenced"):
            refused[(1,)](out)

    def test_tuples(self):
        Pair = collections.namedtuple("Pair", "first second")

        @triton.jit
        def kernel(out_ptr, pair, plain):
            tl.store(out_ptr, pair.first * 10 + pair.second)
            tl.store(out_ptr + 1, plain[0] + plain[1][0])

        out = zeros(2, "i")
        kernel[(1,)](out, Pair(4, 2), (3, (5,)))
        self.assertEqual(list(out), [42, 8])

    def test_a_changed_global(self):
        global CHANGING
        out = zeros(1, "i")
        reads_changing[(1,)](out)
        self.assertEqual(out[0], 5)
        CHANGING = tl.constexpr(6)
        try:
            with self.assertRaisesRegex(RuntimeError, "CHANGING has changed since we compiled"):
                reads_changing[(1,)](out)
        finally:
            CHANGING = tl.constexpr(5)
        reads_changing[(1,)](out)

    def test_specializations(self):
        seen = []

        @triton.jit(do_not_specialize=["b"])
        def kernel(out_ptr, a, b):
            tl.store(out_ptr, a + b)

        out = zeros(1, "i")
        for a, b in [(1, 1), (16, 16), (3, 3), (5, 5), (32, 7), (2**40, 1)]:
            seen.append(kernel[(1,)](out, a, b))
        self.assertIsNot(seen[0], seen[1])
        self.assertIs(seen[2], seen[3])
        self.assertIs(seen[1], seen[4])
        self.assertEqual(len(set(map(id, seen))), 4)

    def test_warmup(self):
        out = zeros(64)
        kernel = fill.warmup(out, 3.0, grid=(1,))
        self.assertEqual(out[0], 0)
        self.assertIs(fill[(1,)](out, 4.0), kernel)
        self.assertEqual(out[0], 4)

    def test_many_at_once(self):
        kernels = []
        for n in range(6):
            @triton.jit
            def kernel(out_ptr, N: tl.constexpr):
                tl.store(out_ptr + tl.arange(0, 16), tl.arange(0, 16) * N)
            kernels.append(kernel)
        out = zeros(16, "i")
        made = nereid.precompile([(k, (out,), {"N": n}) for n, k in enumerate(kernels)])
        self.assertEqual(len(made), 6)
        for n, k in enumerate(kernels):
            self.assertIs(k[(1,)](out, N=n), made[n])
            self.assertEqual(out[3], 3 * n)

    def test_threads(self):
        wrong = []

        def work(seed):
            x, out = floats(128, seed), zeros(128)
            for _ in range(50):
                add[(2,)](x, x, out, 128, BLOCK=64)
                if list(out) != [2 * v for v in x]:
                    wrong.append(seed)

        threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual(wrong, [])

    def test_hooks(self):
        seen = []

        def enter(metadata):
            seen.append(metadata.get()["name"])

        out = zeros(64)
        hooks = triton.knobs.runtime.launch_enter_hook
        hooks.add(enter)
        try:
            fill[(1,)](out, 1.0)
        finally:
            hooks.remove(enter)
        fill[(1,)](out, 2.0)
        self.assertEqual(seen, ["fill"])
        before = triton.jit(fill.fn)
        before.add_pre_run_hook(lambda *args, **kwargs: seen.append(args[1]))
        before[(1,)](out, 3.0)
        self.assertEqual(seen, ["fill", 3.0])


class Sources(unittest.TestCase):
    def test_the_first_launch_of_a_process(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "program.py")
            with open(path, "w") as f:
                f.write("import array\nimport nereid.triton as triton, nereid.triton.language as tl\n\n\n@triton.jit\n"
                        "def kernel(out_ptr, t):\n    tl.store(out_ptr, tl.sum(tl.arange(0, t[0])))\n\n\n"
                        "out = array.array('i', [0])\nkernel[(1,)](out, (tl.constexpr(32),))\nassert out[0] == 496\n")
            p = subprocess.run([sys.executable, path], capture_output=True, text=True, timeout=120)
            self.assertEqual(p.returncode, 0, p.stdout + p.stderr)

    def test_a_function_with_another_text(self):
        @triton.jit
        def inner(x):
            return x + 1

        @triton.jit
        def kernel(out_ptr, f: tl.constexpr):
            tl.store(out_ptr, f(4))

        out = zeros(1, "i")
        kernel[(1,)](out, inner)
        self.assertEqual(out[0], 5)
        inner._unsafe_update_src(inner.src.replace("+ 1", "* 3"))
        kernel[(1,)](out, inner)
        self.assertEqual(out[0], 12)

    def test_a_global_that_two_kernels_see_otherwise(self):
        global CHANGING

        @triton.jit
        def inner():
            return CHANGING

        @triton.jit
        def first(out_ptr):
            tl.store(out_ptr, CHANGING + inner())

        @triton.jit
        def second(out_ptr):
            tl.store(out_ptr, CHANGING + inner())

        out = zeros(1, "i")
        first[(1,)](out)
        self.assertEqual(out[0], 10)
        CHANGING = 6
        try:
            with self.assertRaisesRegex(RuntimeError, "Global variable CHANGING has value .* conflicting value"):
                second[(1,)](out)
        finally:
            CHANGING = tl.constexpr(5)

    def test_a_constexpr_function_that_calls_python(self):
        @triton.constexpr_function
        def folded(n):
            return os.path.getsize(__file__) + n

        @triton.jit
        def kernel(out_ptr):
            tl.store(out_ptr, folded(1))

        for what in (lambda: folded.cache_key, lambda: kernel[(1,)](zeros(1, "i"))):
            for _ in range(2):
                with self.assertRaisesRegex(RuntimeError, "Unsupported function referenced: <function getsize"):
                    what()


class BadInput(unittest.TestCase):
    def test_read_only(self):
        data = bytes(floats(64))
        out = zeros(64)
        view = memoryview(data).cast("f")
        add[(1,)](view, view, out, 64, BLOCK=64)
        for device in ("cpu", "interp", "sim"):
            nereid.set_default_device(device)
            try:
                with self.subTest(device), self.assertRaisesRegex(ValueError, "'out_ptr' is read-only, and the kernel "
                                                                              "writes it"):
                    add[(1,)](out, out, view, 64, BLOCK=64)
            finally:
                nereid.set_default_device("cpu")

    def test_many_parameters(self):
        sizes = [f"n{i}" for i in range(200)]
        text = "\n".join([
            "import nereid.triton as triton", "import nereid.triton.language as tl", "@triton.jit",
            "def many(first_ptr, " + ", ".join(f"{n}: tl.constexpr" for n in sizes) + ", out_ptr):",
            "    tl.store(out_ptr, tl.load(first_ptr) + " + " + ".join(sizes) + ")"])
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "many.py")
            with open(path, "w", encoding="utf-8") as f:
                f.write(text)
            scope = runpy.run_path(path)
            out, values = zeros(1, "i"), list(range(200))
            scope["many"][(1,)](array.array("i", [7]), *values, out)
            self.assertEqual(out[0], 7 + sum(values))
            values[199] = 0
            scope["many"][(1,)](array.array("i", [7]), *values, out)
            self.assertEqual(out[0], 7 + sum(values))
            with self.assertRaisesRegex(ValueError, "'out_ptr' is read-only, and the kernel writes it"):
                scope["many"][(1,)](array.array("i", [7]), *values, memoryview(bytes(4)).cast("i"))

    def test_empty(self):
        empty = zeros(0)
        add[(1,)](empty, empty, empty, 0, BLOCK=64)
        add[(0,)](empty, empty, empty, 0, BLOCK=64)

    def test_what_is_no_argument(self):
        out = zeros(64)
        for value in ([1, 2], {"a": 1}, 3j, object()):
            with self.assertRaises((TypeError, triton.CompilationError), msg=repr(value)):
                fill[(1,)](out, value)
        with self.assertRaisesRegex(TypeError, "elements of a type that kernels do not have"):
            fill[(1,)](memoryview(b"abcd").cast("c"), 1)

    def test_a_grid_that_is_none(self):
        out = zeros(64)
        for grid in (None, 1, lambda meta: None):
            with self.assertRaisesRegex(TypeError, "a grid is one to three integers, or a function"):
                fill[grid](out, 1.0)

    def test_options_that_are_none(self):
        out = zeros(64)
        for options, error in (({"num_warps": "4"}, TypeError), ({"num_stages": 1.5}, TypeError),
                               ({"num_warps": 2**40}, OverflowError), ({"num_ctas": 2**31}, OverflowError)):
            with self.assertRaisesRegex(error, next(iter(options))):
                fill[(1,)](out, 1.0, **options)

    def test_arrays_that_are_none(self):
        class Fake:
            dtype, shape = tl.float32, (64,)
            address = 0

            def data_ptr(self):
                return self.address

        out, fake = zeros(64), Fake()
        with self.assertRaisesRegex(ValueError, "'out_ptr' has no memory: it is fake, or its storage was freed"):
            fill[(1,)](fake, 1.0)
        fake.shape = (0, 64)
        fill[(0,)](fake, 1.0)
        for fake.address in (-1, 2**64):
            with self.assertRaises(OverflowError):
                fill[(1,)](fake, 1.0)
        fake.address = "here"
        with self.assertRaises(TypeError):
            fill[(1,)](fake, 1.0)
        closed = mmap.mmap(-1, 4096)
        closed.close()
        with self.assertRaisesRegex(ValueError, "closed"):
            fill[(1,)](closed, 1.0)
        released = memoryview(out)
        released.release()
        with self.assertRaisesRegex(ValueError, "released"):
            fill[(1,)](released, 1.0)
        for row in ({}, {"data": 1}, {"data": (16, False), "typestr": 5}, {"data": ("a", False), "typestr": "<f4"}, 5):
            array_like = type("Cuda", (), {"__cuda_array_interface__": row})()
            with self.assertRaises((TypeError, KeyError), msg=row):
                fill[(1,)](array_like, 1.0)
        nested = 1
        for _ in range(600):
            nested = nested,
        with self.assertRaisesRegex(TypeError, "too many tuples"):
            fill[(1,)](out, nested)

    def test_what_an_array_says_of_itself(self):
        class Sparse:
            dtype, shape = tl.float32, (64,)

            def data_ptr(self):
                raise RuntimeError("no storage")

        class Complex(Sparse):
            dtype = "complex64"

        class Locked:
            def __dlpack__(self):
                raise BufferError("not exported")

        class Interrupted(Sparse):
            def data_ptr(self):
                raise KeyboardInterrupt

        for what, error, text in ((Sparse(), RuntimeError, "no storage"), (Locked(), BufferError, "not exported"),
                                  (Complex(), TypeError, "kernels have no type 'complex64'")):
            with self.assertRaisesRegex(error, f"array argument 'out_ptr': {text}") as caught:
                fill[(1,)](what, 1.0)
            self.assertEqual(str(caught.exception.__cause__), text)
        with self.assertRaises(KeyboardInterrupt):
            fill[(1,)](Interrupted(), 1.0)

    def test_streams_are_a_threads_own(self):
        from nereid import _devices
        inside, seen, done = threading.Event(), [], threading.Event()

        def work():
            with nereid.stream(7):
                inside.set()
                done.wait()
                seen.append(_devices._current_stream(0))

        thread = threading.Thread(target=work)
        thread.start()
        inside.wait()
        self.assertEqual(_devices._current_stream(0), 0)
        with nereid.stream(5):
            done.set()
            thread.join()
            self.assertEqual((_devices._current_stream(0), seen), (5, [7]))
        self.assertEqual(_devices._current_stream(0), 0)
        for handle, error in (("x", TypeError), (None, TypeError), (1.5, TypeError), (-1, ValueError), (2**64, ValueError)):
            with self.assertRaises(error), nereid.stream(handle):
                pass

    def test_streams_of_pytorch(self):
        """A stream that is given is PyTorch's meanwhile, and one that a compiled kernel is given is taken."""
        entered = []

        @contextlib.contextmanager
        def torch_stream(s):
            entered.append(s)
            yield
            entered.append("left")

        cuda = types.SimpleNamespace(is_available=lambda: True, stream=torch_stream, current_device=lambda: 0,
                                     ExternalStream=lambda number: number, default_stream=lambda: "default")
        with unittest.mock.patch.dict(sys.modules, {"torch": types.SimpleNamespace(cuda=cuda)}):
            for handle in 0, 9, types.SimpleNamespace(cuda_stream=8):
                with nereid.stream(handle):
                    pass
        self.assertEqual(entered, ["default", "left", 9, "left", 8, "left"])
        out, taken = zeros(64), []
        nereid.set_default_device("sim")  # whose target is a GPU
        try:
            kernel = fill[(1,)](out, 1.0)
            with unittest.mock.patch("nereid._devices.stream", lambda s: taken.append(s) or contextlib.nullcontext()):
                for given in 5, 0, None:
                    kernel[(1, 1, 1)](out, 2.0, 64, stream=given)
                    kernel.run(1, 1, 1, given, kernel.function, None, None, None, None, out, 3.0, 64)
        finally:
            nereid.set_default_device("cpu")
        self.assertEqual((taken, out[63]), ([5, 5], 3))

    def test_no_source(self):
        names = {"tl": tl, "triton": triton}
        with self.assertRaisesRegex(ValueError, "should be defined in a Python file"):
            exec("@triton.jit\ndef kernel(out_ptr):\n    tl.store(out_ptr, 1)\n", names)

    def test_cells(self):
        out = zeros(1, "i")
        for n in (1, 2):  # as notebooks run them, the second time with another text
            text = f"@triton.jit\ndef kernel(out_ptr):\n    tl.store(out_ptr, {n})\n    tl.static_assert({n} < 2)\n"
            name = f"<cell {n}>"
            linecache.cache[name] = len(text), None, text.splitlines(keepends=True), name
            names = {"tl": tl, "triton": triton, "__name__": "__main__"}
            exec(compile(text, name, "exec"), names)
            if n == 1:
                names["kernel"][(1,)](out)
                self.assertEqual(out[0], 1)
            else:
                with self.assertRaisesRegex(triton.compiler.CompileTimeAssertionFailure, "<cell 2>:4"):
                    names["kernel"][(1,)](out)
            del linecache.cache[name]

    def test_pickle(self):
        out = zeros(64)
        for what in (fill, fill[(1,)], fill[(1,)](out, 1.0)):
            with self.assertRaisesRegex(TypeError, "cannot (be )?pickle"):
                pickle.dumps(what)

    def test_copies(self):
        """A kernel is copied as a function is: what has it may be copied."""
        held = copy.deepcopy({"kernel": fill, "copies": [copy.copy(fill)]})
        self.assertIs(held["kernel"], fill)
        self.assertIs(held["copies"][0], fill)

    def test_another_triton(self):
        other = types.ModuleType("triton.language")
        exec("class dtype: pass\nclass JITFunction:\n    def __call__(self): pass\ndef store(*args): pass\n"
             "int32, function = dtype(), JITFunction()\n", other.__dict__)
        for cls in (other.dtype, other.JITFunction, other.store):
            cls.__module__ = "triton.language.core"

        @triton.jit
        def stores(out_ptr):
            other.store(out_ptr, 1)

        @triton.jit
        def calls(out_ptr):
            tl.store(out_ptr, other.function(1))

        @triton.jit
        def casts(out_ptr, T: tl.constexpr):
            tl.store(out_ptr, tl.cast(1, T))

        for kernel, *more in ((stores,), (calls,), (casts, other.int32)):
            with self.assertRaisesRegex((RuntimeError, triton.CompilationError), "another package that is loaded as tri"):
                kernel[(1,)](zeros(1), *more)

    def test_called_outside(self):
        with self.assertRaisesRegex(RuntimeError, "Cannot call @triton.jit"):
            add(1, 2, 3, 4, 5)
        with self.assertRaisesRegex(ValueError, "Did you forget to add @triton.jit"):
            tl.arange(0, 4)

    def test_errors_have_places(self):
        @triton.jit
        def inner(x):
            return x + missing  # noqa: F821

        @triton.jit
        def outer(out_ptr):
            tl.store(out_ptr, inner(1))

        with self.assertRaises(triton.CompilationError) as caught:
            outer[(1,)](zeros(1))
        text = str(caught.exception)
        for part in ("missing", "return x + missing", "^", os.path.basename(__file__), "inner(1)"):
            self.assertIn(part, text)
        self.assertIsInstance(caught.exception, triton.TritonError)

    def test_a_failing_constexpr_function(self):
        @triton.constexpr_function
        def fails(n):
            raise KeyError("no such size")

        @triton.jit
        def kernel(out_ptr):
            tl.store(out_ptr, fails(1))

        with self.assertRaisesRegex(triton.CompilationError, "no such size"):
            kernel[(1,)](zeros(1))

    def test_what_static_assert_raises(self):
        @triton.jit
        def kernel(N: tl.constexpr):
            tl.static_assert(N > 3, "N is small")

        with self.assertRaisesRegex(triton.compiler.CompileTimeAssertionFailure, "N is small"):
            kernel[(1,)](2)

    def test_device_assert(self):
        @triton.jit
        def kernel(n):
            tl.device_assert(n > 3, "n is small")

        kernel[(1,)](5, debug=True)
        with self.assertRaisesRegex(nereid.KernelFault, "n is small"):
            kernel[(1,)](2, debug=True)
        declared = triton.jit(debug=True)(kernel.fn)
        with self.assertRaisesRegex(nereid.KernelFault, "n is small"):
            declared[(1,)](2)
        declared[(1,)](2, debug=False)

    def test_fork(self):
        out = zeros(64)
        fill[(1,)](out, 1.0)
        child = os.fork()
        if not child:
            good = 1
            try:
                fill[(1,)](out, 2.0)
                good = 0 if out[0] == 2 else 2
            finally:
                os._exit(good)
        self.assertEqual(os.waitpid(child, 0)[1], 0)
        self.assertEqual(out[0], 1)

    def test_fork_while_threads_hold_locks(self):
        """A child has none of the threads, and so must not wait for them."""
        from nereid import _devices, _forks
        out, pool = zeros(64), _forks.Pool(1, "nereid-test")
        fill[(1,)](out, 1.0)
        asked, held, done = fill.cache_key, threading.Event(), threading.Event()
        fill.hash = None

        def hold():
            with _devices._lock, fill._hash_lock, fill._compile_lock:
                fill._hashed_by = threading.get_ident()
                held.set()
                done.wait()
                fill._hashed_by = None

        thread = threading.Thread(target=hold)
        thread.start()
        held.wait()
        begun = threading.Event()
        underway = pool.submit(lambda: begun.set() or fill.fn.__name__)
        begun.wait()
        child = os.fork()
        if not child:
            good = 1
            try:
                signal.alarm(120)  # of a child that waits
                good = 2
                fill[(1,)](out, 2.0)
                good = 0 if out[0] == 2 and fill.cache_key == asked and underway.done() else 3
                good = good or (0 if pool.submit(lambda: 7).result() == 7 else 4)
            finally:
                os._exit(good)
        status = os.waitpid(child, 0)[1]
        done.set()
        thread.join()
        self.assertEqual(status, 0)

    def test_kernels_that_nobody_has(self):
        def make():
            @triton.jit
            def kernel(out_ptr, BLOCK: tl.constexpr):
                tl.store(out_ptr + tl.arange(0, BLOCK), 3)
            return kernel, weakref.ref(kernel.fn), weakref.ref(kernel[(1,)](zeros(64), 64))

        kernel, *watched = make()
        gc.collect()
        self.assertTrue(all(w() for w in watched))
        del kernel
        gc.collect()
        self.assertFalse(any(w() for w in watched))

    def test_nothing_leaks(self):
        out = zeros(64)
        statm = open("/proc/self/statm")

        def resident():
            statm.seek(0)
            return int(statm.read().split()[1]) * 4096

        def launches(n):
            launch = fill[(1,)]
            for _ in range(n):
                fill[(0,)](out, 1.0)
                launch(out, value=2.0, num_warps=4)

        with statm:
            launches(2000)
            gc.collect()
            before = resident()
            launches(500000)  # of two each
            self.assertLess(resident() - before, 1 << 20)

    def test_failing_compilations_leave_nothing(self):
        def failures(n):
            for _ in range(n):
                with self.assertRaises(triton.CompilationError):
                    fill[(1,)]("no array", 1.0)
            gc.collect()
            return sys.getallocatedblocks()

        failures(50)
        before = failures(50)
        self.assertLess(failures(500) - before, 500)

    def test_failing_compilations_with_lists_leave_nothing(self):
        for value in [1, 2.5, ["a", None]], [tl.float32, True]:
            for _ in range(5):
                with self.assertRaises(triton.CompilationError):
                    fill[(1,)](zeros(64), list(value))
        self.assertLessEqual(len(fill._constants), 5)
        for value in [1], [True], [1.0], [0.0], [-0.0], (1,):  # equal, and not the same
            self.assertNotIn(fill._constexpr_text([*value, 2]), [fill._constexpr_text((*value, 2)),
                                                                 fill._constexpr_text([*value, 3])])
        self.assertEqual(len({fill._constexpr_text([v]) for v in (1, True, 1.0, 0.0, -0.0)}), 5)


class Arrays(unittest.TestCase):
    def test_ctypes(self):
        out = (ctypes.c_int32 * 64)()
        fill[(1,)](out, 7)
        self.assertEqual(list(out), [7] * 64)

    def test_cuda_memory_on_a_machine_without(self):
        class Cuda:
            __cuda_array_interface__ = {"data": (4096, False), "typestr": "<f4", "shape": (64,), "version": 3}

        out = zeros(64)
        with self.assertRaisesRegex(ValueError, "'out_ptr' lies on the host, but another one of this launch"):
            add[(1,)](Cuda(), Cuda(), out, 64, BLOCK=64)

    def test_an_array_without_elements_lies_on_either_side(self):
        class Empty:
            __cuda_array_interface__ = {"data": (0, False), "typestr": "<f4", "shape": (0,), "version": 3}

        for n in 0, 64:
            x, out = array.array("f", [3] * 64), zeros(64)
            for left_out in (Empty(), x, out), (x, Empty(), out):
                either[(1,)](*left_out, n, left_out[0] is x, BLOCK=64)
                self.assertEqual(list(out), [3] * n + [0] * (64 - n))

    def test_memory_of_arrays(self):
        """`interp` and `sim` know what memory an array's elements lie in, however it comes and is laid out."""
        class ByDlpack:
            def __init__(self, array):
                self.array = array

            def __dlpack__(self, **options):
                return self.array.__dlpack__(**options)

            def __dlpack_device__(self):
                return self.array.__dlpack_device__()

        try:
            import numpy
        except ImportError:
            self.skipTest("no NumPy here")
        ways = {"column": (lambda a: a[:, 1], 3), "backwards": (lambda a: a[::-1, 1], -3),
                "by DLPack": (lambda a: ByDlpack(a[:, 1]), 3), "dense by DLPack": (lambda a: ByDlpack(a.ravel()), 1)}
        for device in ("interp", "sim", "cpu"):
            nereid.set_default_device(device)
            for way, (make, stride) in ways.items():
                with self.subTest(device=device, way=way):
                    x = numpy.arange(192, dtype=numpy.float32).reshape(64, 3)
                    view, out = make(x), numpy.zeros(64, numpy.float32)
                    strided[(1,)](view, out, stride, 64)
                    self.assertEqual(out.tolist(), numpy.asarray(getattr(view, "array", view))[:64].tolist())
                    if device != "cpu":
                        with self.assertRaisesRegex(nereid.KernelFault, "load out of bounds"):
                            strided[(1,)](view, out, stride + (1 if stride > 0 else -1) * 3, 64)
        nereid.set_default_device("cpu")

    def test_numpy(self):
        try:
            import numpy
        except ImportError:
            self.skipTest("no NumPy here")
        x = numpy.arange(64, dtype=numpy.float32)
        out = numpy.zeros_like(x)
        add[(1,)](x, x, out, numpy.int64(64), BLOCK=64)
        self.assertTrue((out == 2 * x).all())
        half = numpy.zeros(64, numpy.float16)
        fill[(1,)](half, numpy.float32(1.5))
        self.assertEqual(half[63], 1.5)


if __name__ == "__main__":
    unittest.main()
