"""What a test beside Apache Kafka needs: its jars, which Maven fetches once. Where they cannot be had, the test says so and is skipped."""

from __future__ import annotations

from pathlib import Path

import pytest

from client_compat.kafka.jars import KafkaMissing, jars


def jars_or_skip() -> Path:
    """The directory of the reference version's jars."""
    try:
        return jars()
    except KafkaMissing as missing:
        pytest.skip(str(missing))
