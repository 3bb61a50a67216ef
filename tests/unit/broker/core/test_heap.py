"""Freed memory is reused for the next large buffer: a separate process counts its page faults."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import resource
from ottla.broker.core.heap import keep_freed_memory
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


def faults(call: str) -> tuple[bool, int]:
    done = subprocess.run([sys.executable, "-c", PROGRAM.format(call=call)], capture_output=True, text=True, check=True)
    kept, count = done.stdout.split()
    return kept == "True", int(count)


def test_large_buffers_reuse_freed_memory() -> None:
    kept, with_it = faults("keep_freed_memory()")
    if not kept:
        pytest.skip("the C library here is not glibc, and is left as it is")
    _, without = faults("False")
    assert with_it < 1_000 < without, "twenty times six MiB are 30,720 pages"
