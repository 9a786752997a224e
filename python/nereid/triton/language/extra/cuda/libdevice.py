"""triton.language.extra.cuda.libdevice: functions of CUDA's math library."""
from ...core import functions_of

globals().update(functions_of("triton.language.extra.cuda.libdevice"))
