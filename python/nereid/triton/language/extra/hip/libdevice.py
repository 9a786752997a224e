"""triton.language.extra.hip.libdevice: the names that CUDA has, too."""
from ...core import functions_of

globals().update(functions_of("triton.language.extra.cuda.libdevice"))
