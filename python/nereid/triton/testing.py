"""Measuring and comparing, as Triton's programs do it."""
import contextlib
import functools
import math
import os
import statistics
import subprocess

from . import runtime


def nvsmi(attrs):
    said = subprocess.check_output(["nvidia-smi", "-i", "0", f"--query-gpu={','.join(attrs)}",
                                    "--format=csv,noheader,nounits"], text=True)
    return [int(x) for x in said.split(",")]


# ---- times ----------------------------------------------------------------------------------------------------------

def _quantile(a, q):
    a = sorted(a)

    def one(q):
        if not 0 <= q <= 1:
            raise ValueError("Quantiles must be in the range [0, 1]")
        at = q * (len(a) - 1)
        below, above = math.floor(at), math.ceil(at)
        return a[below] + (at - below) * (a[above] - a[below])

    return [one(x) for x in q]


_MODES = {"min": min, "max": max, "mean": statistics.mean, "median": statistics.median, "all": lambda times: times}


def _summarize_statistics(times, quantiles, return_mode):
    if quantiles is None:
        return _MODES[return_mode](times)
    found = _quantile(times, quantiles)
    return found[0] if len(found) == 1 else found


def _forget_gradients(tensors):
    for x in tensors or ():
        x.grad = None


def do_bench_cudagraph(fn, rep=20, grad_to_none=None, quantiles=None, return_mode="mean"):
    """Milliseconds of fn, replayed from a CUDA graph of as many calls as take `rep` ms. On a device without graphs as
    do_bench."""
    assert return_mode in _MODES
    if not runtime.driver.active.device_name().startswith("cuda"):
        return do_bench(fn, rep=rep, grad_to_none=grad_to_none, quantiles=quantiles, return_mode=return_mode)
    import torch

    with torch.cuda.stream(torch.cuda.Stream()):
        fn()
        for x in grad_to_none or ():
            x.detach_()
            x.requires_grad_(True)
            x.grad = None
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)

        def timed(call):
            start.record()
            call()
            end.record()
            torch.cuda.synchronize()
            return start.elapsed_time(end)

        estimate = timed(lambda: [fn() for _ in range(5)]) / 5
        count = max(1, int(rep / estimate)) if estimate else 1000
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for _ in range(count):
                _forget_gradients(grad_to_none)
                fn()
        torch.cuda.synchronize()
        return _summarize_statistics([timed(graph.replay) / count for _ in range(10)], quantiles, return_mode)


def do_bench(fn, warmup=25, rep=100, grad_to_none=None, quantiles=None, return_mode="mean"):
    """Milliseconds of fn: calls are made for `warmup` ms, then measured one by one for `rep` ms, the caches emptied
    before each. quantiles: those of the times; else their mean, or what return_mode says."""
    assert return_mode in _MODES
    active = runtime.driver.active
    interface = active.get_device_interface()
    fn()
    interface.synchronize()
    cache = active.get_empty_cache_for_benchmark()
    start, end = interface.Event(enable_timing=True), interface.Event(enable_timing=True)
    start.record()
    for _ in range(5):
        active.clear_cache(cache)
        fn()
    end.record()
    interface.synchronize()
    estimate = start.elapsed_time(end) / 5
    count = max(1, int(rep / estimate))
    pairs = [(interface.Event(enable_timing=True), interface.Event(enable_timing=True)) for _ in range(count)]
    for _ in range(max(1, int(warmup / estimate))):
        fn()
    for start, end in pairs:
        _forget_gradients(grad_to_none)
        active.clear_cache(cache)
        start.record()
        fn()
        end.record()
    interface.synchronize()
    return _summarize_statistics([s.elapsed_time(e) for s, e in pairs], quantiles, return_mode)


# ---- comparing ------------------------------------------------------------------------------------------------------

