from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from ottla.broker.cluster.image import ResourceType
from ottla.broker.configs.config_op import ConfigOp, OpType
from ottla.broker.controller.alter_configs import AlterResource
from ottla.broker.controller.create_topics import PARTITIONS_PER_REQUEST_MAX, NewTopic
from ottla.broker.core import limits
from ottla.broker.core.peer_log import PEERS
from ottla.broker.core.rejected import Rejected
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.records.record import SimpleRecord, build_batch
from tests.support.simulation import settle
from tests.support.topic_dirs import TopicDir

DAY_MS = 86_400_000


@pytest.fixture
async def opened(tmp_path: Path) -> AsyncIterator[TopicDir]:
    opened = TopicDir(tmp_path / "data")
    yield opened
    opened.crash()


async def test_a_created_topic_is_served_and_a_partition_has_a_directory_once_it_is_written(opened: TopicDir) -> None:
    (created,) = await opened.decisions.create_topics([NewTopic("t", 2)])
    assert created.error is None
    assert opened.served() == [("t", 0), ("t", 1)]
    opened.append("t", 1)
    assert (opened.log_dir.path / "t-1" / "partition.metadata").read_text().startswith("version: 0\ntopic_id: ")
    assert not (opened.log_dir.path / "t-0").exists()


async def test_two_clients_that_need_the_same_topic_both_get_it(opened: TopicDir) -> None:
    answers = await asyncio.gather(opened.topics.auto_create(["t"]), opened.topics.auto_create(["t", "u"]))
    assert answers == [{"t": None}, {"t": None, "u": None}]
    assert opened.served() == [("t", 0), ("u", 0)]


async def created(opened: TopicDir) -> None:
    """Wait until the topics whose creation has begun are published."""
    await settle()
    await opened.controller.voter.commit()
    await opened.metadata.published()
    await settle()


async def test_a_started_topic_is_created_once_and_a_refusal_is_logged(opened: TopicDir, caplog: pytest.LogCaptureFixture) -> None:
    opened.topics.begin_auto_create(["t", "a.b"])
    opened.topics.begin_auto_create(["t"])
    assert opened.served() == []
    await created(opened)
    assert opened.served() == [("a.b", 0), ("t", 0)]
    opened.topics.begin_auto_create(["t", "a_b"])
    await created(opened)
    assert opened.served() == [("a.b", 0), ("t", 0)]
    assert [record.args[0] for record in caplog.records if record.levelname == "WARNING" and record.args] == ["a_b"]


async def test_refused_topics_are_logged_in_one_counted_line(opened: TopicDir, caplog: pytest.LogCaptureFixture) -> None:
    opened.topics.begin_auto_create([f"t{number}" for number in range(PARTITIONS_PER_REQUEST_MAX + 1)])
    await created(opened)
    assert [(record.name, record.args and record.args[0]) for record in caplog.records] == [(PEERS, PARTITIONS_PER_REQUEST_MAX + 1)]
    opened.topics.begin_auto_create(["t"])
    await created(opened)
    assert opened.served() == [("t", 0)]


async def test_a_caller_waits_until_the_topic_in_creation_is_served(opened: TopicDir, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "LOGS_AT_ONCE", 10)
    creation = asyncio.ensure_future(opened.topics.ensure("__consumer_offsets"))
    while opened.catalog.topic("__consumer_offsets") is None:  # noqa: ASYNC110 # each turn of the loop is looked at
        await asyncio.sleep(0)
    assert opened.served() == []
    await opened.topics.ensure("__consumer_offsets")
    assert len(opened.served()) == 50
    await creation


async def test_ensure_gives_an_internal_topic_its_own_settings(opened: TopicDir) -> None:
    topic = await opened.topics.ensure("__consumer_offsets")
    assert topic is await opened.topics.ensure("__consumer_offsets")
    assert len(topic.partitions) == 50
    assert opened.partitions.get("__consumer_offsets", 49).log.config.compacts


async def test_ensure_raises_the_reason_of_a_refused_topic(opened: TopicDir) -> None:
    with pytest.raises(Rejected) as refused:
        await opened.topics.ensure("bad name")
    assert refused.value.code is ErrorCode.INVALID_TOPIC_EXCEPTION


@pytest.mark.parametrize(("expiration_ms", "is_known"), [(7 * DAY_MS, True), (DAY_MS, False)])
async def test_a_restart_expires_producers_by_the_current_setting(tmp_path: Path, expiration_ms: int, is_known: bool) -> None:
    opened = TopicDir(tmp_path)
    await opened.decisions.create_topics([NewTopic("t")])
    ops = [ConfigOp("producer.id.expiration.ms", OpType.SET, str(expiration_ms))]
    assert await opened.decisions.alter_configs([AlterResource(ResourceType.BROKER, "", ops)]) == [None]
    two_days_ago = SimpleRecord(None, b"x", opened.clock.now_ms() - 2 * DAY_MS)
    opened.partitions.get("t", 0).append(build_batch([two_days_ago], producer_id=7, producer_epoch=0, base_sequence=0))
    opened.close()
    again = TopicDir(tmp_path)
    assert [entry.producer_id for entry in again.partitions.get("t", 0).log.producers()] == ([7] if is_known else [])
    again.crash()
