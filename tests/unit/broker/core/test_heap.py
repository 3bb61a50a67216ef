"""What `configure_malloc` changes, in a separate process: its page faults and its arenas are counted."""

from __future__ import annotations

import subprocess
import sys

import pytest

LARGE_BUFFERS = """
import resource
from ottla.broker.core.heap import configure_malloc
kept = {call}
for _ in range(20):
    buffers = [b"x" * (1 << 20) for _ in range(6)]
    del buffers
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(20):
    buffers = [b"x" * (1 << 20) for _ in range(6)]
    del buffers
print(kept, resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""

THREADS = """
import ctypes
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from ottla.broker.core.heap import configure_malloc
configured = {call}
together = Barrier(4)
with ThreadPoolExecutor(4) as pool:
    blocks = list(pool.map(lambda _: (together.wait(), b"x" * 10_000), range(4)))
ctypes.CDLL(None).malloc_stats()
print(configured)
"""


def arenas(call: str) -> tuple[bool, int]:
    done = subprocess.run([sys.executable, "-c", THREADS.format(call=call)], capture_output=True, text=True, check=True)
    return done.stdout.strip() == "True", done.stderr.count("Arena ")


def faults(call: str) -> tuple[bool, int]:
    done = subprocess.run([sys.executable, "-c", LARGE_BUFFERS.format(call=call)], capture_output=True, text=True, check=True)
    kept, count = done.stdout.split()
    return kept == "True", int(count)


def test_large_buffers_reuse_freed_memory() -> None:
    kept, with_it = faults("configure_malloc()")
    if not kept:
        pytest.skip("the C library here is not glibc, and is left as it is")
    _, without = faults("False")
    assert with_it < 1_000 < without, "twenty times six MiB are 30,720 pages"


def test_threads_share_one_arena() -> None:
    configured, with_it = arenas("configure_malloc()")
    if not configured:
        pytest.skip("the C library here is not glibc, and is left as it is")
    _, without = arenas("False")
    assert with_it == 1 < without
