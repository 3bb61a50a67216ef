from __future__ import annotations

import asyncio
from collections.abc import Iterable
from pathlib import Path

import pytest

from ottla.broker.cluster.catalog import Catalog
from ottla.broker.cluster.image_changes import ImageChanges
from ottla.broker.cluster.metadata_records import MetadataRecord
from ottla.broker.controller.create_topics import NewTopic
from ottla.broker.controller.delete_topics import TopicRef
from ottla.broker.core.rejected import Rejected
from ottla.broker.sim.memory_files import MemoryFiles
from ottla.protocol.error_codes import ErrorCode
from tests.support.topic_dirs import TopicDir


def noting(catalog: Catalog, applied: list[MetadataRecord]) -> None:
    """Record what is applied, in order."""
    apply = catalog.apply

    def apply_and_note(records: Iterable[MetadataRecord]) -> ImageChanges:
        applied.extend(records := list(records))
        return apply(records)

    catalog.apply = apply_and_note  # type: ignore[method-assign]  # the real one, with a witness


async def test_records_are_applied_in_log_order(tmp_path: Path) -> None:
    opened = TopicDir(tmp_path, files=MemoryFiles())
    live: list[MetadataRecord] = []
    noting(opened.service.catalog, live)
    await asyncio.gather(
        opened.service.create_topics([NewTopic("a", 2)]),
        opened.service.allocate_producer_ids(),
        opened.service.create_topics([NewTopic("b")]),
        opened.service.allocate_producer_ids(),
        opened.service.delete_topics([TopicRef(name="a")]),
    )
    stored = [record for batch in opened.service.metadata_log.batches(0) for record in batch.records]
    assert live == stored[-len(live) :]
    assert len(live) == 3 + 1 + 2 + 1 + 1
    opened.close()


async def test_two_requests_for_producer_ids_at_once_get_two_blocks(tmp_path: Path) -> None:
    opened = TopicDir(tmp_path, files=MemoryFiles())
    first, second = await asyncio.gather(opened.service.allocate_producer_ids(), opened.service.allocate_producer_ids())
    assert first.stop == second.start
    opened.close()


async def test_a_started_decision_is_completed_after_its_caller_is_cancelled(tmp_path: Path) -> None:
    opened = TopicDir(tmp_path, files=MemoryFiles())
    gone = asyncio.ensure_future(opened.service.create_topics([NewTopic("a")]))
    await asyncio.sleep(0)
    gone.cancel()
    await opened.service.stop()
    assert opened.served() == [("a", 0)]
    opened.close()


async def test_a_validate_only_decision_writes_nothing(tmp_path: Path) -> None:
    opened = TopicDir(tmp_path, files=MemoryFiles())
    before = opened.service.metadata_log.log.log_end_offset
    (answer,) = await opened.service.create_topics([NewTopic("a")], validate_only=True)
    assert (answer.error, opened.served(), opened.service.metadata_log.log.log_end_offset) == (None, [], before)
    opened.close()


async def test_a_refused_decision_fails_its_caller_and_blocks_no_other(tmp_path: Path) -> None:
    opened = TopicDir(tmp_path, files=MemoryFiles())
    with pytest.raises(Rejected) as refused:
        await opened.service.create_topics([NewTopic(f"t-{index}", 1_000) for index in range(200)])
    assert refused.value.code is ErrorCode.POLICY_VIOLATION
    (made,) = await opened.service.create_topics([NewTopic("a")])
    assert made.error is None
    opened.close()
