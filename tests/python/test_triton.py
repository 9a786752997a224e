"""Triton's interface around launches: tuning, heuristics, knobs, measuring, `import triton`."""
import concurrent.futures
import inspect
import json
import os
import subprocess
import sys
import tempfile
import textwrap
import unittest

import nereid
import nereid.triton as triton
import nereid.triton.language as tl
from kit import add, fill, floats, zeros
from nereid.triton.language import core

NEREID_COMMAND = os.environ.get("NEREID", os.path.join(os.path.dirname(nereid.__file__), "..", "..", "nereid"))


def run(code, *options, **env):
    """(status, output) of a Python process with this code."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "program.py")
        with open(path, "w") as f:
            f.write(textwrap.dedent(code))
        p = subprocess.run([sys.executable, *options, path], capture_output=True, text=True, timeout=120,
                           env={**os.environ, **env})
        return p.returncode, p.stdout + p.stderr


class Tuning(unittest.TestCase):
    def test_autotune(self):
        tried = []

        def bench(call, quantiles):
            call()
            return [{16: 3.0, 32: 1.0, 64: 2.0}[tried[-1]]] * 3

        configs = [triton.Config({"BLOCK": b}, num_warps=2, pre_hook=lambda args: tried.append(args["BLOCK"]))
                   for b in (16, 32, 64)]
        tuned = triton.autotune(configs, key=["n"], do_bench=bench)(add)
        x, out = floats(100), zeros(100)
        grid = lambda meta: (triton.cdiv(100, meta["BLOCK"]),)  # noqa: E731
        tuned[grid](x, x, out, 100)
        self.assertEqual(tried, [16, 32, 64, 32])
        self.assertEqual(tuned.best_config.kwargs, {"BLOCK": 32})
        self.assertEqual(list(out), [2 * v for v in x])
        tuned[grid](x, x, out, 100)
        self.assertEqual(tried[4:], [32])
        tuned[grid](x, x, out, 90)
        self.assertEqual(tried[5:], [16, 32, 64, 32])

    def test_pruning(self):
        configs = [triton.Config({"BLOCK": b}) for b in (16, 32, 64, 128)]
        seen = []

        def early(configs, named, **kwargs):
            seen.append((sorted(named), kwargs["n"]))
            return [c for c in configs if c.kwargs["BLOCK"] > 16]

        tuned = triton.autotune(configs, key=["n"], prune_configs_by={
            "early_config_prune": early, "perf_model": lambda BLOCK, **kw: BLOCK, "top_k": 1},
            do_bench=lambda call, quantiles: [call(), 1.0][1:] * 3)(add)
        x, out = floats(64), zeros(64)
        tuned[lambda meta: (triton.cdiv(64, meta["BLOCK"]),)](x, x, out, n=64)
        self.assertEqual(tuned.best_config.kwargs, {"BLOCK": 32})
        self.assertEqual(seen, [(["out_ptr", "x_ptr", "y_ptr"], 64)])

    def test_a_config_that_does_not_fit(self):
        @triton.jit
        def kernel(out_ptr, N: tl.constexpr):
            tl.static_assert(N < 32)
            tl.store(out_ptr, N)

        tuned = triton.autotune([triton.Config({"N": 64}), triton.Config({"N": 16})], key=[],
                                do_bench=lambda call, quantiles: [call(), 1.0, 1.0][1:] + [1.0])(kernel)
        out = zeros(1, "i")
        tuned[(1,)](out)
        self.assertEqual(out[0], 16)
        with self.assertRaisesRegex(ValueError, "Conflicting meta-parameters: N"):
            triton.autotune([triton.Config({"N": 8}), triton.Config({"N": 16})], key=[])(kernel)[(1,)](out, N=4)

    def test_heuristics(self):
        guessed = triton.heuristics({"BLOCK": lambda args: triton.next_power_of_2(args["n"])})(add)
        x, out = floats(50), zeros(50)
        guessed[(1,)](x, x, out, 50)
        self.assertEqual(list(out), [2 * v for v in x])


class Interface(unittest.TestCase):
    def test_every_name_of_the_language(self):
        """One table serves both: each name that the compiler has is there, and nothing else pretends to be."""
        for _, name, *_ in nereid.language():
            base, _, last = name.rpartition(".")
            if base == "tl":
                self.assertTrue(hasattr(tl, last), name)
            elif base == "libdevice":
                self.assertTrue(hasattr(tl.extra.cuda.libdevice, last), name)
                self.assertTrue(hasattr(tl.extra.libdevice, last), name)

    def test_signatures(self):
        """Programs ask for them to see which version of Triton this is. Each that the table has can be read."""
        for function in core.FUNCTIONS:
            if core.FUNCTIONS[function][0] is not None:
                self.assertIn("_semantic", inspect.signature(core.function(function)).parameters)
        self.assertEqual(str(inspect.signature(tl.view)), "(input, *shape, _semantic=None)")
        self.assertEqual(inspect.signature(tl.load).parameters["mask"].default, None)
        self.assertIn("cache_results", inspect.signature(triton.autotune).parameters)

    def test_types(self):
        self.assertEqual(repr(tl.float32), "triton.language.float32")
        self.assertEqual(tl.float8e4nv.primitive_bitwidth, 8)
        self.assertTrue(tl.bfloat16.is_floating() and not tl.bfloat16.is_int())
        self.assertEqual(tl.pointer_type(tl.int32), tl.pi32_t)
        self.assertEqual(tl.dtype("int32"), tl.int32)
        self.assertEqual((tl.constexpr(3) + 4).value, 7)
        self.assertEqual(tl.block_type(tl.float16, [4, 8]).numel, 32)
        with self.assertRaisesRegex(ValueError, "power of 2"):
            tl.block_type(tl.float16, [3])

    def test_rest(self):
        """Triton 3.6 binds no *args of a kernel."""
        @triton.jit
        def kernel(out_ptr, *args):
            tl.store(out_ptr, args[0])

        with self.assertRaisesRegex(NameError, "args is not defined: kernels of Triton 3.6 have no"):
            kernel.warmup(tl.float32, (1, 2), grid=(1,))

    def test_compile(self):
        src = triton.compiler.ASTSource(fn=fill, signature={"out_ptr": "*fp16", "value": "fp32", "BLOCK": "constexpr"},
                                        constexprs={"BLOCK": 128})
        kernel = triton.compile(src)
        self.assertIn("f16", kernel.asm["ttir"])
        ptx = triton.compile(src, target=triton.backends.compiler.GPUTarget("cuda", 80, 32)).asm["ptx"]
        self.assertIn(".target sm_80", ptx)
        with self.assertRaisesRegex(RuntimeError, r"0 compatible backends for target \(hip\)"):
            triton.compile(src, target=triton.backends.compiler.GPUTarget("hip", "gfx942", 64))
        with self.assertRaises(KeyError):
            kernel.asm["hsaco"]

    def test_compiling_later(self):
        class Pool:
            waiting = []

            def submit(self, call):
                future = concurrent.futures.Future()
                self.waiting.append((future, call))
                return future

            def run(self):
                future, call = self.waiting.pop(0)
                future.set_result(call())

        out, pool = zeros(64), Pool()
        with triton.AsyncCompileMode(pool):
            for value in (7.0, 8.0, 7.0):  # no constexprs: one specialization
                fill.warmup(out, value, BLOCK=16, grid=(1,))
            fill.warmup(out, 7.0, BLOCK=32, grid=(1,))
            self.assertEqual(len(pool.waiting), 2)
            pool.run()
            fill[(1,)](out, 7.0, BLOCK=16)
            self.assertEqual(list(out), [7.0] * 16 + [0.0] * 48)
            self.assertEqual(len(pool.waiting), 1)
            pool.run()

    def test_preload(self):
        told = []
        with triton.knobs.runtime.scope():
            triton.knobs.runtime.jit_cache_hook = lambda **about: told.append(about["compile"]["specialization_data"])
            kernel = fill.warmup(zeros(64), 2.0, num_stages=5, grid=(1,))
            fill.device_caches[0][0].clear()
            loaded = fill.preload(told[0])
            self.assertEqual(loaded.hash, kernel.hash)
            told.clear()
            self.assertIs(fill.warmup(zeros(64), 2.0, num_stages=5, grid=(1,)), loaded)
            self.assertEqual(told, [])

    def test_a_constexpr_that_is_set(self):
        n = tl.constexpr(3.0)

        @triton.jit
        def kernel(out_ptr):
            tl.store(out_ptr, n)

        out = zeros(1)
        for _ in range(2):
            kernel[(1,)](out)
        n.value = 4.0
        with self.assertRaisesRegex(RuntimeError, r"n has changed .* from constexpr\[3.0\] to constexpr\[4.0\]"):
            kernel[(1,)](out)
        n.value = 3.0
        kernel[(1,)](out)

    def test_caches_of_a_device(self):
        seen = []
        with triton.knobs.runtime.scope():
            triton.knobs.runtime.jit_cache_hook = lambda **about: seen.append(about["fn"].name)
            for device in (0, "cpu"):
                fill.device_caches[device][0].clear()
                fill[(1,)](zeros(64), 5.0, num_stages=4)
                fill[(1,)](zeros(64), 6.0, num_stages=4)
                self.assertEqual(len(fill.device_caches[device][0]), 1)
        self.assertEqual(seen, ["fill", "fill"])

    def test_a_listener(self):
        """Is told of each compilation, and which found what was there; clearing all caches makes a launch one."""
        told = []

        @triton.jit
        def kernel(out_ptr, value: tl.constexpr):
            tl.store(out_ptr, value)

        with triton.knobs.compilation.scope():
            triton.knobs.compilation.listener = lambda **about: told.append(about)
            value = int.from_bytes(os.urandom(3), "little")  # what no earlier run has left on disk
            for _ in range(2):
                kernel[(1,)](zeros(64), value)
            self.assertEqual(len(told), 1)
            kernel.device_caches.clear()
            kernel[(1,)](zeros(64), value)
        self.assertEqual([t["cache_hit"] for t in told], [False, True])
        self.assertGreater(told[0]["times"].ir_initialization, 0)
        self.assertGreater(told[0]["times"].total_lowering, 0)
        self.assertGreater(told[1]["times"].ir_initialization, 0)
        self.assertEqual(told[1]["times"].total_lowering + told[1]["times"].store_results, 0)

    def test_a_listener_of_another_target(self):
        told, gpu = [], triton.backends.compiler.GPUTarget("cuda", 80, 32)

        @triton.jit
        def kernel(out_ptr, value: tl.constexpr):
            tl.store(out_ptr, value)

        src = triton.compiler.ASTSource(kernel, {"out_ptr": "*fp32"}, {"value": 7})
        with triton.knobs.compilation.scope():
            triton.knobs.compilation.listener = lambda **about: told.append(about)
            compiled = [triton.compile(src, target=gpu) for _ in range(2)]
        self.assertEqual([t["cache_hit"] for t in told], [False, True])
        self.assertEqual([t["metadata"]["hash"] for t in told], [k.hash for k in compiled])
        self.assertIs(told[0]["src"], src)
        self.assertEqual([name for name, _ in told[0]["times"].lowering_stages], ["ptx"])
        self.assertGreater(told[0]["times"].total_lowering, 0)
        self.assertEqual(told[1]["times"].total_lowering, 0)

    def test_the_driver_is_one(self):
        self.assertIsInstance(triton.runtime.driver.active, triton.backends.driver.DriverBase)

    def test_num_ctas(self):
        src = triton.compiler.ASTSource(fill, {"out_ptr": "*fp32", "value": "fp32", "BLOCK": "constexpr"}, {"BLOCK": 64})
        kernel = triton.compile(src, target=triton.backends.compiler.GPUTarget("cuda", 90, 32),
                                options={"num_warps": 4, "num_ctas": 4})
        self.assertIn("num_ctas is 4: one block does the work of a program", kernel.asm["ptx"])
        self.assertIn(".reqntid 256", kernel.asm["ptx"])

    def test_machine_code(self):
        src = triton.compiler.ASTSource(fill, {"out_ptr": "*fp32", "value": "fp32"}, {"BLOCK": 64})
        kernel = triton.compile(src, target=triton.backends.compiler.GPUTarget("cuda", 80, 32))
        self.assertIn("cubin", kernel.asm)
        try:
            code = kernel.asm["cubin"]
        except nereid.NereidError as e:
            self.assertIn("ptxas", str(e))
            self.skipTest("no ptxas here")
        self.assertIsInstance(code, bytes)
        self.assertEqual(code[:4], b"\x7fELF")
        self.assertIn(b".text." + kernel.metadata.name.encode(), code)
        self.assertNotIn("cubin", fill.warmup(zeros(64), 1.0, grid=(1,)).asm)

    def test_other_gpus(self):
        nereid.set_default_device("sim")
        try:
            out = zeros(64)
            kernel = fill.warmup(out, 2.0, arch="sm80", grid=(1,))
            self.assertIn(".target sm_80", kernel.asm["ptx"])
            with self.assertRaisesRegex(RuntimeError, "a kernel for sm_80 does not run on this GPU"):
                fill[(1,)](out, 2.0, arch="sm80")
            with self.assertRaisesRegex(ValueError, r"num_ctas > 1 requires NVIDIA SM90\+"):
                fill.warmup(out, 2.0, arch="sm80", num_ctas=2, grid=(1,))
            with self.assertRaisesRegex(ValueError, "arch='gfx942' is no GPU of NVIDIA's"):
                fill.warmup(out, 2.0, arch="gfx942", grid=(1,))
            with triton.knobs.runtime.scope():
                triton.knobs.runtime.override_arch = "sm100"
                self.assertIn(".target sm_100a", fill.warmup(out, 2.5, grid=(1,), num_warps=2).asm["ptx"])
            fill[(1,)](out, 2.0, arch="sm90", num_ctas=2)
            self.assertEqual(list(out), [2.0] * 64)
        finally:
            nereid.set_default_device("cpu")

    def test_descriptor(self):
        from nereid.triton.tools.tensor_descriptor import TensorDescriptor

        class Tensor:  # 4 by 8 floats
            shape, device = (4, 8), None
            dtype = tl.float32

            def __init__(self):
                self.room = zeros(36)
                at = self.room.buffer_info()[0]
                self.skip = -at % 16 // 4
                self.at = at + 4 * self.skip

            def data_ptr(self):
                return self.at

            def stride(self):
                return (8, 1)

        @triton.jit
        def kernel(desc, A: tl.constexpr, B: tl.constexpr):
            desc.store([0, 0], tl.arange(0, A)[:, None] * 10.0 + tl.arange(0, B)[None, :])

        t = Tensor()
        kernel[(1,)](TensorDescriptor.from_tensor(t, [4, 8]), 4, 8)
        self.assertEqual(list(t.room[t.skip:t.skip + 32]), [10.0 * i + k for i in range(4) for k in range(8)])
        with self.assertRaisesRegex(AssertionError, "rank mismatch"):
            TensorDescriptor(t, (4, 8), (1,), [4, 8])

    def test_do_bench(self):
        out = zeros(64)
        ms = triton.testing.do_bench(lambda: fill[(1,)](out, 1.0), warmup=1, rep=2)
        self.assertGreater(ms, 0)
        low, high = triton.testing.do_bench(lambda: fill[(1,)](out, 1.0), warmup=1, rep=2, quantiles=[0.2, 0.8])
        self.assertLessEqual(low, high)

    def test_perf_report(self):
        @triton.testing.perf_report(triton.testing.Benchmark(
            x_names=["n"], x_vals=[1, 2], line_arg="by", line_vals=[10, 100], line_names=["ten", "hundred"],
            plot_name="", args={}))
        def product(n, by):
            return n * by

        with tempfile.TemporaryDirectory() as folder:
            product.benchmarks.plot_name = "products"
            product.run(save_path=folder)
            with open(os.path.join(folder, "products.csv")) as f:
                self.assertEqual(len(f.read().splitlines()), 3)

    def test_knobs(self):
        knobs = triton.knobs
        with knobs.cache.scope():
            knobs.cache.dir = "/somewhere"
            self.assertEqual(os.environ["TRITON_CACHE_DIR"], "/somewhere")
            self.assertEqual(knobs.cache.dir, "/somewhere")
        self.assertNotEqual(knobs.cache.dir, "/somewhere")

    def test_cache_dir(self):
        """What is compiled goes where knobs.cache.dir says, while it says so: an empty folder has nothing compiled."""
        code = """
            import sys, nereid, nereid.triton as triton, nereid.triton.language as tl

            @triton.jit
            def kernel(out_ptr, value: tl.constexpr):
                tl.store(out_ptr, value)

            triton.knobs.cache.dir = sys.argv[1]
            triton.knobs.compilation.listener = lambda **about: print(about["cache_hit"])
            kernel[(1,)](bytearray(256), 7)
        """
        with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as two:
            path, said = os.path.join(one, "program.py"), []
            with open(path, "w") as f:
                f.write(textwrap.dedent(code))
            for folder in (one, two, one):
                p = subprocess.run([sys.executable, path, folder], capture_output=True, text=True)
                said.append(p.stdout + p.stderr)
            self.assertEqual(said, ["False\n", "False\n", "True\n"])
            self.assertEqual(os.listdir(two), ["nereid"])
        usual = os.environ.get("NEREID_CACHE_DIR")
        with triton.knobs.cache.scope():
            triton.knobs.cache.dir = "/somewhere"
            self.assertEqual(os.environ["NEREID_CACHE_DIR"], "/somewhere/nereid")
        self.assertEqual(os.environ.get("NEREID_CACHE_DIR"), usual)
        triton.knobs.cache.dir = "/somewhere"
        del triton.knobs.cache.dir
        self.assertEqual(os.environ.get("NEREID_CACHE_DIR"), usual)
        os.environ.pop("TRITON_CACHE_DIR")

    def test_cache_key(self):
        def make(value):
            @triton.jit
            def kernel(out_ptr):
                tl.store(out_ptr, value)
            return kernel

        self.assertNotEqual(make(tl.constexpr(1)).cache_key, make(tl.constexpr(2)).cache_key)
        self.assertEqual(add.cache_key, add.cache_key)

    def test_jit_hooks(self):
        seen = []
        fresh = triton.jit(fill.fn)
        out = zeros(64)
        triton.knobs.runtime.jit_post_compile_hook = lambda **kw: seen.append(kw)
        try:
            fresh[(1,)](out, 1.0)
            fresh[(1,)](out, 2.0)
        finally:
            triton.knobs.runtime.jit_post_compile_hook = None
        self.assertEqual(len(seen), 1)
        data = json.loads(seen[0]["compile"]["specialization_data"])
        self.assertEqual(data["signature"]["out_ptr"], "*fp32")

    def test_names_that_triton_keeps_for_itself(self):
        from nereid.triton.language import standard
        from nereid.triton.language.standard import _elementwise_max, _is_power_of_two, _log2, _sum_combine

        @triton.jit
        def kernel(out_ptr, N: tl.constexpr):
            x = tl.arange(0, N)
            n: tl.constexpr = _log2(x.shape[0])
            tl.static_assert(_is_power_of_two(N))
            tl.store(out_ptr, tl.reduce(x, 0, _sum_combine) + n)
            tl.store(out_ptr + 1, tl.reduce(x, 0, _elementwise_max) + standard._log2(N))

        @triton.jit
        def known(out_ptr, F: tl.constexpr):
            tl.static_assert(F is not None)
            tl.store(out_ptr, 1)

        out = zeros(2, "i")
        kernel[(1,)](out, 16)
        self.assertEqual(list(out), [120 + 4, 15 + 4])
        self.assertEqual([_log2(n) for n in (0, 1, 2, 17)], [0, 0, 1, 4])
        self.assertEqual([_is_power_of_two(n) for n in (0, 1, 2, 17)], [False, True, True, False])
        names = [n for n in vars(standard) if n.startswith("_") and not n.startswith("__")]
        self.assertEqual(len(names), 19)
        for name in names:
            known[(1,)](out, getattr(standard, name))  # the compiler knows it, too


class Profiles(unittest.TestCase):
    def test_proton(self):
        import warnings

        import nereid.triton.profiler as proton
        import nereid.triton.profiler.viewer as viewer
        x, out = floats(64), zeros(64)

        @triton.jit(launch_metadata=lambda grid, metadata, args: {"name": f"adds {args['n']}", "flops": args["n"]})
        def kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
            i = tl.arange(0, BLOCK)
            tl.store(out_ptr + i, tl.load(x_ptr + i, mask=i < n) + 1.0, mask=i < n)

        with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            name = os.path.join(folder, "profile")
            session = proton.start(name, hook="triton")
            kernel[(1,)](x, out, 60, BLOCK=64)
            proton.deactivate(session)
            kernel[(1,)](x, out, 61, BLOCK=64)
            proton.activate(session)
            with proton.scope("outer", {"bytes": 100}):
                kernel[(1,)](x, out, 62, BLOCK=64)
                proton.enter_state("prefill")
                kernel[(1,)](x, out, 63, BLOCK=64)
                proton.exit_state()
            with proton.state("decode"):
                kernel[(1,)](x, out, 59, BLOCK=64)
            proton.finalize()
            with open(name + ".hatchet") as f:
                tree = json.load(f)[0]
            found = {c["frame"]["name"]: c for c in tree["children"]}
            self.assertIn("adds 60", found)
            self.assertNotIn("adds 61", found)
            self.assertEqual(found["adds 60"]["metrics"]["flops"], 60)
            outer = {c["frame"]["name"]: c for c in found["outer"]["children"]}
            self.assertEqual(sorted(outer), ["adds 62", "prefill"])
            self.assertEqual([c["frame"]["name"] for c in outer["prefill"]["children"]], ["adds 63"])
            self.assertEqual([c["frame"]["name"] for c in found["decode"]["children"]], ["adds 59"])
            self.assertEqual(viewer.parse(["time/ms"], name + ".hatchet")[1], ["time/ms"])
            with self.assertRaises(FileNotFoundError):
                viewer.parse([], os.path.join(folder, "none.hatchet"))
        self.assertFalse(triton.knobs.runtime.launch_enter_hook.calls)

    def test_sessions_of_proton_that_go_wrong(self):
        import shutil
        import warnings

        import nereid.triton.profiler as proton
        with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            name = os.path.join(folder, "profile")
            for options in ({"backend": "roctracer"}, {"context": "stack"}, {"data": "list"}):
                with self.assertRaisesRegex(ValueError, f"{next(iter(options))} is one of"):
                    proton.start(name, **options)
            self.assertFalse([w for w in warned if "with the defaults" in str(w.message)])
            session = proton.start(name, context="python")
            self.assertTrue([w for w in warned if "with the defaults" in str(w.message)])
            self.assertEqual(proton.start(name), session)
            os.mkdir(os.path.join(folder, "gone"))
            proton.start(os.path.join(folder, "gone", "profile"), hook="triton")
            third = proton.start(os.path.join(folder, "third"))
            shutil.rmtree(os.path.join(folder, "gone"))
            with self.assertRaises(OSError):
                proton.finalize()
            proton.finalize()  # nothing is left
            proton.finalize(third)
            self.assertTrue(os.path.exists(name + ".hatchet") and os.path.exists(os.path.join(folder, "third.hatchet")))
        self.assertFalse(triton.knobs.runtime.launch_enter_hook.calls)


class Processes(unittest.TestCase):
    KERNEL = """
        import array
        import triton
        import triton.language as tl
        from triton.language.extra import libdevice

        @triton.jit
        def kernel(out_ptr):
            tl.device_print("here", tl.program_id(0))
            tl.store(out_ptr, libdevice.sqrt(16.0))

        out = array.array("f", [0])
        kernel[(1,)](out)
        print(out[0], triton.__name__)
    """

    def test_as_triton(self):
        status, said = run(self.KERNEL, "-m", "nereid.triton")
        self.assertEqual(status, 0, said)
        self.assertIn("4.0 nereid.triton", said)
        self.assertIn("here", said)

    def test_use_as_triton(self):
        status, said = run("import nereid\nnereid.use_as_triton()\n" + textwrap.dedent(self.KERNEL) +
                           "import triton.runtime.jit, nereid.triton.runtime.jit\n"
                           "assert triton.runtime.jit is nereid.triton.runtime.jit\n")
        self.assertEqual(status, 0, said)

    def test_two_tritons(self):
        status, said = run("""
            import sys, types
            sys.modules["triton"] = types.ModuleType("triton")
            import nereid
            nereid.use_as_triton()
        """)
        self.assertEqual(status, 1)
        self.assertIn("another package is loaded as triton already", said)

    def test_exit_with_work_under_way(self):
        status, said = run("""
            import array, threading
            import nereid.triton as triton, nereid.triton.language as tl

            @triton.jit
            def spin(out_ptr, n):
                x = 0
                for i in range(n):
                    x = x * 3 + i
                tl.store(out_ptr, x)

            out = array.array("i", [0])
            spin[(1,)](out, 5)
            threading.Thread(target=lambda: spin[(1,)](out, 20000000), daemon=True).start()
        """)
        self.assertEqual(status, 0, said)

    def test_an_unknown_device(self):
        status, said = run("""
            import array
            import nereid.triton as triton, nereid.triton.language as tl

            @triton.jit
            def kernel(out_ptr):
                tl.store(out_ptr, 1)

            kernel[(1,)](array.array("i", [0]))
        """, NEREID_DEVICE="tpu")
        self.assertEqual(status, 1)
        self.assertIn("tpu", said)

    def test_a_kernel_in_a_zip(self):
        status, said = run("""
            import array, os, sys, zipfile
            path = os.path.join(os.path.dirname(__file__), "kernels.zip")
            with zipfile.ZipFile(path, "w") as z:
                z.writestr("zipped.py", "import nereid.triton as triton, nereid.triton.language as tl\\n"
                           "@triton.jit\\ndef kernel(out_ptr):\\n    tl.store(out_ptr, 3)\\n")
            sys.path.insert(0, path)
            import zipped
            out = array.array("i", [0])
            zipped.kernel[(1,)](out)
            assert out[0] == 3
        """)
        self.assertEqual(status, 0, said)

    def test_source_that_changes(self):
        status, said = run("""
            import array, os, sys, time
            sys.path.insert(0, os.path.dirname(__file__))
            text = ("import nereid.triton as triton, nereid.triton.language as tl\\n"
                    "@triton.jit\\ndef kernel(out_ptr):\\n    tl.store(out_ptr, %d)\\n")
            path = os.path.join(os.path.dirname(__file__), "changing.py")
            with open(path, "w") as f: f.write(text % 3)
            import changing
            with open(path, "w") as f: f.write("# another line\\n" + text % 4)
            out = array.array("i", [0])
            changing.kernel[(1,)](out)
            assert out[0] == 3, out[0]
        """)
        self.assertEqual(status, 0, said)

    def test_source_that_changes_before_it_is_read(self):
        """Where another function stands by then, or never stood the text of this one."""
        status, said = run("""
            import os, sys
            import nereid.triton as triton
            sys.path.insert(0, os.path.dirname(__file__))
            path = os.path.join(os.path.dirname(__file__), "moving.py")
            with open(path, "w") as f: f.write("def plain(out_ptr):\\n    pass\\n")
            import moving
            with open(path, "w") as f: f.write("def other(out_ptr, more):\\n    pass\\n")
            names = {}
            exec(compile("def unread(out_ptr):\\n    pass\\n", path, "exec"), names)
            for function in moving.plain, names["unread"]:
                try:
                    triton.jit(function)
                except ValueError as e:
                    assert f"source of {function.__name__} is not to be had" in str(e) and "stands other" in str(e), e
                else:
                    raise AssertionError("another function's text was taken")
        """)
        self.assertEqual(status, 0, said)

    def test_printing(self):
        program = """
            import array
            import nereid.triton as triton, nereid.triton.language as tl

            @triton.jit
            def kernel(out_ptr):
                i = tl.arange(0, 2)[:, None] * 16 + tl.arange(0, 16)[None, :]
                tl.device_print("x", i)

            kernel[(1,)](array.array("i", [0]))
        """
        for device in ("cpu", "interp", "sim"):
            status, said = run(program, NEREID_DEVICE=device)
            self.assertEqual(status, 0, said)
            want = [f"pid (0, 0, 0) idx ({i}, {k:2}) x: {16 * i + k}" for i in range(2) for k in range(16)]
            self.assertEqual(sorted(said.splitlines()), sorted(want), device)

    def test_printing_by_threads(self):
        """Of what has no element a program that is Triton's gets a line for each thread, where there are threads."""
        program = """
            import array
            import triton, triton.language as tl

            @triton.jit
            def kernel(x_ptr, n):
                tl.device_print("bare")
                tl.device_print("two", n, tl.arange(0, 8))
                if n > 100:
                    tl.device_print("never", n)

            kernel[(2,)](array.array("i", [0]), 7, num_warps=2)
        """
        plain = program.replace("import triton, triton.", "import nereid.triton as triton, nereid.triton.")
        for device, text, times in ("sim", program, 64), ("sim", plain, 1), ("cpu", program, 1), ("interp", program, 1):
            status, said = run(text, *([] if text is plain else ["-m", "nereid.triton"]), NEREID_DEVICE=device)
            self.assertEqual(status, 0, said)
            want = []
            for p in range(2):
                want += [f"pid ({p}, 0, 0) bare"] * times + [f"pid ({p}, 0, 0) idx () two: (operand 0) 7"] * times
                want += [f"pid ({p}, 0, 0) idx ({i}) two: (operand 1) {i}" for i in range(8)]
            self.assertEqual(sorted(said.splitlines()), sorted(want), (device, times))

    def test_devices_that_check(self):
        program = """
            import sys
            sys.path.insert(0, %r)
            from kit import add, floats, zeros
            x, out = floats(100), zeros(100)
            add[(2,)](x, x, out, 100, BLOCK=64)
            assert list(out) == [2 * v for v in x]
            add[(2,)](x, x, out, 101, BLOCK=64)
        """ % os.path.dirname(os.path.abspath(__file__))
        for name, value in ("NEREID_DEVICE", "interp"), ("NEREID_DEVICE", "sim"), ("TRITON_INTERPRET", "1"):
            status, said = run(program, **{name: value})
            self.assertEqual(status, 1)
            self.assertIn("KernelFault", said)
            self.assertIn("out of bounds", said)

    def test_recorder(self):
        with tempfile.TemporaryDirectory() as folder:
            log = os.path.join(folder, "log.jsonl")
            kernels = os.path.join(folder, "kernels.py")
            with open(kernels, "w") as f:
                f.write(textwrap.dedent("""
                    import triton
                    import triton.language as tl

                    import os

                    SCALE = tl.constexpr(int(os.environ["THE_SCALE"]))  # which Python alone knows

                    @triton.jit
                    def scaled(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
                        i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
                        tl.store(out_ptr + i, tl.load(x_ptr + i, mask=i < n) * SCALE, mask=i < n)

                    @triton.jit
                    def scatter(index_ptr, out_ptr, BLOCK: tl.constexpr):
                        i = tl.arange(0, BLOCK)
                        tl.store(out_ptr + tl.load(index_ptr + i) - 36, i)
                """))
            script = os.path.join(folder, "program.py")
            with open(script, "w") as f:
                f.write(textwrap.dedent("""
                    import array, ctypes, kernels

                    class Tensor:
                        def __init__(self, code):
                            import nereid.triton.language as tl
                            self.room = array.array(code, reversed(range(100)))
                            self.dtype, self.shape = {"f": tl.float32, "i": tl.int32}[code], (100,)
                        def data_ptr(self): return self.room.buffer_info()[0]
                        def stride(self): return (1,)
                        def tolist(self): return self.room.tolist()
                        def detach(self): return self
                        def cpu(self): return self
                        def reshape(self, n): return self

                    x, out = Tensor("i"), Tensor("i")
                    for _ in range(3):
                        kernels.scaled[(2,)](x, Tensor("f"), 100, BLOCK=64, num_warps=2)
                    kernels.scaled[lambda meta: (1,)](x, out, 50, 64)
                    kernels.scaled[(2,)](x, Tensor("f"), 100, BLOCK=64, num_warps=2)
                    kernels.scatter[(1,)](x, Tensor("f"), 64)
                """))
            p = subprocess.run([sys.executable, "-m", "nereid.record", "--nereid", "-o", log, "--root", folder, script],
                               capture_output=True, text=True, timeout=120, env={**os.environ, "THE_SCALE": "2"})
            self.assertEqual(p.returncode, 0, p.stdout + p.stderr)
            with open(log) as f:
                rows = [json.loads(line) for line in f]
            self.assertEqual([r["count"] for r in rows], [4, 1, 1])
            with open(script) as f, open(os.path.join(folder, "ended.py"), "w") as ended:
                ended.write(f.read() + "import os, signal, time\nos.kill(os.getpid(), signal.SIGTERM)\ntime.sleep(600)\n")
            again = os.path.join(folder, "ended.jsonl")
            p = subprocess.run([sys.executable, "-m", "nereid.record", "--nereid", "-o", again, "--root", folder, ended.name],
                               capture_output=True, text=True, timeout=120, env={**os.environ, "THE_SCALE": "2"})
            self.assertEqual(p.returncode, 128 + 15, p.stdout + p.stderr)
            with open(again) as f:
                self.assertEqual([json.loads(line)["count"] for line in f], [4, 1, 1])
            first = rows[0]
            self.assertEqual(first["from"], {"program.py:18": 3, "program.py:20": 1})
            self.assertEqual(rows[2]["from"], {"program.py:21": 1})
            self.assertEqual((first["file"], first["kernel"], first["grid"], first["meta"]),
                             ("kernels.py", "scaled", [2], {"num_warps": 2}))
            self.assertEqual(first["names"], {"SCALE": 2, "tl": {"library": "triton.language"}})
            x = first["args"][0]
            self.assertEqual((x["name"], x["ptr"], x["shape"], x["strides"]), ("x_ptr", "int32", [100], [1]))
            self.assertEqual(x["values"], list(reversed(range(100))))
            self.assertNotIn("values", first["args"][1])
            self.assertEqual(first["args"][2:], [{"name": "n", "int": 100}, {"name": "BLOCK", "constexpr": 64}])
            if os.path.exists(NEREID_COMMAND):
                p = subprocess.run([NEREID_COMMAND, "replay", log, "--root", folder], capture_output=True, text=True,
                                   timeout=120)
                self.assertEqual(p.returncode, 0, p.stdout + p.stderr)
                self.assertIn("3 ran and agreed", p.stdout)  # made-up indices would leave the array
                self.assertIn("recorded: 6 launches, 0 of them of rows that are listed", p.stdout)
                with open(kernels) as f:
                    text = f.read()
                with open(kernels, "w") as f:
                    f.write(text.replace("n, BLOCK: tl.constexpr):", "n, BLOCK: tl.constexpr):\n    tl.nothing()", 1))
                p = subprocess.run([NEREID_COMMAND, "replay", log, "--root", folder, "--json"], capture_output=True,
                                   text=True, timeout=120)
                self.assertEqual(p.returncode, 1, p.stdout + p.stderr)
                said = {r["row"]: r for r in map(json.loads, p.stdout.splitlines())}
                self.assertEqual([(said[r]["launches"], said[r]["from"]) for r in (1, 2, 3)],
                                 [(4, "program.py:18"), (1, "program.py:19"), (1, "program.py:21")])
                p = subprocess.run([NEREID_COMMAND, "replay", log, "--root", folder], capture_output=True, text=True,
                                   timeout=120)
                self.assertIn("launched at program.py:18", p.stdout)
                self.assertIn("recorded: 6 launches, 5 of them of rows that are listed", p.stdout)

    def test_recorded_surroundings(self):
        """Functions and types of closures, modules chosen at run time, Enums, kernels under a condition, and two of one
        name: what Python knows stands in the log, and replay needs nothing else of the program."""
        with tempfile.TemporaryDirectory() as folder:
            def write(name, text):
                with open(os.path.join(folder, name), "w") as f:
                    f.write(textwrap.dedent(text))
            head = "import enum, importlib, os\nimport triton\nimport triton.language as tl\n"
            write("acts.py", head + """POWER = tl.constexpr(int(os.environ["THE_POWER"]))\n""" + textwrap.dedent("""
                @triton.jit
                def power(x, n: tl.constexpr = POWER):
                    y = x
                    for _ in tl.static_range(n - 1):
                        y = y * x
                    return y

                @triton.jit
                def negative(x):
                    return -x

                def plain(n):
                    return n.value if isinstance(n, tl.constexpr) else n

                @tl.constexpr
                def halved(n):
                    return plain(n) // 2

                @triton.constexpr_function
                def twice(n):
                    return 2 * n
            """))
            write("kernels.py", head + textwrap.dedent("""
                ops = importlib.import_module(os.environ["THE_OPS"])

                class Mode(enum.Enum):
                    ADD = 1
                    MUL = 2
                MODE = tl.constexpr(Mode[os.environ["THE_MODE"]])

                @triton.jit
                def helper(x):
                    return ops.power(x) + OFFSET
                OFFSET = tl.constexpr(float(os.environ["THE_OFFSET"]))

                if os.environ["THE_MODE"] == "MUL":
                    @triton.jit
                    def chosen(x_ptr, BLOCK: tl.constexpr):
                        tl.static_assert(ops.halved(BLOCK) == 8)
                        i = tl.arange(0, BLOCK)
                        x = tl.load(x_ptr + i)
                        if MODE.value == 2:
                            x = x * 2
                        tl.store(x_ptr + i, helper(x))
                else:
                    @triton.jit
                    def chosen(x_ptr, BLOCK: tl.constexpr):
                        tl.static_assert(False, "the other one")

                def closure(act, TYPE):
                    @triton.jit
                    def apply(x_ptr, F: tl.constexpr, BLOCK: tl.constexpr):
                        i = tl.arange(0, BLOCK)
                        tl.store(x_ptr + i, F(act(tl.load(x_ptr + i)).to(TYPE)))
                    return apply

                def other(f):
                    @triton.jit
                    def apply(x_ptr, F: tl.constexpr, BLOCK: tl.constexpr):
                        tl.store(x_ptr + tl.arange(0, BLOCK), 1.0 * f(F.value))
                    return apply
            """))
            write("program.py", """
                import array
                import acts, kernels
                import triton.language as tl

                x = array.array("f", [1.5] * 16)
                kernels.chosen[(1,)](x, BLOCK=16)
                assert x[0] == 27.5, x
                kernels.closure(acts.negative, tl.float16)[(1,)](x, acts.power, BLOCK=16)
                assert x[0] == -20784, x  # in f16
                kernels.other(acts.twice)[(1,)](x, kernels.Mode.MUL, BLOCK=16)
                assert x[0] == 4, x
            """)
            log = os.path.join(folder, "log.jsonl")
            chosen = {"THE_POWER": "3", "THE_MODE": "MUL", "THE_OFFSET": "0.5", "THE_OPS": "acts"}
            p = subprocess.run([sys.executable, "-m", "nereid.record", "--nereid", "-o", log, "--root", folder,
                                os.path.join(folder, "program.py")], capture_output=True, text=True, timeout=120,
                               env={**os.environ, **chosen})
            self.assertEqual(p.returncode, 0, p.stdout + p.stderr)
            with open(log) as f:
                rows = [json.loads(line) for line in f]
            names = rows[0]["names"]
            self.assertEqual(names["MODE"], {"enum": "Mode", "member": "MUL", "value": 2})
            helper = rows[0]["functions"][names["helper"]["function"]]
            self.assertEqual((helper["jit"], helper["file"], helper["names"]["OFFSET"]), ("helper", "kernels.py", 0.5))
            power = rows[0]["functions"][helper["names"]["ops"]["attributes"]["power"]["function"]]
            self.assertEqual((power["file"], power["defaults"]), ("acts.py", {"n": 3}))
            self.assertEqual(rows[1]["names"]["TYPE"], {"dtype": "fp16"})
            if not os.path.exists(NEREID_COMMAND):
                return
            def run(verb, *args):
                p = subprocess.run([NEREID_COMMAND, verb, *args, "--root", folder], capture_output=True, text=True,
                                   timeout=120)
                return p.returncode, p.stdout + p.stderr
            status, said = run("replay", log)
            self.assertEqual((status, "3 ran and agreed" in said), (0, True), said)
            status, said = run("build", "--from", log, "--target", "cpu", "-o", os.path.join(folder, "all.nereid"))
            self.assertEqual((status, "3 launches, 0 left out" in said), (0, True), said)
            # lines that have moved; what a def has now; and a def that is gone
            with open(os.path.join(folder, "kernels.py")) as f:
                text = f.read()
            write("kernels.py", "# moved\n\n" + text.replace("x = x * 2", 'tl.static_assert(False, "that one")'))
            status, said = run("replay", log)
            self.assertEqual((status, "that one" in said, "2 ran and agreed" in said), (1, True, True), said)
            write("kernels.py", text.replace("def helper", "def renamed"))
            self.assertIn("has no def `helper`", run("replay", log)[1])
            # names whose values differ: two kernels of the bundle
            write("twice.jsonl", json.dumps(rows[1]) + "\n" + json.dumps({**rows[1], "names": {
                **rows[1]["names"], "TYPE": {"dtype": "fp32"}}}) + "\n")
            status, said = run("build", "--from", os.path.join(folder, "twice.jsonl"), "--target", "cpu", "-o",
                               os.path.join(folder, "twice.nereid"))
            self.assertEqual((status, "2 launches, 0 left out" in said), (0, True), said)

    def test_recorded_kernels_without_a_file(self):
        """A zip's, a notebook's: their text stands in the log."""
        with tempfile.TemporaryDirectory() as folder:
            log, script = os.path.join(folder, "log.jsonl"), os.path.join(folder, "program.py")
            with open(script, "w") as f:
                f.write(textwrap.dedent('''
                    import array, linecache, textwrap
                    import triton
                    import triton.language as tl
                    text = textwrap.dedent("""
                        import triton, triton.language as tl
                        @triton.jit
                        def inner(v):
                            return v + 1

                        @triton.jit
                        def cell(x_ptr, BLOCK: tl.constexpr):
                            i = tl.arange(0, BLOCK)
                            tl.store(x_ptr + i, inner(tl.load(x_ptr + i)))
                    """)
                    linecache.cache["<cell 1>"] = (len(text), None, text.splitlines(True), "<cell 1>")
                    scope = {}
                    exec(compile(text, "<cell 1>", "exec"), scope)
                    x = array.array("i", range(16))
                    scope["cell"][(1,)](x, BLOCK=16)
                    assert list(x) == list(range(1, 17)), x
                '''))
            p = subprocess.run([sys.executable, "-m", "nereid.record", "--nereid", "-o", log, "--root", folder, script],
                               capture_output=True, text=True, timeout=120)
            self.assertEqual(p.returncode, 0, p.stdout + p.stderr)
            if os.path.exists(NEREID_COMMAND):
                p = subprocess.run([NEREID_COMMAND, "replay", log, "--root", folder], capture_output=True, text=True,
                                   timeout=120)
                self.assertEqual((p.returncode, "1 ran and agreed" in p.stdout), (0, True), p.stdout + p.stderr)

    def test_recorder_leaves_the_program_alone(self):
        """What the recorder cannot read fails as it does without, and a property that raises is nobody's error."""
        text = '''
            import array
            import nereid.triton as triton, nereid.triton.language as tl

            @triton.jit
            def k(x, y):
                tl.store(x, 1)

            class Odd:
                @property
                def block_shape(self): raise RuntimeError("nobody should see this")
                def __repr__(self): raise RuntimeError("nor this")

            for y in (Odd(), [Odd()], 2**70):
                try:
                    k[(1,)](array.array("i", [0]), y)
                except Exception as e:
                    print(type(e).__name__, e)
        '''
        plain = run(text)
        with tempfile.TemporaryDirectory() as folder:
            log = os.path.join(folder, "log.jsonl")
            status, said = run(f"import nereid.record\nnereid.record.start({log!r})\n" + textwrap.dedent(text))
            lines = [line for line in said.splitlines() if not line.startswith("nereid.record: a launch of k is not")]
            self.assertEqual((status, lines), (plain[0], plain[1].splitlines()))
            self.assertNotEqual(said, plain[1])
            self.assertTrue(os.path.exists(log))

    def test_a_launch_imports_nothing(self):
        """A thread of the parent's that imports leaves a lock behind in a child of a fork."""
        status, said = run("""
            import array, sys
            import nereid.triton as triton, nereid.triton.language as tl
            before = set(sys.modules)

            @triton.jit
            def helper(x):
                return x + 1

            @triton.jit
            def k(x, N: tl.constexpr):
                tl.static_assert(N > 0)
                tl.store(x, helper(1))

            x = array.array("i", [0])
            k[(1,)](x, 1)
            try:
                k[(1,)](x, 0)
            except triton.CompilationError:
                pass
            print(sorted(set(sys.modules) - before))
        """)
        self.assertEqual((status, said.strip()), (0, "[]"))

    def test_recorder_of_a_log_that_cannot_be_written(self):
        with tempfile.TemporaryDirectory() as folder:
            script, ran = os.path.join(folder, "program.py"), os.path.join(folder, "ran")
            with open(script, "w") as f:
                f.write(f"open({ran!r}, 'w')")
            log = os.path.join(folder, "log.jsonl")
            p = subprocess.run([sys.executable, "-m", "nereid.record", "-o", log, script], capture_output=True, text=True,
                               timeout=120)
            self.assertEqual(p.returncode, 0, p.stderr)
            self.assertIn(f"{log} is empty: no kernel was launched", p.stderr)
            os.unlink(ran)
            log = os.path.join(folder, "none", "log.jsonl")
            p = subprocess.run([sys.executable, "-m", "nereid.record", "-o", log, script], capture_output=True, text=True,
                               timeout=120)
            self.assertEqual(p.returncode, 2, p.stdout + p.stderr)
            self.assertIn(f"there is no folder {os.path.dirname(log)} that can be written", p.stderr)
            self.assertFalse(os.path.exists(ran))

    def test_recorder_of_arrays_and_views(self):
        """NumPy's arrays and numbers, arrays of the standard library, by DLPack alone, and views whose elements lie
        apart: of these all is recorded that lies between the first and the last."""
        try:
            import numpy  # noqa: F401
        except ImportError:
            self.skipTest("no NumPy here")
        with tempfile.TemporaryDirectory() as folder:
            log, script = os.path.join(folder, "log.jsonl"), os.path.join(folder, "program.py")
            with open(script, "w") as f:
                f.write(textwrap.dedent("""
                    import array
                    import numpy as np
                    import triton
                    import triton.language as tl

                    @triton.jit
                    def gather(x_ptr, index_ptr, out_ptr, step, scale, BLOCK: tl.constexpr):
                        i = tl.arange(0, BLOCK)
                        tl.store(out_ptr + i, tl.load(x_ptr + tl.load(index_ptr + i * step)) * scale)

                    class ByDlpack:
                        def __init__(self, a): self.a, self.shape = a, a.shape
                        def __dlpack__(self, **options): return self.a.__dlpack__(**options)
                        def __dlpack_device__(self): return self.a.__dlpack_device__()

                    x, out = array.array("f", range(100)), np.zeros((4, 4), np.float16)
                    index = np.arange(32, dtype=np.int64)[::-1].reshape(16, 2).copy()
                    gather[(1,)](x, index[:, 1], out, np.int32(2), np.float32(0.5), BLOCK=16)
                    assert out[0].tolist() == [15, 14, 13, 12], out
                    gather[(1,)](x, ByDlpack(index), out, np.int32(1), 1.0, BLOCK=16)
                    try:
                        import torch
                        gather[(1,)](x, torch.from_numpy(index)[:, 1], out, 2, 1.0, BLOCK=16)
                    except ImportError:
                        pass
                """))
            p = subprocess.run([sys.executable, "-m", "nereid.record", "--nereid", "-o", log, "--root", folder, script],
                               capture_output=True, text=True, timeout=120)
            self.assertEqual(p.returncode, 0, p.stdout + p.stderr)
            with open(log) as f:
                rows = [{a["name"]: a for a in json.loads(line)["args"]} for line in f]
            first = rows[0]
            self.assertEqual([first["x_ptr"][k] for k in ("ptr", "shape", "strides")], ["f32", [100], [1]])
            self.assertEqual([first["out_ptr"][k] for k in ("ptr", "shape", "strides")], ["f16", [4, 4], [4, 1]])
            self.assertEqual([first["index_ptr"][k] for k in ("shape", "strides")], [[16], [2]])
            self.assertEqual(first["index_ptr"]["values"], list(range(30, -1, -1)))
            self.assertEqual((first["step"], first["scale"]),
                             ({"name": "step", "int": 2}, {"name": "scale", "float": 0.5}))
            self.assertEqual([rows[1]["index_ptr"][k] for k in ("shape", "strides", "values")],
                             [[16, 2], [2, 1], list(range(31, -1, -1))])
            for row in rows[2:]:
                self.assertEqual(row["index_ptr"]["values"], first["index_ptr"]["values"])
            if os.path.exists(NEREID_COMMAND):
                p = subprocess.run([NEREID_COMMAND, "replay", log, "--root", folder], capture_output=True, text=True,
                                   timeout=120)
                self.assertEqual(p.returncode, 0, p.stdout + p.stderr)
                self.assertIn(f"{len(rows)} ran and agreed", p.stdout)

    def test_recorder_writes_values_that_are_not_finite_and_files_elsewhere(self):
        with tempfile.TemporaryDirectory() as folder:
            log, script = os.path.join(folder, "log.jsonl"), os.path.join(folder, "program.py")
            root = os.path.join(folder, "root")  # the program stands outside of it
            os.mkdir(root)
            with open(script, "w") as f:
                f.write(textwrap.dedent("""
                    import array
                    import triton
                    import triton.language as tl

                    @triton.jit
                    def clamped(out_ptr, low, high, NONE: tl.constexpr, FIRST: tl.constexpr):
                        x = tl.full([16], FIRST, tl.float32)
                        tl.static_assert(NONE != NONE)
                        tl.store(out_ptr + tl.arange(0, 16), tl.minimum(tl.maximum(x, low), high))

                    class Tensor:
                        dtype, shape = tl.float32, (16,)
                        room = array.array("f", [0.0] * 16)
                        def data_ptr(self): return self.room.buffer_info()[0]
                        def stride(self): return (1,)

                    out = Tensor()
                    clamped[(1,)](out, -1.5, float("inf"), float("nan"), float("-inf"))
                    assert list(out.room) == [-1.5] * 16, out.room
                """))
            p = subprocess.run([sys.executable, "-m", "nereid.record", "--nereid", "-o", log, "--root", root, script],
                               capture_output=True, text=True, timeout=120)
            self.assertEqual(p.returncode, 0, p.stdout + p.stderr)
            with open(log) as f:
                row = json.loads(f.read())
            self.assertEqual(row["file"], os.path.abspath(script))
            self.assertEqual(row["args"][2], {"name": "high", "float": float("inf")})
            self.assertNotEqual(row["args"][3]["constexpr"], row["args"][3]["constexpr"])
            self.assertEqual(row["args"][4]["constexpr"], float("-inf"))
            if os.path.exists(NEREID_COMMAND):
                p = subprocess.run([NEREID_COMMAND, "replay", log, "--root", root], capture_output=True, text=True,
                                   timeout=120)
                self.assertEqual(p.returncode, 0, p.stdout + p.stderr)
                self.assertIn("1 ran and agreed", p.stdout)

    def test_recorded_tuples_replay(self):
        with tempfile.TemporaryDirectory() as folder:
            log, script = os.path.join(folder, "log.jsonl"), os.path.join(folder, "program.py")
            with open(script, "w") as f:
                f.write(textwrap.dedent("""
                    import array, collections
                    import triton
                    import triton.language as tl

                    @triton.jit
                    def combine(pair, parts, out_ptr):
                        i = tl.arange(0, 16)
                        x = tl.load(parts[0] + i) * parts[1][0] + tl.load(parts[1][1] + i)
                        tl.store(out_ptr + i, x + pair.scale if pair.shift is None else x)

                    class Tensor:
                        dtype, shape = tl.float32, (16,)
                        def __init__(self): self.room = array.array("f", [1.0] * 16)
                        def data_ptr(self): return self.room.buffer_info()[0]
                        def stride(self): return (1,)

                    Pair = collections.namedtuple("Pair", "scale shift")
                    out = Tensor()
                    combine[(1,)](Pair(0.5, None), (Tensor(), (3, Tensor())), out)
                    assert list(out.room) == [4.5] * 16, out.room
                """))
            p = subprocess.run([sys.executable, "-m", "nereid.record", "--nereid", "-o", log, "--root", folder, script],
                               capture_output=True, text=True, timeout=120)
            self.assertEqual(p.returncode, 0, p.stdout + p.stderr)
            if os.path.exists(NEREID_COMMAND):
                p = subprocess.run([NEREID_COMMAND, "build", "--from", log, "--root", folder, "--target", "cpu", "-o",
                                    os.path.join(folder, "all.nereid")], capture_output=True, text=True, timeout=120)
                self.assertIn("1 launches, 0 left out", p.stdout, p.stderr)
                with open(log) as f:  # and one whose tuple is none
                    text = f.read()
                with open(log, "w") as f:
                    f.write(text + text.replace('"tuple":[', '"tuple":3,"was":[', 1))
                p = subprocess.run([NEREID_COMMAND, "replay", log, "--root", folder, "--json"], capture_output=True,
                                   text=True, timeout=120)
                rows = sorted(map(json.loads, p.stdout.splitlines()), key=lambda r: r["row"])
                self.assertEqual([r["state"] for r in rows], ["agrees", "compile failed"], p.stdout + p.stderr)
                self.assertIn("argument 0 is of an unknown form", rows[1]["detail"])

    def test_a_free_threaded_build(self):
        status, said = run("""
            import sysconfig
            known = sysconfig.get_config_var
            sysconfig.get_config_var = lambda name: 1 if name == "Py_GIL_DISABLED" else known(name)
            import nereid
        """)
        self.assertEqual(status, 1)
        self.assertIn("ImportError: Nereid does not run in free-threaded builds", said)

    def test_subinterpreters(self):
        status, said = run("""
            import nereid
            try:
                import _xxsubinterpreters as interpreters
            except ImportError:
                import _interpreters as interpreters
            made = interpreters.create()
            try:
                error = interpreters.run_string(made, "import nereid")
            except Exception as e:
                error = e
            assert "not in sub-interpreters: take" in str(error), error
        """)
        self.assertEqual(status, 0, said)


if __name__ == "__main__":
    unittest.main()
