"""Apache Kafka's jars for tests, which Maven downloads once. If they cannot be had, the test is skipped with the reason."""

from __future__ import annotations

from pathlib import Path

import pytest

from client_compat.kafka.jars import KafkaMissing, jars


def jars_or_skip() -> Path:
    """Return the directory of the reference version's jars, or skip the test."""
    try:
        return jars()
    except KafkaMissing as missing:
        pytest.skip(str(missing))
