"""A release's table is what its real broker answers; checked for the last release whose protocol versions reach back to Kafka 0.10."""

from __future__ import annotations

from pathlib import Path

import pytest

from client_compat.kafka.jars import KafkaMissing
from client_compat.kafka.release_record import record
from ottla.broker.releases.table import table_of


def test_recording_a_real_broker_gives_its_stored_release_table(tmp_path: Path) -> None:
    table = table_of("3.9")
    try:
        recorded = record(table.version, tmp_path)
    except KafkaMissing as missing:
        pytest.skip(str(missing))
    assert (recorded.version, recorded.mode) == (table.version, table.mode)
    assert (recorded.apis, recorded.features) == (table.apis, table.features)
    assert (recorded.broker_settings, recorded.topic_settings, recorded.group_settings) == (
        table.broker_settings,
        table.topic_settings,
        table.group_settings,
    )
