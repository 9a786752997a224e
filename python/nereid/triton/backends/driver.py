"""The base class of drivers."""


class DriverBase:
    @classmethod
    def is_active(cls):
        return False


class GPUDriver(DriverBase):
    pass
