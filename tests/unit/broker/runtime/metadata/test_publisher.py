from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from ottla.broker.cluster.image import ResourceType
from ottla.broker.configs.config_op import ConfigOp, OpType
from ottla.broker.controller.alter_configs import AlterResource
from ottla.broker.controller.create_topics import NewTopic
from ottla.broker.controller.delete_topics import TopicRef
from ottla.broker.core import limits
from ottla.broker.core.rejected import Rejected
from ottla.broker.sim.memory_files import MemoryFiles
from ottla.protocol.error_codes import ErrorCode
from tests.support.catalogs import code_of
from tests.support.topic_dirs import TopicDir

DAY_MS = 86_400_000


@pytest.fixture
async def opened(tmp_path: Path) -> AsyncIterator[TopicDir]:
    opened = TopicDir(tmp_path / "data")
    yield opened
    opened.crash()


async def test_creating_a_large_topic_yields_and_is_visible_only_as_a_whole(opened: TopicDir, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "LOGS_AT_ONCE", 10)
    creation = asyncio.ensure_future(opened.decisions.create_topics([NewTopic("t", 100)]))
    made, served = set(), set()
    while not creation.done():
        made.add(len(opened.log_dir.logs))
        served.add(len(opened.served()))
        await asyncio.sleep(0)
    assert served <= {0, 100}
    assert len(made) >= 10
    assert (await creation)[0].error is None
    assert opened.served() == [("t", index) for index in range(100)]


async def test_listeners_are_notified_of_a_deleted_topic(opened: TopicDir) -> None:
    heard: list[tuple[str, list[tuple[str, int]]]] = []
    opened.metadata.publisher.on_deleted.append(lambda topic: heard.append((topic.name, opened.served())))
    await opened.decisions.create_topics([NewTopic("t", 2)])
    await opened.decisions.delete_topics([TopicRef("t")])
    assert heard == [("t", [])]
    assert not (opened.log_dir.path / "t-0").exists()


async def test_changed_topic_configs_reach_open_logs(opened: TopicDir) -> None:
    await opened.decisions.create_topics([NewTopic("t"), NewTopic("u", configs=[("max.message.bytes", "7")])])
    ops = [ConfigOp("message.max.bytes", OpType.SET, "99")]
    assert await opened.decisions.alter_configs([AlterResource(ResourceType.BROKER, "", ops)]) == [None]
    sizes = [opened.partitions.get(name, 0).log.config.max_message_bytes for name in ("t", "u")]
    assert sizes == [99, 7]


def _of_producers(opened: TopicDir) -> tuple[int, bool]:
    log = opened.partitions.get("t", 0).log
    return log.producer_expiration_ms, log.verifies_transactions


async def test_changed_settings_of_producers_reach_open_logs_and_survive_a_restart(tmp_path: Path) -> None:
    opened = TopicDir(tmp_path)
    await opened.decisions.create_topics([NewTopic("t")])
    ops = [
        ConfigOp("producer.id.expiration.ms", OpType.SET, "99"),
        ConfigOp("transaction.partition.verification.enable", OpType.SET, "false"),
    ]
    assert await opened.decisions.alter_configs([AlterResource(ResourceType.BROKER, "", ops)]) == [None]
    assert _of_producers(opened) == (99, False)
    opened.close()
    again = TopicDir(tmp_path)
    assert _of_producers(again) == (99, False)
    again.crash()


async def test_a_full_disk_refuses_a_topic_and_leaves_no_files(tmp_path: Path) -> None:
    files = MemoryFiles()
    opened = TopicDir(tmp_path, files=files)
    files.room = 10
    with pytest.raises(Rejected) as refused:
        await opened.decisions.create_topics([NewTopic("t")])
    assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    files.heal()
    assert opened.catalog_names == []
    assert code_of((await opened.decisions.create_topics([NewTopic("t")]))[0].error) is ErrorCode.NONE
    opened.crash()


@pytest.mark.parametrize("restarted", [False, True])
async def test_a_topic_with_an_offline_partition_can_be_deleted_and_recreated(tmp_path: Path, restarted: bool) -> None:
    files = MemoryFiles()
    opened = TopicDir(tmp_path, files=files)
    await opened.decisions.create_topics([NewTopic("t", 2)])
    opened.append("t", 1)
    opened.close()

    def unreadable(operation: str, path: Path) -> None:
        if path.parent == tmp_path / "t-1":
            raise PermissionError(13, "Permission denied", str(path))

    files.on_call = unreadable
    opened = TopicDir(tmp_path, files=files)
    assert opened.served() == [("t", 0)]
    await opened.decisions.delete_topics([TopicRef("t")])
    if restarted:
        opened.close()
        opened = TopicDir(tmp_path, files=files)
    files.heal()
    assert code_of((await opened.decisions.create_topics([NewTopic("t", 2)]))[0].error) is ErrorCode.NONE
    assert opened.served() == [("t", 0), ("t", 1)]
    assert opened.append("t", 1) == 0
    opened.crash()
