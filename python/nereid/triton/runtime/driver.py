"""Triton's driver: which device is active, its streams, events and target."""
import functools
import time

from ... import _devices, _native
from ..backends import Backend, backends
from ..backends.compiler import GPUTarget
from ..backends.driver import DriverBase


class _HostEvent:
    """An event of a device whose work is done when a launch returns."""

    def __init__(self, enable_timing=False, **kwargs):
        self.at = None

    def record(self, stream=None):
        self.at = time.perf_counter()

    def synchronize(self):
        pass

    def wait(self, stream=None):
        pass

    def query(self):
        return True

    def elapsed_time(self, end):
        return max((end.at - self.at) * 1e3, 1e-6)  # ms; a clock may stand still over a short launch


class _HostInterface:
    """What torch.cuda is of a GPU."""
    Event = _HostEvent

    @staticmethod
    def synchronize(device=None):
        _devices.synchronize()

    @staticmethod
    def current_device():
        return 0

    @staticmethod
    def set_device(device):
        pass

    @staticmethod
    def device_count():
        return 1

    @staticmethod
    def is_available():
        return True


class _Utils:
    def get_device_properties(self, device=0):
        name = driver.active.device_name()
        info = _info(name)
        found = {"max_shared_mem": 0, "max_num_regs": 65536, "multiprocessor_count": info.get("multiprocessors") or
                 info.get("threads", 1), "warpSize": 32, "sm_clock_rate": 0, "mem_clock_rate": 0, "mem_bus_width": 0}
        if name.startswith("cuda"):
            import torch
            p = torch.cuda.get_device_properties(device)
            found.update(max_shared_mem=getattr(p, "shared_memory_per_block_optin", 232448),
                         multiprocessor_count=p.multi_processor_count,
                         max_num_regs=getattr(p, "regs_per_multiprocessor", 65536))
        else:
            found["max_shared_mem"] = 1 << 30
        return found


@functools.lru_cache(maxsize=None)
def _info(name):
    """What the library knows of a device."""
    return next((d for d in _native.devices() if d["name"] == name), {})


class Driver(DriverBase):
    """On a machine with a GPU it is the GPU's; else the CPU's."""

    def __init__(self):
        self.utils = _Utils()

    def device_name(self):
        return _devices.default_device()

    def is_active(self):
        return True

    def get_current_device(self):
        return _devices.current_cuda() if self.device_name().startswith("cuda") else 0

    def set_current_device(self, device):
        self.get_device_interface().set_device(device)

    def get_current_stream(self, device=None):
        if not self.device_name().startswith("cuda"):
            return 0
        return _devices.current_stream(self.get_current_device() if device is None else device)

    def get_current_target(self):
        name = self.device_name()
        if name.startswith("cuda"):
            return GPUTarget("cuda", _info(name).get("compute_capability") or 90, 32)
        if name.startswith("sim"):
            digits = "".join(c for c in name.partition(":")[2] if c.isdigit())
            return GPUTarget("cuda", int(digits or 90), 32)
        return GPUTarget("cpu", 0, 1)

    def get_active_torch_device(self):
        import torch
        if self.device_name().startswith("cuda"):
            return torch.device("cuda", self.get_current_device())
        return torch.device("cpu")

    def get_device_interface(self):
        if self.device_name().startswith("cuda"):
            import torch
            return torch.cuda
        return _HostInterface

    def get_benchmarker(self):
        from ..testing import do_bench
        return do_bench

    def get_empty_cache_for_benchmark(self):
        """An array larger than the device's caches."""
        if self.device_name().startswith("cuda"):
            import torch
            return torch.empty(256 * 1024 * 1024 // 4, dtype=torch.int, device="cuda")
        return bytearray(32 * 1024 * 1024)

    def clear_cache(self, cache):
        if hasattr(cache, "zero_"):
            cache.zero_()
        else:
            cache[:] = bytes(len(cache))

    def assemble_tensormap_to_arg(self, tensormaps_info, args):
        return args


class CPUDriver(Driver):
    """The host's, also where there is a GPU."""

    def device_name(self):
        name = super().device_name()
        return "cpu" if name.startswith("cuda") else name

    @staticmethod
    def is_active():
        return True


class CudaDriver(Driver):
    def device_name(self):
        name = super().device_name()
        return name if name.startswith("cuda") else "cuda:0"

    @staticmethod
    def is_active():
        return any(d["name"].startswith("cuda") and d["available"] for d in _native.devices())


backends.update(cpu=Backend(CPUDriver), nvidia=Backend(CudaDriver))


class DriverConfig:
    def __init__(self):
        self._default = self._active = None

    @property
    def default(self):
        if self._default is None:
            self._default = Driver()
        return self._default

    @property
    def active(self):
        if self._active is None:
            self._active = self.default
        return self._active

    def set_active(self, driver):
        self._active = driver

    def reset_active(self):
        self._active = self.default


driver = DriverConfig()
