"""Triton's back ends, as far as programs ask for them."""
from .compiler import BaseBackend, GPUTarget
from .driver import DriverBase



class Backend:
    def __init__(self, driver):
        self.driver = driver


backends = {}  # by name; runtime/driver.py has the drivers
