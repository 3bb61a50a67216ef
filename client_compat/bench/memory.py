"""Memory that the machine really has, before a case writes into it.

A virtual machine often gets its memory from the host page by page, on first touch, and gives back what is free: then 1 MB of page cache
costs 3 ms where nobody was before and 0.2 ms where somebody was, fifteen times as much, and a comparison of brokers that write becomes one
of who came first. So each broker finds pages that were touched a moment ago.
"""

from __future__ import annotations

import mmap

_PAGE_BYTES = mmap.PAGESIZE


def touch(size_bytes: int) -> None:
    """Take that much memory, write to each of its pages, and let it go."""
    with mmap.mmap(-1, size_bytes) as memory:
        for position in range(0, size_bytes, _PAGE_BYTES):
            memory[position] = 1
