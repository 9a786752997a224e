"""triton.language.extra.cuda"""
from . import libdevice
from ...core import functions_of

globals().update(functions_of("triton.language.extra.cuda"))
