"""glibc malloc parameters for a process that runs a broker: for the buffers of large requests and responses, and for a long life.

A fetch reads up to 1 MiB from each partition and frees it a moment later. By default glibc returns such memory to the kernel at once and
requests it again for the next read, and the kernel zeroes every page each time. This took more than half of the processor time when six
partitions with 1-KB records were consumed. Therefore freed memory is kept, up to a bound.

By default glibc also gives each thread an arena of its own, and an arena shrinks only at its end. In a simulated week (`make soak`) the
threads of restarted nodes kept 5 of 60 MiB in such arenas. Python's threads allocate one at a time anyway, so one arena serves them all.
"""

from __future__ import annotations

import sys

from ottla.broker.core import limits

M_TRIM_THRESHOLD = -1
"""The number by which glibc's malloc.h names a parameter of malloc: how much freed memory is kept at the top of the heap."""
M_MMAP_THRESHOLD = -3
"""The number by which glibc's malloc.h names a parameter of malloc: the size from which an allocation is mapped separately."""
M_ARENA_MAX = -8
"""The number by which glibc's malloc.h names a parameter of malloc: the greatest number of arenas."""


def configure_malloc() -> bool:
    """Make glibc keep freed memory for later buffers, and give new threads no arenas of their own.

    Return False, and change nothing, if the C library is not glibc. The parameters apply to the whole process, so only a process that runs
    nothing but brokers may call this.
    """
    if sys.platform != "linux":
        return False
    import ctypes  # noqa: PLC0415 # imported only where it is used

    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    done: list[bool] = [
        bool(mallopt(M_MMAP_THRESHOLD, limits.HEAP_ALLOCATION_BYTES)),
        bool(mallopt(M_TRIM_THRESHOLD, limits.HEAP_KEPT_BYTES)),
        bool(mallopt(M_ARENA_MAX, 1)),
    ]
    return all(done)
