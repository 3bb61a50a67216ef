"""Random ACLs and random requests to Apache Kafka and to Ottla: a client with some of the permissions gets the same responses."""

from __future__ import annotations

from pathlib import Path

from client_compat.differential.access import differential_of_access
from tests.support.apache_kafka import jars_or_skip

PAIRS = 2_000


def test_allowed_and_denied_requests_are_answered_like_kafka(tmp_path: Path) -> None:
    jars_or_skip()
    report = differential_of_access(tmp_path, PAIRS)
    assert report.answers >= PAIRS
    assert report.unexplained == []
    assert report.denials > PAIRS // 4
