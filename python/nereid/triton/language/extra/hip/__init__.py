"""triton.language.extra.hip: AMD's GPUs are not among Nereid's devices; its libdevice names are CUDA's."""
from . import libdevice
