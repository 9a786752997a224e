"""autotune and heuristics: which configuration a launch takes, as Triton has it: measured at the first launch of each
kind by the functions of this process, on its own arrays."""
import builtins
import hashlib
import inspect
import json
import time
from functools import cached_property

from .. import knobs
from .driver import driver
from .errors import AutotunerError, OutOfResources, PTXASError
from .jit import JITFunction, KernelInterface


class Config:
    """One configuration: what it gives to parameters, and its options."""

    def __init__(self, kwargs, num_warps=4, num_stages=3, num_ctas=1, maxnreg=None, pre_hook=None, ir_override=None):
        self.kwargs = kwargs
        self.num_warps, self.num_ctas, self.num_stages = num_warps, num_ctas, num_stages
        self.maxnreg, self.pre_hook, self.ir_override = maxnreg, pre_hook, ir_override

    def __setstate__(self, state):
        self.__init__(state.get("kwargs", {}), **{k: v for k, v in state.items() if k != "kwargs"})

    def all_kwargs(self):
        options = {k: getattr(self, k) for k in ("num_warps", "num_ctas", "num_stages", "maxnreg", "ir_override")}
        return {**self.kwargs, **{k: v for k, v in options.items() if v is not None}}

    def __str__(self):
        shown = {**self.kwargs, "num_warps": self.num_warps, "num_ctas": self.num_ctas,
                 "num_stages": self.num_stages, "maxnreg": self.maxnreg}
        return ", ".join(f"{k}: {v}" for k, v in shown.items())

    def _key(self):
        return (*self.all_kwargs().items(), self.pre_hook)

    def __hash__(self):
        return hash(self._key())

    def __eq__(self, other):
        return isinstance(other, Config) and self._key() == other._key()


def _innermost(fn):
    while not isinstance(fn, JITFunction) and hasattr(fn, "fn"):
        fn = fn.fn
    return fn


