"""Memory that kernels ask for while they run. Nereid's need none of their caller: what is set is kept for programs
that ask for it back."""
from contextvars import ContextVar


class NullAllocator:
    def __call__(self, size, alignment, stream):
        raise RuntimeError("Kernel requires a runtime memory allocation, but no allocator was set. "
                           "Use triton.set_allocator to specify an allocator.")


_NULL_ALLOCATOR = NullAllocator()
_allocator = ContextVar("_allocator", default=_NULL_ALLOCATOR)


def set_allocator(allocator):
    """allocator(size, alignment, stream) returns what has data_ptr()."""
    _allocator.set(allocator)


class _AllocatorWrapper:
    def __init__(self, allocator):
        self._allocator = allocator

    def get(self):
        return self._allocator

    def set(self, allocator):
        self._allocator = allocator

    def __call__(self, size, alignment, stream):
        return self._allocator(size, alignment, stream)


_profile_allocator = _AllocatorWrapper(_NULL_ALLOCATOR)


def set_profile_allocator(allocator):
    _profile_allocator.set(allocator if allocator is not None else _NULL_ALLOCATOR)
