"""CUDA arrays, against a driver of our own making (tests/fakes/cuda.c), in processes of their own."""
import os
import subprocess
import sys
import tempfile
import textwrap
import unittest

FAKE = os.environ.get("FAKE_CUDA", "")

BEGIN = """
import array, ctypes, os, sys
import nereid, nereid.triton as triton, nereid.triton.language as tl

@triton.jit
def fill(out_ptr, value, BLOCK: tl.constexpr = 64):
    tl.store(out_ptr + tl.arange(0, BLOCK), value)

class Cuda:
    def __init__(self, address=0x10000, read_only=False):
        self.__cuda_array_interface__ = {"data": (address, read_only), "typestr": "<f4", "shape": (64,), "version": 3}

def says(error, text, function, *args, **options):
    try:
        function(*args, **options)
    except error as e:
        assert text in str(e), e
    else:
        raise AssertionError("no error")

on_gpu, on_host = Cuda(), array.array("f", bytes(256))
"""


@unittest.skipUnless(os.path.exists(FAKE), "no driver to test against: FAKE_CUDA names none")
class FakeGPU(unittest.TestCase):
    def run_in_file(self, code):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "program.py")
            with open(path, "w") as f:
                f.write(BEGIN + textwrap.dedent(code))
            p = subprocess.run([sys.executable, path], text=True, timeout=300, capture_output=True,
                               env={**os.environ, "NEREID_LIBCUDA": FAKE})
        self.assertEqual(p.returncode, 0, p.stdout + p.stderr)
        return p.stdout + p.stderr

    def test_importing_leaves_the_driver_alone(self):
        """So that a program can fork when it has imported all, and each child has a GPU."""
        self.run_in_file("""
            nereid.use_as_triton()
            import triton.testing, triton.tools.tensor_descriptor
            tuned = triton.autotune([triton.Config({"BLOCK": 64})], key=[])(fill)
            driver = os.path.basename(os.environ["NEREID_LIBCUDA"])
            loaded = lambda: driver in open("/proc/self/maps").read()
            assert not loaded()
            child = os.fork()
            if not child:
                fill[(1,)](on_gpu, 1.0)
                os._exit(0 if loaded() else 1)
            assert os.waitpid(child, 0)[1] == 0
            assert not loaded()
            """)

    def test_where_arrays_lie(self):
        self.run_in_file("""
            @triton.jit
            def copy(x_ptr, out_ptr):
                tl.store(out_ptr, tl.load(x_ptr))

            fill[(1,)](on_gpu, 1.0)
            fill[(1,)](on_host, 1.0)
            assert on_host[63] == 1
            says(ValueError, "'out_ptr' lies on the host, but another one of this launch in CUDA", copy[(1,)], on_gpu,
                 on_host)
            says(ValueError, "'out_ptr' lies in CUDA memory, but another one of this launch on the host", copy[(1,)],
                 on_host, on_gpu)
            says(ValueError, "'out_ptr' is read-only", fill[(1,)], Cuda(read_only=True), 1.0)
            says(ValueError, "'out_ptr' has elements and no memory", fill[(1,)], Cuda(0), 1.0)

            def altered(**changes):
                array = Cuda()
                array.__cuda_array_interface__ = {**array.__cuda_array_interface__, **changes}
                return array

            fill[(1,)](altered(data=(0, False), shape=(4, 0)), 1.0)
            fill[(1,)](altered(typestr=">u1"), 1)  # one byte has no order
            says(TypeError, "kernels do not have: '>f4'", fill[(1,)], altered(typestr=">f4"), 1.0)
            says(TypeError, "kernels do not have: ''", fill[(1,)], altered(typestr=""), 1.0)
            says(TypeError, "'out_ptr' has a mask", fill[(1,)], altered(mask=Cuda()), 1.0)
            for wrong in ({"data": 65536}, {"data": (65536,)}, {"data": ("a", False)}, {"data": (-1, False)},
                          {"data": (2**64, False)}, {"typestr": None}):
                says(TypeError, "'out_ptr' has no address, read-only flag and element type", fill[(1,)],
                     altered(**wrong), 1.0)
            for wrong in (None, {}, 5):
                array = Cuda()
                array.__cuda_array_interface__ = wrong
                says(TypeError, "'out_ptr' has no address, read-only flag and element type", fill[(1,)], array, 1.0)
        """)

    def test_pytorch_that_is_loaded_later(self):
        """Warm launches from then on go into its current stream, too."""
        self.run_in_file("""
            import types

            class Base:
                is_cuda, dtype = property(lambda self: True), property(lambda self: "float32")
                def data_ptr(self): return 0x10000

            class Tensor(Base):
                device, shape, is_cpu = types.SimpleNamespace(type="cuda"), (64,), False

            def stream_of(device):
                asked.append(device)
                return 0

            asked, torch = [], types.ModuleType("torch")
            torch.Tensor, torch.nn = Tensor, types.SimpleNamespace(Parameter=type("Parameter", (Tensor,), {}))
            torch.cuda = types.SimpleNamespace(is_available=lambda: True, is_initialized=lambda: True)
            torch._C = types.SimpleNamespace(TensorBase=Base, _cuda_getDevice=lambda: 0,
                                             _cuda_getCurrentRawStream=stream_of)
            for _ in range(2):
                fill[(1,)](on_gpu, 1.0)
            sys.modules["torch"] = torch
            for array in Tensor(), on_gpu, Tensor():
                fill[(1,)](array, 1.0)
            assert asked == [0, 0, 0], asked
            """)

    def test_fork(self):
        self.run_in_file("""
            fill[(1,)](on_gpu, 1.0)
            sys.stdout.flush()
            child = os.fork()
            if not child:
                says(RuntimeError, "a child of fork cannot use the CUDA that its parent opened", fill[(1,)], on_gpu, 1.0)
                fill[(1,)](on_host, 2.0)
                assert on_host[63] == 2
                sys.exit(5)  # with all that happens at an exit
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 5
            fill[(1,)](on_gpu, 1.0)
        """)

    def test_fork_before(self):
        self.run_in_file("""
            child = os.fork()
            fill[(1,)](on_gpu, 1.0)
            if child:
                assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        """)

    def test_compiling_for_a_target_opens_nothing(self):
        """Before CUDA is open; with the device, where it is; in a child of fork, which cannot open it any more."""
        self.run_in_file("""
            from nereid.triton.backends.compiler import GPUTarget
            from nereid.triton.compiler import ASTSource

            @triton.jit
            def square(z_ptr):
                at = z_ptr + tl.arange(0, 16)[:, None] * 16 + tl.arange(0, 16)[None, :]
                z = tl.load(at)
                tl.store(at, tl.dot(z, z))

            def compile_for(arch, **options):
                kernel = triton.compile(ASTSource(square, {"z_ptr": "*fp32"}), target=GPUTarget("cuda", arch, 32),
                                        options=options)
                assert f".target sm_{arch}" in kernel.asm["ptx"]
                assert kernel.metadata.shared == 3072 and kernel.metadata.target.arch == arch
                return kernel

            def compile_all():
                for arch in 80, 90, 100:
                    compile_for(arch, num_warps=4)
                    compile_for(arch, debug=True)

            loaded = lambda: os.path.basename(os.environ["NEREID_LIBCUDA"]) in open("/proc/self/maps").read()
            compile_all()
            assert not loaded()
            fill[(1,)](on_gpu, 1.0)
            current = triton.runtime.driver.active.get_current_target()
            of_device = compile_for(current.arch)
            assert of_device._function
            compile_all()
            sys.stdout.flush()
            child = os.fork()
            if not child:
                import gc
                gc.collect()
                assert compile_for(current.arch)._function is None
                compile_all()
                assert of_device.asm["llir"]
                sys.exit(0)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        """)

    def test_spawn(self):
        self.run_in_file("""
            import multiprocessing
            def work(n):
                fill[(1,)](on_gpu, 1.0)
                fill[(1,)](on_host, 2.0)
                assert on_host[63] == 2

            if __name__ == "__main__":
                fill[(1,)](on_gpu, 1.0)
                child = multiprocessing.get_context("spawn").Process(target=work, args=(1,))
                child.start()
                child.join()
                assert child.exitcode == 0
        """)

    def test_exit_with_work_under_way(self):
        said = self.run_in_file("""
            import threading

            def work():
                while True:
                    fill[(1,)](on_gpu, 1.0)

            fill[(1,)](on_gpu, 1.0)
            for _ in range(3):
                threading.Thread(target=work, daemon=True).start()
        """)
        self.assertEqual(said, "")

    def test_a_million_launches(self):
        self.run_in_file("""
            import gc

            def resident():
                with open("/proc/self/statm") as f:
                    return int(f.read().split()[1]) * 4096

            launch, arrays = fill[(1,)], [Cuda(0x10000 + 256 * i) for i in range(8)]

            def launches(n):
                for i in range(n // 8):
                    for a in arrays:
                        launch(a, 1.0)

            launches(20000)
            gc.collect()
            before = resident()
            launches(1000000)
            assert resident() - before < 1 << 20, resident() - before
        """)


if __name__ == "__main__":
    unittest.main()
