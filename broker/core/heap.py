"""How the C allocator treats the buffers of large requests and responses.

A fetch reads up to a megabyte a partition, and frees it a moment later. glibc, left alone, gives such memory back to the kernel at once and
asks for it again for the next read, and the kernel clears every page of it each time: measured, that was more than half of the processor
time of consuming 1-KB records from six partitions. So freed memory is kept, up to a bound.
"""

from __future__ import annotations

import sys

from ottla.broker.core import limits

M_TRIM_THRESHOLD = -1
M_MMAP_THRESHOLD = -3
"""The parameters' numbers in glibc's malloc.h."""


def keep_freed_memory() -> bool:
    """Tell glibc to keep freed memory for the next buffer; false where the C library is another one, which is left as it is.

    For a process that is a broker and nothing else: it counts for all that the process allocates.
    """
    if sys.platform != "linux":
        return False
    import ctypes  # noqa: PLC0415 # only where it is used

    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    kept: list[bool] = [
        bool(mallopt(M_MMAP_THRESHOLD, limits.HEAP_ALLOCATION_BYTES)),
        bool(mallopt(M_TRIM_THRESHOLD, limits.HEAP_KEPT_BYTES)),
    ]
    return all(kept)