def assert_close(x, y, atol=None, rtol=None, err_msg=""):
    """An AssertionError unless x and y are alike to atol (default 0.01) and rtol (0); both may be functions of the
    dtype."""
    import numpy as np
    import torch

    def arrays(v, dtype_of):
        v = v if isinstance(v, torch.Tensor) else torch.tensor(v)
        dtype_of.append(v.dtype)
        return (v.float() if v.dtype == torch.bfloat16 else v).cpu().detach().numpy()

    types = []
    x, y = arrays(x, types), arrays(y, types)
    atol = 1e-2 if atol is None else atol
    rtol = 0.0 if rtol is None else rtol
    atol = atol(types[0]) if callable(atol) else atol
    rtol = rtol(types[0]) if callable(rtol) else rtol
    if x.size > 1 or y.size > 1:
        np.testing.assert_allclose(x, y, atol=atol, rtol=rtol, equal_nan=True)
    elif not np.allclose(x, y, atol=atol, rtol=rtol):
        raise AssertionError(f"{err_msg} {x} is not close to {y} (atol={atol}, rtol={rtol})")


# ---- plots ----------------------------------------------------------------------------------------------------------

class Benchmark:
    """One plot of perf_report: x_names get the values x_vals, line_arg each of line_vals, args stay as they are."""

    def __init__(self, x_names, x_vals, line_arg, line_vals, line_names, plot_name, args, xlabel="", ylabel="",
                 x_log=False, y_log=False, styles=None):
        self.x_names, self.x_vals, self.x_log, self.y_log = x_names, x_vals, x_log, y_log
        self.line_arg, self.line_vals, self.line_names, self.styles = line_arg, line_vals, line_names, styles
        self.xlabel, self.ylabel, self.plot_name, self.args = xlabel, ylabel, plot_name, args


class _Table:
    """Rows of figures where pandas is not: to_string and to_csv alone."""

    def __init__(self, columns, rows):
        self.columns, self.rows = columns, rows

    def to_string(self):
        cells = [["", *self.columns], *([str(i), *map(str, row)] for i, row in enumerate(self.rows))]
        widths = [max(len(row[i]) for row in cells) for i in range(len(cells[0]))]
        return "\n".join("  ".join(c.rjust(w) for c, w in zip(row, widths)) for row in cells)

    def to_csv(self, path, float_format="%.6f", index=False):
        with open(path, "w") as f:
            for row in [self.columns, *self.rows]:
                f.write(",".join(float_format % c if isinstance(c, float) else str(c) for c in row) + "\n")


class Mark:
    """What perf_report makes of a function: run() measures and shows."""

    def __init__(self, fn, benchmarks):
        self.fn, self.benchmarks = fn, benchmarks

    def _measure(self, bench, kwargs):
        rows = []
        for x in bench.x_vals:
            x = x if isinstance(x, (list, tuple)) else [x] * len(bench.x_names)
            if len(x) != len(bench.x_names):
                raise ValueError(f"Expected {len(bench.x_names)} values, got {x}")
            found = []
            for line in bench.line_vals:
                got = self.fn(**dict(zip(bench.x_names, x)), **{bench.line_arg: line}, **bench.args, **kwargs)
                found.append(tuple(got) if isinstance(got, (tuple, list)) else (got, None, None))
            rows.append((list(x), found))
        return rows

    @staticmethod
    def _plot(bench, rows, show_plots, save_path):
        try:
            import matplotlib.pyplot as plt
        except ImportError:
            return
        plt.figure()
        ax = plt.subplot()
        xs = [x[0] for x, _ in rows]
        for i, name in enumerate(bench.line_names):
            color, style = bench.styles[i] if bench.styles else (None, None)
            mean, low, high = zip(*(found[i] for _, found in rows))
            ax.plot(xs, mean, label=f"{name} ({bench.ylabel})", color=color, ls=style)
            if None not in low and None not in high:
                ax.fill_between(xs, low, high, alpha=0.15, color=color)
        scale = {False: "linear", True: "log"}
        ax.set(xlabel=bench.xlabel or bench.x_names[0], ylabel=bench.ylabel, xscale=scale[bool(bench.x_log)],
               yscale=scale[bool(bench.y_log)])
        ax.legend()
        if save_path:
            plt.savefig(os.path.join(save_path, f"{bench.plot_name}.png"))
        if show_plots:
            plt.show()

    def _run(self, bench, save_path, show_plots, print_data, diff_col=False, save_precision=6, **kwargs):
        rows = self._measure(bench, kwargs)
        if bench.plot_name:
            self._plot(bench, rows, show_plots, save_path)
        columns = [*bench.x_names, *(f"{n} ({bench.ylabel})" for n in bench.line_names)]
        figures = [[*x, *(f[0] for f in found)] for x, found in rows]
        try:
            import pandas
            table = pandas.DataFrame(figures, columns=columns)
            if diff_col and table.shape[1] == 2:
                table["Diff"] = table[columns[1]] - table[columns[0]]
        except ImportError:
            table = _Table(columns, figures)
        if print_data:
            print(bench.plot_name + ":")
            print(table.to_string())
        if save_path:
            table.to_csv(os.path.join(save_path, f"{bench.plot_name}.csv"), float_format=f"%.{save_precision}f",
                         index=False)
        return table

    def run(self, show_plots=False, print_data=False, save_path="", return_df=False, **kwargs):
        single = isinstance(self.benchmarks, Benchmark)
        benchmarks = [self.benchmarks] if single else self.benchmarks
        if save_path:
            os.makedirs(save_path, exist_ok=True)
        tables = []
        try:
            for bench in benchmarks:
                tables.append(self._run(bench, save_path, show_plots, print_data, **kwargs))
        finally:
            if save_path:
                with open(os.path.join(save_path, "results.html"), "w") as html:
                    html.write("<html><body>\n")
                    html.writelines(f'<image src="{b.plot_name}.png"/>\n' for b in benchmarks[:len(tables)])
                    html.write("</body></html>\n")
        return (tables[0] if single else tables) if return_df else None