class Autotuner(KernelInterface):
    def __init__(self, fn, arg_names, configs, key, reset_to_zero, restore_value, pre_hook=None, post_hook=None,
                 prune_configs_by=None, warmup=None, rep=None, use_cuda_graph=False, do_bench=None,
                 cache_results=False):
        self.fn = fn
        self.base_fn = fn
        while not inspect.isfunction(self.base_fn):
            self.base_fn = self.base_fn.fn
        self.arg_names = arg_names
        self.configs = configs or [Config({}, num_warps=4, num_stages=3, num_ctas=1)]
        self.keys = key
        self.cache = {}
        self.cache_results = cache_results or knobs.autotuning.cache
        self.reset_to_zero = list(reset_to_zero or [])
        self.restore_value = list(restore_value or [])
        self.restore_copies = {}
        self.pre_hook, self.user_defined_pre_hook = pre_hook or self._reset, pre_hook is not None
        self.post_hook, self.user_defined_post_hook = post_hook or self._restore, post_hook is not None
        prune = prune_configs_by or {}
        self.perf_model = prune.get("perf_model")
        self.configs_top_k = prune.get("top_k", 1.0)
        self.early_config_prune = prune.get("early_config_prune")
        self.num_warmups, self.num_reps, self.use_cuda_graph = warmup, rep, use_cuda_graph
        self._do_bench = do_bench
        self.nargs = None
        if warmup is not None or rep is not None or use_cuda_graph:
            self._old_bench(warmup, rep, use_cuda_graph)

    def _old_bench(self, warmup, rep, use_cuda_graph):
        import warnings

        from .. import testing
        warnings.warn("warmup, rep, and use_cuda_graph parameters are deprecated: pass do_bench", DeprecationWarning,
                      stacklevel=1)
        rep = 100 if rep is None else rep
        if use_cuda_graph:
            self._do_bench = lambda call, quantiles: testing.do_bench_cudagraph(call, rep=rep, quantiles=quantiles)
        else:
            warmup = 25 if warmup is None else warmup
            self._do_bench = lambda call, quantiles: testing.do_bench(call, warmup=warmup, rep=rep,
                                                                      quantiles=quantiles)

    def _reset(self, kwargs, reset_only=False):
        for name in self.reset_to_zero:
            kwargs[name].zero_()
        if not reset_only:
            self.restore_copies = {name: kwargs[name].clone() for name in self.restore_value}

    def _restore(self, kwargs, exception):
        for name in self.restore_value:
            kwargs[name].copy_(self.restore_copies[name])
        self.restore_copies = {}

    @cached_property
    def do_bench(self):
        return driver.active.get_benchmarker() if self._do_bench is None else self._do_bench

    def _bench(self, *args, config, **meta):
        from ..compiler.errors import CompileTimeAssertionFailure
        twice = sorted(set(meta) & set(config.kwargs))
        if twice:
            raise ValueError(f"Conflicting meta-parameters: {', '.join(twice)}. Make sure that you don't re-define "
                             "auto-tuned symbols.")
        if knobs.autotuning.print:
            print(f"Autotuning kernel {self.base_fn.__name__} with config {config}")
        options = {**meta, **config.all_kwargs()}
        named = {**self.nargs, **options}

        def attempt():
            for hook in (config.pre_hook, self.pre_hook):
                if hook:
                    hook(named)
            raised = None
            try:
                self.fn.run(*args, **options)
            except Exception as e:
                raised = e
                raise
            finally:
                self._after(named, raised)

        try:
            return self.do_bench(attempt, quantiles=(0.5, 0.2, 0.8))
        except (OutOfResources, CompileTimeAssertionFailure, PTXASError) as e:
            if knobs.autotuning.print:
                print(f"Autotuning failed with {e}")
            return [float("inf")] * 3

    def _after(self, named, raised):
        try:
            self.post_hook(named, exception=raised)
        except Exception:
            if raised is None:  # else that is the one to tell of
                raise

    def check_disk_cache(self, tuning_key, configs, bench_fn):
        """Takes the timings from the cache's folder, or measures and puts them there. Hooks cannot be kept."""
        from ..compiler.compiler import make_backend
        from .cache import get_cache_manager, triton_key
        if not tuning_key or any(c.pre_hook for c in configs):
            bench_fn()
            return False
        fn = _innermost(self.fn)
        backend = make_backend(driver.active.get_current_target())
        text = "-".join([triton_key(), backend.hash(), fn.cache_key, str(tuning_key), *map(str, configs)])
        manager = get_cache_manager(hashlib.sha256(text.encode()).hexdigest())
        name = f"{fn.__name__[:150]}.autotune.json"
        path = manager.get_file(name)
        if path:
            with open(path) as f:
                rows = json.load(f)["configs_timings"]
            self.configs_timings = {Config(**config): timing for config, timing in rows}
            self.cache[tuning_key] = builtins.min(self.configs_timings, key=self.configs_timings.get)
            return True
        bench_fn()
        rows = [(config.__dict__, timing) for config, timing in self.configs_timings.items()]
        manager.put(json.dumps({"key": tuning_key, "configs_timings": rows}), name, binary=False)
        return False

    def _tuning_key(self, kwargs):
        given = {k: v for k, v in {**self.nargs, **kwargs}.items() if k in self.arg_names}
        key = [given[k] for k in self.keys if k in given]
        key += [str(a.dtype) for a in given.values() if hasattr(a, "dtype")]
        return tuple(key)

    def _choose(self, args, kwargs):
        """The configuration, and whether it was measured now."""
        if len(self.configs) == 1:
            return self.configs[0], None, False
        key = self._tuning_key(kwargs)
        measured = False
        if key not in self.cache:
            configs = self.prune_configs(kwargs)

            def benchmark():
                start = time.time()
                timings = {c: self._bench(*args, config=c, **kwargs) for c in configs}
                self.bench_time = time.time() - start
                self.cache[key] = builtins.min(timings, key=timings.get)
                self.pre_hook({**self.nargs, **kwargs, **self.cache[key].all_kwargs()}, reset_only=True)
                self.configs_timings = timings

            if self.cache_results:
                measured = not self.check_disk_cache(key, configs, benchmark)
            else:
                benchmark()
                measured = True
        return self.cache[key], key, measured

    def run(self, *args, **kwargs):
        self.nargs = dict(zip(self.arg_names, args))
        config, key, measured = self._choose(args, kwargs)
        self.best_config = config
        if knobs.autotuning.print and measured:
            print(f"Triton autotuning for function {self.base_fn.__name__},\nwith key as {key},\n"
                  f"finished after {self.bench_time:.2f}s,\nbest config selected: {self.best_config};")
        if config.pre_hook is not None:
            config.pre_hook({**self.nargs, **kwargs, **config.all_kwargs()})
        result = self.fn.run(*args, **kwargs, **config.all_kwargs())
        self.nargs = None
        return result

    def prune_configs(self, kwargs):
        configs = self.configs
        if self.early_config_prune:
            configs = self.early_config_prune(self.configs, self.nargs, **kwargs)
            if not configs:
                raise AutotunerError("No valid autotuner configs after pruning. `early_config_prune` should return "
                                     "at least one config.")
        if not self.perf_model:
            return configs
        share = self.configs_top_k
        if type(share) is float and share <= 1.0:
            share = int(share * len(self.configs))
        if not isinstance(share, int):
            raise TypeError("Error while pruning configs, top_k must be either 1) a float <= 1.0 or 2) an int")
        if len(configs) <= share:
            return configs
        return sorted(configs, key=lambda c: self.perf_model(**{**self.nargs, **kwargs, **c.all_kwargs()}))[:share]

    def warmup(self, *args, **kwargs):
        self.nargs = dict(zip(self.arg_names, args))
        kernels = [self.fn.warmup(*args, **kwargs, **c.all_kwargs()) for c in self.prune_configs(kwargs)]
        self.nargs = None
        return kernels


