from __future__ import annotations

import resource

from client_compat.bench.memory import touch

MEGABYTE = 1 << 20


def faults() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt


def test_touched_memory_faults_every_page_and_is_released() -> None:
    before = faults()
    touch(64 * MEGABYTE)
    once = faults()
    touch(64 * MEGABYTE)
    assert once - before > 16  # huge pages of 2 MB make few faults of many pages
    assert faults() - once > 16
