"""With PyTorch, where it is there: tensors, and torch.compile."""
import copy
import itertools
import json
import os
import subprocess
import sys
import tempfile
import textwrap
import threading
import unittest
import warnings

import nereid
import nereid.triton as triton
import nereid.triton.language as tl
from kit import add, fill
from nereid.triton.tools import ragged_tma

try:
    import torch
    import nereid._dynamo
except ImportError:
    torch = None


@triton.jit
def ragged(source, to, sums_ptr, offset, size, DIM: tl.constexpr, ADD: tl.constexpr):
    corner = [0, 0, 0] if DIM else [0, 0]
    block = ragged_tma.load_ragged(source, offset, size, corner, DIM)
    rows = tl.ravel(tl.sum(tl.abs(block), len(block.shape) - 1))
    tl.store(sums_ptr + tl.arange(0, rows.shape[0]), rows)
    if ADD:
        ragged_tma.atomic_add_ragged(to, offset, size, corner, block + 2, DIM)
    else:
        ragged_tma.store_ragged(to, offset, size, corner, block + 2, DIM)


@unittest.skipIf(torch is None, "no PyTorch here")
class Torch(unittest.TestCase):
    def test_tensors(self):
        for dtype in (torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.uint8):
            x, out = torch.arange(100).to(dtype), torch.zeros(100, dtype=dtype)
            add[(triton.cdiv(100, 64),)](x, x, out, 100, BLOCK=64)
            self.assertTrue(torch.equal(out, x + x))
        part = torch.zeros(128)
        fill[(1,)](torch.nn.Parameter(part[64:], requires_grad=False), 3.0)
        self.assertEqual(part.tolist(), [0.0] * 64 + [3.0] * 64)
        with self.assertRaisesRegex(ValueError, "neither on a CPU nor on a CUDA device"):
            fill[(1,)](torch.empty(64, device="meta"), 1.0)

    def test_tensors_that_are_nowhere(self):
        out, freed = torch.zeros(64), torch.zeros(64)
        freed.untyped_storage().resize_(0)
        with torch._subclasses.fake_tensor.FakeTensorMode():
            fake = torch.zeros(64)
        for tensor, says in ((freed, "has no memory"), (fake, "has no memory"),
                             (torch.zeros(64, device="meta"), "neither on a CPU nor on a CUDA device")):
            with warnings.catch_warnings(), self.assertRaisesRegex(ValueError, says):
                warnings.simplefilter("ignore")
                add[(1,)](tensor, out, out, 64, BLOCK=64)

    def test_ragged(self):
        """Slices of rows of unequal lengths: what is loaded beyond one is zero, what is stored there stays away."""
        from nereid.triton.tools.ragged_tma import create_ragged_descriptor
        for device, dims, add in itertools.product(("cpu", "interp", "sim"), (2, 3), (False, True)):
            nereid.set_default_device(device)
            with self.subTest(device=device, dims=dims, add=add):
                shape, block, dim = ((40, 16), [8, 16], 0) if dims == 2 else ((3, 40, 16), [4, 8, 16], 1)
                x, y = torch.randn(shape), torch.ones(shape)
                want, filled = y.clone(), torch.zeros(32)
                want.narrow(dim, 10, 5).copy_(x.narrow(dim, 10, 5) + 2 + add)
                source, to = (create_ragged_descriptor(t, block, dim - (dims if add else 0)) for t in (x, y))
                ragged[(1,)](source, to, filled, 10, 5, dim, add)
                self.assertTrue(torch.equal(y, want))
                rows = 8 if dims == 2 else 32
                self.assertEqual([r for r in range(rows) if filled[r] != 0],
                                 [r for r in range(rows) if r % 8 < 5 and r // 8 < 3])
        nereid.set_default_device("cpu")
        for shape, block, dim in (((8,), [8], 0), ((8, 8), [8, 8], 1), ((8, 8), [8], 0), ((8, 8), [8, 8], -1),
                                  ((1, 1, 1, 1), [1] * 4, 0)):
            with self.assertRaises(AssertionError):
                create_ragged_descriptor(torch.zeros(shape), block, dim)

    def test_microscaling(self):
        from nereid.triton.tools.mxfp import MXFP4Tensor, MXScaleTensor
        x = torch.tensor([0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0, -0.1, 9.0, -1e30, float("inf"), float("nan")])
        rounded = [0.0, 1.0, 1.0, 2.0, 2.0, 4.0, 4.0, -0.0, 6.0, -6.0, 6.0, 6.0]
        small = MXFP4Tensor(x)
        self.assertEqual(small.to(torch.float32).tolist(), rounded)
        self.assertEqual(small.data[7], 8)
        for shape, dim in ((12, 1), 0), ((3, 4), 1), ((4, 3), 1), ((3, 4), 0), ((1, 12), 0):
            one = MXFP4Tensor(size=shape)
            one.data = small.data.reshape(shape)
            packed = one.to_packed_tensor(dim)
            self.assertEqual(packed.shape[dim], (shape[dim] + 1) // 2)
            self.assertTrue(torch.equal(one.unpack_packed_tensor(packed, dim, shape), one.data))
        self.assertEqual(MXFP4Tensor(torch.tensor([1.0, -6.0])).to_packed_tensor(0).tolist(), [0xF2])
        scales = MXScaleTensor(torch.tensor([1.0, 0.9, 3.0, 2.0**-126, 3e38, 0.0, -1.0, float("nan"), float("inf")]))
        self.assertEqual(scales.data.tolist(), [127, 126, 128, 1, 254, 255, 255, 255, 255])
        self.assertEqual(scales.to(torch.float32)[:4].tolist(), [1.0, 0.5, 2.0, 2.0**-126])
        self.assertTrue(scales.to(torch.float32)[5:].isnan().all())
        drawn = MXScaleTensor(size=(100,)).random(0.25, 4.0).to(torch.float32)
        self.assertTrue(((0.25 <= drawn) & (drawn <= 4)).all())

    def test_cublas(self):
        from nereid.triton._C.libtriton import nvidia
        a, b, c = torch.rand(3, 5), torch.rand(4, 5), torch.zeros(3, 4)
        nvidia.cublas.CublasLt(torch.empty(1)).matmul(a, b, c)
        torch.testing.assert_close(c, a @ b.T)
        with self.assertRaisesRegex(ImportError, "cannot import name 'ir'"):
            from nereid.triton._C.libtriton import ir  # noqa: F401

    def test_joint_graph(self):
        """Of operations that compute the same one is kept, as PyTorch's own pass keeps them, which loads Inductor."""
        from nereid._joint import share
        from torch.fx.experimental.proxy_tensor import make_fx
        aten = torch.ops.aten

        def f(x, y):
            parts = [aten.add.Tensor(x.sin(), c) for c in (1, 1.0, 0.0, -0.0, 1)]  # one of five is there already
            drawn = aten.bernoulli.default(x) + aten.bernoulli.default(x)
            before = y.exp() * y.exp()  # one
            y.copy_(x)
            results = x.cos(), x.cos()  # which a program may write to
            return sum(p.tan() for p in parts) + drawn + before + y.exp(), *results

        gm = make_fx(f, tracing_mode="fake")(torch.rand(4), torch.rand(4))
        share(gm.graph)
        gm.graph.lint()
        count = {t: sum(n.target is t for n in gm.graph.nodes) for t in
                 (aten.sin.default, aten.tan.default, aten.bernoulli.default, aten.exp.default, aten.cos.default)}
        self.assertEqual(list(count.values()), [1, 4, 2, 2, 2])
        gm.recompile()
        x, y = torch.rand(4).round(), torch.rand(4)
        for got, wanted in zip(gm(x, y.clone()), f(x, y.clone())):
            torch.testing.assert_close(got, wanted)
        code = """
            import sys, torch, nereid
            x = torch.rand(8, requires_grad=True)
            torch.compile(lambda x: x.sin() * x.sin(), backend=nereid.torch_backend)(x).sum().backward()
            print("torch._inductor.lowering" in sys.modules, "nereid.triton" in sys.modules)
        """
        p = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], text=True, capture_output=True)
        self.assertEqual((p.stdout, p.returncode), ("False False\n", 0), p.stderr)

    def compiled(self, f, *args, reason=None, **options):
        """f compiled, on the arguments; results as PyTorch has them, lying as PyTorch has them. reason: PyTorch runs a
        part, and why; None: it runs nothing."""
        torch._dynamo.reset()
        nereid._dynamo._named.clear()
        wanted = f(*[a.clone() if isinstance(a, torch.Tensor) and a.is_contiguous() else a for a in args])
        g = torch.compile(f, backend=nereid.torch_backend, **options)
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            got = g(*args)
        said = [str(w.message) for w in said if "nereid" in str(w.message)]
        if reason is None:
            self.assertEqual(said, [])
        else:
            self.assertTrue(any(reason in s for s in said), f"{reason!r} is wanted of {said}")
        for w, a in zip(wanted if isinstance(wanted, tuple) else (wanted,), got if isinstance(got, tuple) else (got,)):
            torch.testing.assert_close(a, w)
            self.assertEqual(a.stride(), w.stride())
        return g

    def test_compile(self):
        self.compiled(lambda x: (torch.softmax(x * 2, -1), x.t() + 1), torch.randn(64, 100))

        def in_place(x, y):
            x.mul_(2)
            return x + y

        a, b = torch.ones(8, 8), torch.ones(8, 8)
        torch.testing.assert_close(torch.compile(in_place, backend=nereid.torch_backend)(a, b), torch.full((8, 8), 3.0))
        self.assertEqual(a[0, 0], 2)

    def test_products(self):
        x, w = torch.randn(24, 40), torch.randn(40, 56)
        for options in ({"mode": "max-autotune"}, {"options": {"products": "auto"}}, {"options": {"products": "own"}}):
            self.compiled(lambda x, w: torch.relu(x @ w), x, w, **options)
        f = torch.compile(lambda x, w: x @ w, backend=nereid.torch_backend, options={"products": "mine"})
        with self.assertRaisesRegex(Exception, "products is 'mine'; it may be auto, own, library"):
            f(x, w)

    def test_writes_into_views(self):
        def f(x, y):
            z = x.sin()
            z[:, 1:6:2] = y
            z[:, -5::3] = 2
            z.as_strided((2, 3), (9, 2), 1).copy_(y[:2] * 3)
            return z.cos(), torch.slice_scatter(x, y, 1, 2, None, 2)

        self.compiled(f, torch.randn(3, 7), torch.randn(3, 3))
        self.compiled(lambda x: torch.as_strided_scatter(x, x.sum(), (), (), 4) * 2, torch.randn(3, 7))

    def test_how_tensors_lie(self):
        x, y = torch.randn(8, 6), torch.randn(6, 8)
        self.compiled(lambda x: (x + 1).t(), x)
        self.compiled(lambda x: (x * 2, x.t(), x[1:3], x), x)  # views of an input, and the input
        self.compiled(lambda x: (x * 2).unsqueeze(0).expand(3, 8, 6), x)
        self.compiled(lambda x, y: x @ y, x[::2], y[:, ::2])  # with gaps
        self.compiled(lambda x, y: x + y, x, y.t())
        self.compiled(lambda x: x * 2 + 1, torch.randn(3, 1).expand(3, 5))
        self.compiled(lambda x: (x.repeat(2, 3), x.sin().sort(-1)[0]), x)
        self.compiled(lambda x: (x * 2, x.sum(), x.sum(0)), torch.randn(0, 5))
        self.compiled(lambda x, y: (x * y, x + 1), torch.tensor(3.0), torch.tensor(2))
        view = torch.compile(lambda x: x.t(), backend=nereid.torch_backend)(x)
        self.assertEqual(view.data_ptr(), x.data_ptr())

    def test_a_training_step(self):
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(10, 20), torch.nn.GELU(), torch.nn.BatchNorm1d(20))
        other = copy.deepcopy(model)
        x = torch.randn(4, 10)

        def gradients(f, parameters):
            f(x).sin().sum().backward()
            return [p.grad for p in parameters]

        with warnings.catch_warnings():
            warnings.simplefilter("error", UserWarning)
            got = gradients(torch.compile(model, backend=nereid.torch_backend), model.parameters())
        for g, want in zip(got, gradients(other, other.parameters())):
            torch.testing.assert_close(g, want, rtol=1e-4, atol=1e-4)  # of 4 numbers near 1
        for b, want in zip(model.buffers(), other.buffers()):
            torch.testing.assert_close(b, want)

    def test_the_backward_graph_comes_with_the_forward_one(self):
        """So that its kernels are compiled while the forward graph runs, and not before the first backward."""
        made, create = [], nereid._dynamo._Program.__init__

        def watched(self, *args):
            create(self, *args)
            made.append(self)

        model = torch.nn.Sequential(torch.nn.Linear(24, 24), torch.nn.GELU(), torch.nn.Linear(24, 3))
        nereid._dynamo._Program.__init__ = watched
        try:
            out = torch.compile(model, backend=nereid.torch_backend)(torch.randn(5, 24))
            self.assertEqual(len(made), 2)
            out.sum().backward()
            self.assertEqual(len(made), 2)
        finally:
            nereid._dynamo._Program.__init__ = create

    def test_programs_are_compiled_at_once(self):
        """Those of a graph that operations of PyTorch's cut: none waits for another."""
        create, all_begun = nereid._dynamo._native.Fusion, threading.Barrier(4, timeout=300)

        class Watched:
            def __init__(self, *args):
                self.fusion = create(*args)

            def compile(self):
                all_begun.wait()
                self.fusion.compile()

            def __getattr__(self, name):
                return getattr(self.fusion, name)

        def four(x):
            for f in (torch.sin, torch.cos, torch.tanh):
                x = torch.linalg.matrix_exp(f(x))
            return x * 2

        nereid._dynamo._native.Fusion = Watched
        try:
            self.compiled(four, torch.randn(5, 5), reason="matrix_exp")
        finally:
            nereid._dynamo._native.Fusion = create

    def test_groups_that_compute_the_same_share_a_program(self):
        """Seven layers with an operation of PyTorch's in each: at most four run one program."""
        made, create = [], nereid._dynamo._Program.__init__

        def watched(self, group, *args):
            create(self, group, *args)
            made.append(group)

        def layers(x, e, weights, combine):
            for i, w in enumerate(weights):
                x = torch.linalg.matrix_exp(combine(i)(x.sin(), w).t() / 8 + e)
            return x

        def count(combine, symbolic=False):
            made.clear()
            x, e, *weights = (torch.randn(5, 5) / 9 for _ in range(9))
            args = x, e, [w.requires_grad_() for w in weights]
            wanted = layers(*args, combine)
            gradients = torch.autograd.grad(wanted.sum(), weights)
            torch._dynamo.reset()
            f = torch.compile(layers, backend=nereid.torch_backend, dynamic=symbolic)
            for _ in range(3):
                got = f(*args, combine)
                torch.testing.assert_close(got, wanted)
                for g, w in zip(torch.autograd.grad(got.sum(), weights), gradients):
                    torch.testing.assert_close(g, w)
            return sum(torch.ops.aten.sin.default in {n.target for n in group.nodes} for group in made)

        nereid._dynamo._Program.__init__ = watched
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                self.assertEqual(count(lambda i: torch.sub), 2)
                self.assertEqual(count(lambda i: torch.add if i == 3 else torch.sub), 3)
                self.assertEqual(count(lambda i: torch.sub, symbolic=True), 2)
        finally:
            nereid._dynamo._Program.__init__ = create

    def test_a_training_step_of_pools(self):
        pool, width = torch.nn.MaxPool2d(3, 2, 1), torch.rand(4, 3, 11, 12)

        def step(x, w):
            x = x.detach().requires_grad_()
            y = pool(torch.nn.functional.conv2d(x, w, None, 1, 1))
            y.square().sum().backward()
            return y, x.grad
        w = torch.rand(4, 3, 3, 3)
        wanted = step(width, w)
        torch._dynamo.reset()
        got = torch.compile(step, backend=nereid.torch_backend)(width, w)
        for g, v in zip(got, wanted):
            torch.testing.assert_close(g, v)

    def test_operations_that_are_not_decomposed(self):
        """Tracing their parts in Python takes longer than the reader takes for them. Results beside float64's are as
        good as eager's, of the same types and layouts."""
        nn, targets = torch.nn, set()
        torch.manual_seed(1)  # of other numbers one in fifteen lies so close to the threshold that rounding decides
        compile_graph = nereid._dynamo.compile_graph

        def seen(gm, *args, **options):
            targets.update(str(n.target) for n in gm.graph.nodes if n.op == "call_function")
            return compile_graph(gm, *args, **options)

        def model(part):
            parts = [[nn.Conv2d(4, 6, 3), nn.BatchNorm2d(6), nn.GELU(), nn.GroupNorm(2, 6), nn.SiLU(),
                      nn.BatchNorm2d(6).eval(), nn.ReLU(), nn.ConvTranspose2d(6, 4, 3, 2, 1, output_padding=1)],
                     [nn.GroupNorm(2, 4, affine=False), nn.GELU("tanh"), nn.BatchNorm2d(4, track_running_stats=False),
                      nn.Tanh(), nn.InstanceNorm2d(4), nn.LayerNorm(9), nn.Sigmoid(), nn.Threshold(0.4, 0.1),
                      nn.LayerNorm((9, 9), elementwise_affine=False), nn.Linear(9, 5), nn.LogSoftmax(-1)]]
            return nn.Sequential(*parts[part])

        # Weights of f32 with an input of bf16, as under autocast, are for norms alone.
        mixed = nn.Sequential(nn.LayerNorm(9), nn.GroupNorm(2, 4), nn.BatchNorm2d(4), nn.BatchNorm2d(4).eval())
        for net, kind, dtype in ((model(0), torch.float32, torch.float32), (model(0), torch.bfloat16, torch.bfloat16),
                                 (model(1), torch.float32, torch.float32), (model(1), torch.float16, torch.float16),
                                 (mixed, torch.float32, torch.bfloat16)):
            torch._dynamo.reset()
            x, got = torch.randn(3, 4, 9, 9).to(dtype), []
            for how in ("float64", "eager", "compiled"):
                own = copy.deepcopy(net).to(torch.float64 if how == "float64" else kind)
                leaf = x.to(torch.float64 if how == "float64" else dtype, copy=True).requires_grad_()
                f = torch.compile(own, backend=nereid.torch_backend) if how == "compiled" else own
                with warnings.catch_warnings():
                    warnings.simplefilter("error", UserWarning)
                    nereid._dynamo.compile_graph = seen
                    try:
                        out = f(leaf)
                    finally:
                        nereid._dynamo.compile_graph = compile_graph
                (out.double() * torch.linspace(-1, 1, out.numel()).double().reshape(out.shape)).sum().backward()
                got.append([out.detach(), leaf.grad, *(p.grad for p in own.parameters()), *own.buffers()])
            for right, eager, ours in zip(*got):
                self.assertEqual((ours.dtype, ours.stride()), (eager.dtype, eager.stride()))
                scale = max(right.abs().max().item(), 1e-2)
                off = [((t.double() - right).abs().max() / scale).item() for t in (eager, ours)]
                self.assertLess(off[1], 2 * off[0] + (1e-5 if dtype == torch.float32 else 4e-3))
        for name in ("native_layer_norm", "native_layer_norm_backward", "native_group_norm", "gelu", "gelu_backward",
                     "native_group_norm_backward", "_native_batch_norm_legit_functional", "native_batch_norm_backward",
                     "_native_batch_norm_legit_no_training", "convolution_backward", "silu_backward",
                     "threshold_backward", "sigmoid_backward", "tanh_backward", "_log_softmax_backward_data"):
            self.assertIn(f"aten.{name}.default", targets)
        self.assertFalse({t for t in targets if "var_mean" in t or "transpose" in t})

    def test_operations_that_tracing_makes(self):
        """Of operations that programs do not name, as gradients and writes in place become some; PyTorch runs none."""
        F = torch.nn.functional

        def written(x):
            y = x.clone()
            y[:, 1], y[1:] = 0.5, y[:-1] * 2
            return y

        x, image, n = torch.randn(4, 6), torch.randn(2, 4, 9, 8), torch.randint(0, 6, (4, 3))
        norm = torch.nn.utils.parametrizations.weight_norm(torch.nn.Linear(6, 3))
        for f, *args in ((lambda x: x.flip(0, 1).cumsum(1), x), (written, x), (lambda x: x.unfold(1, 3, 2) * 2, x),
                         (lambda n: ((n << 2) | (n >> 1)) ^ 3, n), (lambda x: torch.cdist(x, x[1:] + 1), x),
                         (lambda x: F.avg_pool2d(x, 3, 2, 1) - F.adaptive_avg_pool2d(x, (5, 4)), image),
                         (lambda x: F.adaptive_max_pool2d(x, 3) + F.lp_pool2d(x.abs(), 2, 3, 3)[:, :, :3, :2].sum(), image),
                         (lambda x: F.grid_sample(x[..., :2], x[:2, 0, :4, :2, None].sigmoid().expand(2, 4, 2, 2),
                                                  align_corners=False), image),
                         (lambda x: F.bilinear(x, x.sin(), x.new_ones(3, 6, 6)), x), (norm, x),
                         (lambda x: x.median(1)[0] + x.kthvalue(2, 1)[0] + x.diagonal_scatter(x[0, :4]).sum(1), x)):
            wanted, got = args[0].clone(), args[0].clone()
            if wanted.is_floating_point():
                wanted.requires_grad_(), got.requires_grad_()
            torch._dynamo.reset()
            nereid._dynamo._named.clear()
            with warnings.catch_warnings():
                warnings.simplefilter("error", UserWarning)
                y, z = f(wanted), torch.compile(f, backend=nereid.torch_backend, fullgraph=True)(got)
            torch.testing.assert_close(z, y)
            if y.requires_grad:
                weights = torch.linspace(-1, 1, y.numel()).reshape(y.shape)
                (y * weights).sum().backward(), (z * weights).sum().backward()
                torch.testing.assert_close(got.grad, wanted.grad, rtol=1e-4, atol=1e-5)

    def test_results_with_no_element(self):
        """Nothing computes them, also where other results of their operation are computed."""
        self.compiled(lambda x: (x[:0].sin(), x.cos(), torch.cat([x[:, :0] * 2, x], 1)), torch.randn(4, 5))
        self.compiled(lambda x: x[:0].sin(), torch.randn(4, 5))

    def test_sizes_that_change(self):
        f = self.compiled(lambda x: ((x.sin() * x.shape[0]).sum(0), x.t() + 1, x.reshape(-1)), torch.randn(4, 3),
                          dynamic=True)
        made = []
        before = nereid._dynamo._Program
        nereid._dynamo._Program = lambda *a: made.append(a)
        try:
            for n in (5, 9, 17, 5):
                x = torch.randn(n, 3)
                torch.testing.assert_close(f(x)[0], (x.sin() * n).sum(0))
        finally:
            nereid._dynamo._Program = before
        self.assertEqual(made, [])

    def test_places_below_several_sizes(self):
        """The last quarter's places in its part are i - n*n - n."""
        def quarters(a, b):
            return torch.cat([torch.cat([a, b.t()], -1), torch.cat([b, a], -1)])

        self.compiled(quarters, torch.randn(5, 5), torch.randn(5, 5), dynamic=True)

    def test_complex(self):
        """Complex tensors, and such whose memory holds the conjugates."""
        z, w = torch.randn(4, 6, dtype=torch.complex64), torch.randn(4, 6, dtype=torch.complex64)
        x = torch.randn(4, 12)
        self.compiled(lambda z, w: (z * w, z @ w.mH, z.abs() + w.angle(), z.exp().sum(0), z / w + 1), z, w)
        self.compiled(lambda x, w: torch.view_as_real(torch.view_as_complex(x.reshape(4, 6, 2)) * w).flatten(1), x, w)
        self.compiled(lambda z: (z + 1, z.imag * 2, z.conj()), z.conj())
        self.compiled(lambda z: (z.t() * 2j, z.t()[1:] + 0), z)

        def written(z, w):
            return z.mul_(w) + 1

        a, b = z.clone(), z.clone()
        got, want = torch.compile(written, backend=nereid.torch_backend)(a, w), written(b, w)
        torch.testing.assert_close((got, a), (want, b))

        def loss(z):
            return (z * w.conj()).exp().abs().sum() + (z @ w.T).real.square().sum()

        a, b = z.clone().requires_grad_(), z.clone().requires_grad_()
        torch.compile(loss, backend=nereid.torch_backend)(a).backward()
        loss(b).backward()
        torch.testing.assert_close(a.grad, b.grad, rtol=1e-4, atol=1e-4)

        # What forward leaves for backward are conjugates that lie transposed, or of a number, which no trace calls so.
        def promoted(x):
            return torch.view_as_real(x.to(torch.complex64) @ x.mT.to(torch.complex64))

        def times_a_number(x):
            return torch.view_as_real(torch.view_as_complex(x.reshape(3, 4, 3, 2)) * (1 + 2j))

        for f in (promoted, times_a_number):
            a = torch.randn(3, 4, 6).requires_grad_()
            b = a.detach().clone().requires_grad_()
            y, z = f(a), torch.compile(f, backend=nereid.torch_backend)(b)
            weights = torch.linspace(-1, 1, y.numel()).reshape(y.shape)
            (y * weights).sum().backward(), (z * weights).sum().backward()
            torch.testing.assert_close(b.grad, a.grad, rtol=1e-4, atol=1e-4)

    def test_fourier(self):
        x = torch.randn(3, 6, 10)
        self.compiled(lambda x: (torch.fft.fft(x.sin()).abs().cos(), torch.fft.rfft2(x).real * 2, torch.fft.fftn(x, dim=(0, 2))), x)
        self.compiled(lambda x: torch.fft.irfft2(torch.fft.rfft2(x, norm="ortho") * 2, s=(6, 10), norm="ortho"), x)
        a, b = x.clone().requires_grad_(), x.clone().requires_grad_()

        def loss(x):
            return torch.fft.irfft(torch.fft.rfft(x).abs() + torch.fft.ifft(x)[..., :6]).square().sum()

        torch.compile(loss, backend=nereid.torch_backend)(a).backward()
        loss(b).backward()
        torch.testing.assert_close(a.grad, b.grad, rtol=1e-4, atol=1e-4)

    def test_parts(self):
        """What is not known runs in PyTorch, between what is."""
        x = torch.randn(6, 6)
        self.compiled(lambda x: torch.linalg.matrix_exp(x.sin()).exp(), x, reason="aten.linalg_matrix_exp")

        def written_behind(x):  # the old value is read by PyTorch, after ours has computed the new one
            y = torch.linalg.matrix_exp(x)
            x.add_(1)
            return y + x

        a, b = x.clone(), x.clone()
        got, want = torch.compile(written_behind, backend=nereid.torch_backend)(a), written_behind(b)
        torch.testing.assert_close(got, want)
        torch.testing.assert_close(a, b)

    def test_attention_of_a_gpu(self):
        """The operation by which CUDA computes attention of f32, which a CPU has not. Rows may have all places hidden."""
        aten, hidden = torch.ops.aten, torch.zeros(2, 3, 40, 24)
        hidden.masked_fill_(torch.rand(2, 1, 40, 24) < 0.3, -torch.inf)
        hidden[:, :, 7] = -torch.inf

        def forward(q, k, v, bias, compute_log_sumexp, dropout_p=0.0, is_causal=False, *, scale=None):
            raise AssertionError("PyTorch runs it")

        def backward(*args, **options):
            raise AssertionError("PyTorch runs it")

        def want(q, k, v, bias, is_causal, scale):
            return torch.nn.functional.scaled_dot_product_attention(q, k, v, bias, is_causal=is_causal, scale=scale)

        def got(q, k, v, bias, is_causal, scale):
            return aten._scaled_dot_product_efficient_attention(q, k, v, bias, True, 0.0, is_causal, scale=scale)[0]

        with torch.library._scoped_library("aten", "IMPL") as library:
            library.impl("_scaled_dot_product_efficient_attention", forward, "CPU")
            library.impl("_scaled_dot_product_efficient_attention_backward", backward, "CPU")
            for bias, is_causal, scale in ((None, False, None), (None, True, 0.4), (hidden, False, None)):
                q, k, v = (torch.randn(2, 3, n, 16, requires_grad=True) for n in (40, 24, 24))
                bias = bias if bias is None else bias.clone().requires_grad_()
                leaves = [t for t in (q, k, v, bias) if t is not None]
                both = []
                for f in (want, torch.compile(got, backend=nereid.torch_backend, dynamic=False)):
                    with warnings.catch_warnings():
                        warnings.simplefilter("error", UserWarning)
                        out = f(q, k, v, bias, is_causal, scale)
                    both.append([out, *torch.autograd.grad(out.sin().sum(), leaves)])
                    self.assertFalse(any(t.isnan().any() for t in both[-1]))
                for a, b in zip(*both):
                    torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)

        torch._dynamo.reset()
        with self.assertWarnsRegex(UserWarning, "efficient_attention.default of a number of queries that changes"):
            f = torch.compile(got, backend=nereid.torch_backend, dynamic=True)
            with torch.library._scoped_library("aten", "IMPL") as library, self.assertRaises(AssertionError):
                library.impl("_scaled_dot_product_efficient_attention", forward, "CPU")
                f(*(torch.randn(2, 3, 40, 16) for _ in range(3)), None, False, None)

    def test_rows_that_attend_to_nothing(self):
        keep = torch.rand(1, 1, 5, 7) < 0.5
        keep[..., 2, :] = False
        both = []
        for compiled in (False, True):
            torch.manual_seed(1)
            q, k, v = (torch.randn(1, 2, n, 16, requires_grad=True) for n in (5, 7, 7))
            f = torch.nn.functional.scaled_dot_product_attention
            f = torch.compile(f, backend=nereid.torch_backend) if compiled else f
            out = f(q, k, v, keep)
            both.append([out, *torch.autograd.grad(out.sin().sum(), (q, k, v))])
        self.assertEqual(both[1][0][..., 2, :].abs().max(), 0)
        for a, b in zip(*both):
            torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)

    def test_results_that_are_not_what_the_trace_says(self):
        types = nereid._dynamo.TYPES
        nereid._dynamo.TYPES = {**types, torch.float32: "f64"}
        try:
            self.compiled(lambda x: torch.cos(x) * 3, torch.randn(4, 5),
                          reason="it gives f32[4, 5] here, which the trace calls f64[4, 5]")
        finally:
            nereid._dynamo.TYPES = types

    def test_embedding(self):
        table = torch.nn.Embedding(50, 8, padding_idx=0)
        other, x = copy.deepcopy(table), torch.tensor([[1, 4, 0, 4], [49, 1, 1, 2]])
        f = torch.compile(lambda x: table(x).sin().sum(), backend=nereid.torch_backend)
        with warnings.catch_warnings():
            warnings.simplefilter("error", UserWarning)
            f(x).backward()
        other(x).sin().sum().backward()
        torch.testing.assert_close(table.weight.grad, other.weight.grad)

    def test_random_numbers(self):
        f = torch.compile(lambda x: torch.nn.functional.dropout(x, 0.25) * 1, backend=nereid.torch_backend)
        runs = []
        for seed in (1, 1, 2):
            torch.manual_seed(seed)
            runs.append((f(torch.ones(1000)), f(torch.ones(1000))))
        for i in range(2):
            self.assertTrue(torch.equal(runs[0][i], runs[1][i]))
            self.assertFalse(torch.equal(runs[0][i], runs[2][i]))
        self.assertFalse(torch.equal(*runs[0]))
        x = torch.ones(1000, requires_grad=True)
        y = f(x)
        y.sum().backward()
        self.assertTrue(torch.equal(x.grad, y.detach()))
        self.assertEqual(sorted(set(y.tolist())), [0.0, y.max().item()])

    def test_inductor(self):
        """Inductor's Triton kernels, on the CPU; in processes of their own, since `import triton` changes its meaning.
        Who only says what triton means has them, too."""
        for way in ("nereid.use_in_inductor()", "nereid.use_as_triton()"):
            with self.subTest(way):
                self.check_inductor(way)

    def check_inductor(self, way):
        program = """if True:
            import copy
            import nereid
            WAY
            import torch
            import torch._inductor.config
            torch._inductor.config.cpu_backend = "triton"
            torch._inductor.config.force_disable_caches = True
            torch._inductor.config.compile_threads = 4

            import threading
            from nereid import _inductor
            build, builders = _inductor._build, []

            def watched(load_kernel):
                builders.append(threading.current_thread())
                return build(load_kernel)

            _inductor._build = watched

            def step(f, model, x):
                y = torch.softmax(f(x), -1)
                y.square().sum().backward()
                return [y, *(p.grad for p in model.parameters())]

            model = torch.nn.Sequential(torch.nn.Linear(16, 24), torch.nn.GELU(), torch.nn.LayerNorm(24))
            other, x = copy.deepcopy(model), torch.randn(5, 16)
            for got, want in zip(step(torch.compile(model), model, x), step(other, other, x)):
                torch.testing.assert_close(got, want)
            from torch._inductor.runtime import triton_compat
            assert triton_compat.triton.__name__ == "nereid.triton"
            assert len(builders) > 1 and threading.main_thread() not in builders, builders
        """
        done = subprocess.run([sys.executable, "-c", program.replace("WAY", way)], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr[-3000:])

    def test_kernels_in_graphs(self):
        """A program's own kernels in what torch.compile captures: of the arrays that they get, PyTorch copies what they
        write and no other. PyTorch may be loaded before or after it hears of us."""
        program = """if True:
            import BEFORE
            import nereid
            nereid.use_as_triton()
            import torch, triton, triton.language as tl
            from torch._higher_order_ops import triton_kernel_wrap
            from triton.tools.tensor_descriptor import TensorDescriptor

            @triton.jit
            def put(p, value):
                tl.store(p, value)

            @triton.jit
            def twice(x, y, n, B: tl.constexpr):
                p = x + tl.program_id(0) * B
                for k in range(B):
                    put(y + tl.program_id(0) * B + k, tl.load(p) * 2)
                    p += 1

            @triton.autotune([triton.Config({"B": 32})], key=["n"])
            @triton.heuristics({"EVEN": lambda args: args["n"] % args["B"] == 0})
            @triton.jit
            def tuned(x, y, n, B: tl.constexpr, EVEN: tl.constexpr):
                i = tl.program_id(0) * B + tl.arange(0, B)
                tl.store(y + i, tl.load(x + i, i < n) * 2, None if EVEN else i < n)

            @triton.jit
            def in_place(d, other):
                d.store([0, 0], d.load([0, 0]) + tl.load(other))

            @triton.jit
            def unknown(addresses, y):
                tl.store(tl.load(addresses).to(tl.pointer_type(tl.float32)), tl.load(y))

            def f(x):
                x, y, z = x.sin(), torch.empty_like(x), torch.empty_like(x)
                twice[(x.numel() // 64,)](x, y, x.numel(), 64)
                tuned[lambda meta: (triton.cdiv(x.numel(), meta["B"]),)](y, z, x.numel())
                return z.cos()

            watched, seen = triton_kernel_wrap.identify_mutated_tensors, []

            def watch(kernel, kwargs, descriptors):
                seen.append(watched(kernel, kwargs, descriptors))
                return seen[-1]

            triton_kernel_wrap.identify_mutated_tensors = watch
            x = torch.randn(128)
            for backend in (nereid.torch_backend, "aot_eager"):
                torch._dynamo.reset()
                torch.testing.assert_close(torch.compile(f, backend=backend, fullgraph=True)(x), (x.sin() * 4).cos())
            assert seen and all(names == ["y"] for names in seen), seen
            t = torch.empty(2)
            assert watched(in_place, {"d": t, "other": t}, {"d": ("stable", ([8, 16],))}) == ["d"]
            assert watched(unknown, {"addresses": torch.empty(2, dtype=torch.int64), "y": t}, {}) == ["addresses", "y"]
        """
        with tempfile.TemporaryDirectory() as folder:
            for before in ("sys", "torch._higher_order_ops.triton_kernel_wrap"):
                path = os.path.join(folder, "program.py")
                with open(path, "w") as f:
                    f.write(program.replace("BEFORE", before))
                done = subprocess.run([sys.executable, path], capture_output=True, text=True)
                if before != "sys" and "another package is loaded as triton" in done.stderr:
                    continue  # Triton is there, and PyTorch has loaded it
                self.assertEqual(done.returncode, 0, done.stderr[-3000:])
                self.assertNotIn("every input is mutated", done.stderr)

    def test_kernels_that_dynamo_does_not_know(self):
        """Those of nereid.triton, where `import triton` does not mean it: a graph ends before them, and what tunes and
        compiles them is not traced."""
        @triton.autotune([triton.Config({"B": 32}), triton.Config({"B": 64})], key=["n"])
        @triton.heuristics({"EVEN": lambda args: args["n"] % args["B"] == 0})
        @triton.jit
        def twice(x_ptr, out_ptr, n, B: tl.constexpr, EVEN: tl.constexpr):
            i = tl.program_id(0) * B + tl.arange(0, B)
            tl.store(out_ptr + i, tl.load(x_ptr + i, None if EVEN else i < n) * 2, None if EVEN else i < n)

        def f(x):
            y = torch.empty_like(x)
            twice[lambda meta: (triton.cdiv(x.numel(), meta["B"]),)](x.sin(), y, x.numel())
            return y.cos()

        traced = []

        def backend(gm, inputs):
            traced.extend(n.target for n in gm.graph.nodes if n.op.startswith("call"))
            return nereid.torch_backend(gm, inputs)

        x = torch.randn(100)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compiled = torch.compile(f, backend=backend)
            for _ in range(2):
                torch.testing.assert_close(compiled(x), (x.sin() * 2).cos())
        self.assertEqual(traced, [torch.empty_like, "sin", "cos"])

    def test_inductor_configurations(self):
        """A kernel's configurations are built at once. Results, their order and errors are as one by one, and with one
        thread they are built that way."""
        program = """if True:
            import threading
            import nereid
            nereid.use_in_inductor()
            import torch._inductor.config
            from torch._inductor.runtime import triton_compat
            from torch._inductor.runtime.triton_heuristics import CachingAutotuner, NoTritonConfigsError

            class Kernel(CachingAutotuner):
                def __init__(self, *configs, meeting=None):
                    self.compile_results, self.launchers, self.configs = [], [], list(configs)
                    self.meeting, self.builders = meeting, set()

                def _precompile_config(self, config):
                    self.builders.add(threading.current_thread())
                    if self.meeting:
                        self.meeting.wait(60)  # for the others; one by one it would break
                    if isinstance(config, Exception):
                        raise config
                    return config

            def raised_by(kernel):
                try:
                    kernel._precompile_worker()
                except Exception as e:
                    return e

            too_large = triton_compat.OutOfResources(4, 2, "threads")
            torch._inductor.config.compile_threads = 4
            kernel = Kernel("a", too_large, "b", "c", meeting=threading.Barrier(4))
            assert raised_by(kernel) is None
            assert kernel.compile_results == ["a", "b", "c"] and kernel.configs is None, kernel.compile_results
            kernel.meeting = None
            assert kernel._precompile_config("d") == "d"  # one that is wanted later
            first, second = ValueError("first"), ValueError("second")
            kernel = Kernel(too_large, first, "a", second, meeting=threading.Barrier(4))
            assert raised_by(kernel) is first and kernel.compile_results == []
            assert "Hardware limit: 2" in str(raised_by(Kernel(too_large, too_large)))
            assert isinstance(raised_by(Kernel()), NoTritonConfigsError)
            torch._inductor.config.compile_threads = 1
            kernel = Kernel("a", "b")
            assert raised_by(kernel) is None and kernel.builders == {threading.current_thread()}
        """
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr[-3000:])

    def test_recorded_graphs(self):
        """What the backend launches is in a log, with the kernels' source, for other sizes, too."""
        program = """
            import nereid, torch
            def f(x, w):
                return torch.softmax(torch.nn.functional.gelu(x @ w), -1)
            g = torch.compile(f, backend=nereid.torch_backend, dynamic=True)
            for rows in 64, 64, 48:
                g(torch.randn(rows, 128), torch.randn(128, 96))
        """
        with tempfile.TemporaryDirectory() as folder:
            script, log = os.path.join(folder, "program.py"), os.path.join(folder, "log.jsonl")
            with open(script, "w") as f:
                f.write(textwrap.dedent(program))
            done = subprocess.run([sys.executable, "-m", "nereid.record", "-o", log, "--root", folder, script],
                                  capture_output=True, text=True)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            with open(log) as f:
                rows = [json.loads(line) for line in f]
            self.assertEqual({row["file"].partition("/")[0] for row in rows}, {"log.jsonl.kernels"})
            self.assertEqual({row["args"][0]["shape"][0]: row["count"] for row in rows}, {64: 2, 48: 1})
            self.assertEqual({line for row in rows for line in row["from"]}, {"program.py:3"})  # f, as Dynamo compiled it
            command = os.environ.get("NEREID", os.path.join(os.path.dirname(nereid.__file__), "..", "..", "nereid"))
            if os.path.exists(command):
                done = subprocess.run([command, "replay", log, "--root", folder], capture_output=True, text=True)
                self.assertIn(f"of which {len(rows)} ran and agreed", done.stdout + done.stderr)

    def test_autocast(self):
        layer, x = torch.nn.Linear(16, 16), torch.randn(4, 16)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            got, want = torch.compile(layer, backend=nereid.torch_backend)(x), layer(x)
        self.assertEqual(got.dtype, torch.bfloat16)
        torch.testing.assert_close(got, want)


if __name__ == "__main__":
    unittest.main()