class Heuristics(KernelInterface):
    def __init__(self, fn, arg_names, values):
        self.fn, self.values, self.arg_names = fn, values, arg_names

    def _filled(self, args, kwargs):
        for name, value_of in self.values.items():
            kwargs[name] = value_of({**dict(zip(self.arg_names, args)), **kwargs})
        return kwargs

    def run(self, *args, **kwargs):
        return self.fn.run(*args, **self._filled(args, kwargs))


def autotune(configs, key, prune_configs_by=None, reset_to_zero=None, restore_value=None, pre_hook=None,
             post_hook=None, warmup=None, rep=None, use_cuda_graph=False, do_bench=None, cache_results=False):
    """Tries all configurations at the first launch for each value of the arguments that `key` names, and for each
    choice of element types; later launches take the fastest.

    reset_to_zero, restore_value: arrays, by name, that are zeroed before, or given back after each try.
    prune_configs_by: {"early_config_prune": f(configs, named_args, **kwargs), "perf_model": f(**all), "top_k": k}.
    pre_hook(kwargs, reset_only), post_hook(kwargs, exception): around each try, instead of the two above.
    do_bench(fn, quantiles): what measures. cache_results: keep the timings on disk."""

    rest = {"pre_hook": pre_hook, "post_hook": post_hook, "prune_configs_by": prune_configs_by, "warmup": warmup,
            "rep": rep, "use_cuda_graph": use_cuda_graph, "do_bench": do_bench, "cache_results": cache_results}
    return lambda fn: Autotuner(fn, fn.arg_names, configs, key, reset_to_zero, restore_value, **rest)


def heuristics(values):
    """Parameters whose values functions of the arguments give: {"EVEN": lambda args: args["n"] % 1024 == 0}."""
    return lambda fn: Heuristics(fn, fn.arg_names, values)
