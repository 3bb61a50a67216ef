"""A data directory of a standalone node of Ottla 0.2, which had no controller of its own and so no broker registration, opens unchanged."""

from __future__ import annotations

import shutil
from pathlib import Path

from ottla.broker.cluster.image import ResourceType
from ottla.broker.controller.create_topics import NewTopic
from ottla.broker.storage.log_values import Isolation
from ottla.protocol.records.record import iter_records
from ottla.protocol.uuids import encode_uuid
from tests.support.topic_dirs import TopicDir

RECORDED = Path(__file__).parent / "standalone_log_dir"


async def test_recorded_directorys_topics_records_and_settings_are_served_after_every_start(tmp_path: Path) -> None:
    path = shutil.copytree(RECORDED, tmp_path / "data")
    before = (path / "__cluster_metadata-0" / f"{0:020}.log").read_bytes()
    for start in (1, 2, 3):
        opened = TopicDir(path)
        topic = opened.catalog.topic("orders")
        assert topic is not None
        assert encode_uuid(topic.topic_id) in (RECORDED / "orders-1" / "partition.metadata").read_text()
        assert opened.served() == [("orders", 0), ("orders", 1)]
        assert opened.catalog.configs(ResourceType.TOPIC, "orders") == {"retention.ms": "86400000", "flush.ms": "9000"}
        assert opened.settings.message_max_bytes == 2_000_000
        assert opened.catalog.image.client_quotas
        log = opened.partitions.get("orders", 1).log
        assert log.leader_epoch == (start if start < 3 else 2), "it ended uncleanly twice"
        records = log.read(0, 1 << 20, isolation=Isolation.LOG_END, min_one_batch=True).records
        assert [record.value for record in iter_records(records)] == [b"a", b"b"]
        assert [entry.producer_id for entry in log.producers()] == [0]
        assert (await opened.topics.allocate_producer_ids()).start == 1_000 * start
        opened.close() if start == 2 else opened.crash()
    assert not (path / "deleted-0").exists(), "the log removed the topic just before the crash"
    assert (path / "__cluster_metadata-0" / f"{0:020}.log").read_bytes().startswith(before), "records are only added"


async def test_topic_created_in_a_recorded_directory_survives_a_crash(tmp_path: Path) -> None:
    path = shutil.copytree(RECORDED, tmp_path / "data")
    opened = TopicDir(path)
    (created,) = await opened.decisions.create_topics([NewTopic("new")])
    assert created.error is None
    opened.crash()
    again = TopicDir(path)
    assert ("new", 0) in again.served()
    again.crash()
