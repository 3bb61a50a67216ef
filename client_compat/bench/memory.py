"""Allocates physical memory before a case that writes a lot, so that no broker is slowed down because the machine has to get memory from
its host.

A virtual machine often gets its memory from the host page by page on first access, and returns free memory. 1 MB of page cache then costs 3
ms in new pages instead of 0.2 ms, so the order of the brokers would decide the comparison. Touching memory first gives each broker pages
that the machine already has.
"""

from __future__ import annotations

import mmap

_PAGE_BYTES = mmap.PAGESIZE


def touch(size_bytes: int) -> None:
    """Allocate this much memory, write to each page, and free it."""
    with mmap.mmap(-1, size_bytes) as memory:
        for position in range(0, size_bytes, _PAGE_BYTES):
            memory[position] = 1