def perf_report(benchmarks):
    """A decorator: the function's run() makes these plots and tables."""
    return lambda fn: Mark(fn, benchmarks)


# ---- what a GPU can do ----------------------------------------------------------------------------------------------

def get_dram_gbps(device=None):
    properties = runtime.driver.active.utils.get_device_properties(device or 0)
    return properties["mem_clock_rate"] * properties["mem_bus_width"] * 2 / 1e6 / 8


def _tflops(dtype, clock_rate, device, per_core):
    import torch
    device = torch.cuda.current_device() if not device else device
    cores = runtime.driver.active.utils.get_device_properties(device)["multiprocessor_count"] * 4
    if dtype not in per_core:
        raise RuntimeError("dtype not supported")
    return cores * clock_rate * per_core[dtype] * 1e-9


def get_max_tensorcore_tflops(dtype, clock_rate, device=None):
    import torch
    from . import language as tl
    return _tflops(dtype, clock_rate, device, {torch.float32: 256, torch.int32: 256, torch.float16: 512,
                                               torch.bfloat16: 512, torch.int16: 512, torch.int8: 1024,
                                               tl.float8e4nv: 1024, tl.float8e4b15: 1024, tl.float8e5: 1024})


def get_max_simd_tflops(dtype, clock_rate, device=None):
    import torch
    return _tflops(dtype, clock_rate, device, {torch.float32: 32, torch.float16: 64, torch.bfloat16: 64})


def cuda_memcheck(**target_kwargs):
    """Kept for programs that use it: the device `interp` checks every access (NEREID_DEVICE=interp)."""
    def decorator(test_fn):
        @functools.wraps(test_fn)
        def wrapper(*args, **kwargs):
            return test_fn(*args, **kwargs)
        return wrapper
    return decorator


@contextlib.contextmanager
def set_gpu_clock(ref_sm_clock=1350, ref_mem_clock=1215):
    """Locks the GPU's clocks within; needs the right to."""
    run = subprocess.check_output
    try:
        run(["nvidia-smi", "-i", "0", "-pm", "1"])
        run(["nvidia-smi", "-i", "0", f"--lock-gpu-clocks={ref_sm_clock},{ref_sm_clock}"])
        run(["nvidia-smi", "-i", "0", f"--lock-memory-clocks={ref_mem_clock},{ref_mem_clock}"])
        yield 1e-6 * 2 * 108 * 4 * 256 * ref_sm_clock, 640 * 2 * ref_mem_clock * 1e-3
    finally:
        for option in (["-pm", "0"], ["-rgc"], ["-rmc"]):
            run(["nvidia-smi", "-i", "0", *option])
