"""Raising the limit of open files, each test in a separate process."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such limit")


def in_a_process_with(soft: int, hard: int, code: str) -> str:
    limit = f"import resource; resource.setrlimit(resource.RLIMIT_NOFILE, ({soft}, {hard}))"
    script = f"{limit}; from ottla.broker.core.descriptors import *; {code}"
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=30).stdout.strip()


def test_the_soft_limit_is_raised_as_far_as_permitted() -> None:
    assert in_a_process_with(256, 3000, "print(max_open_files(), allow_open_files(), max_open_files())") == "256 3000 3000"


def test_a_limit_that_cannot_be_raised_is_unchanged() -> None:
    assert in_a_process_with(300, 300, "print(allow_open_files())") == "300"


def test_connections_and_segments_leave_descriptors_for_other_files() -> None:
    assert in_a_process_with(3000, 3000, "print(max_open_segments(), max_connections())") == "375 1500"
    assert in_a_process_with(256, 256, "print(max_open_segments(), max_connections())") == "32 128"
