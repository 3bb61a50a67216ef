from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from ottla.broker.cluster.image import ResourceType, TopicImage
from ottla.broker.cluster.metadata_records import ConfigRecord, FeatureLevelRecord
from ottla.broker.configs.broker_config import ConfigSource
from ottla.broker.configs.config_op import ConfigOp, OpType
from ottla.broker.configs.describe_configs import describe_configs
from ottla.broker.controller.alter_configs import AlterResource
from ottla.broker.controller.create_topics import NewTopic
from ottla.broker.core.settings import BrokerSettings
from ottla.broker.storage.errors import LogDirRefused
from ottla.broker.storage.partition_log import Isolation
from ottla.broker.txns.transaction import Transaction
from ottla.broker.txns.txn_records import TxnRecord, encode_record
from ottla.protocol.records.record import SimpleRecord, build_batch, iter_records
from ottla.protocol.uuids import encode_uuid
from tests.support.topic_dirs import TopicDir


def topic(opened: TopicDir, name: str) -> TopicImage:
    found = opened.catalog.topic(name)
    assert found is not None
    return found


async def with_topic(path: Path, *topics: NewTopic) -> TopicDir:
    opened = TopicDir(path)
    await opened.decisions.create_topics(topics)
    return opened


@pytest.mark.parametrize("clean", [True, False])
async def test_topics_and_their_configs_survive_a_restart(tmp_path: Path, clean: bool) -> None:
    opened = await with_topic(tmp_path, NewTopic("t", 2, configs=[("retention.ms", "5")]))
    topic_id = topic(opened, "t").topic_id
    opened.append("t", 1)
    opened.close() if clean else opened.crash()
    again = TopicDir(tmp_path)
    assert topic(again, "t").topic_id == topic_id
    assert again.partitions.get("t", 1).log.config.retention_ms == 5
    assert again.append("t", 1) == 1
    again.crash()


@pytest.mark.parametrize(("clean", "epoch"), [(True, 0), (False, 1)])
async def test_a_new_leader_epoch_begins_after_a_crash_and_only_then(tmp_path: Path, clean: bool, epoch: int) -> None:
    opened = await with_topic(tmp_path, NewTopic("t"))
    opened.append("t", 0)
    opened.close() if clean else opened.crash()
    again = TopicDir(tmp_path)
    assert (topic(again, "t").partitions[0].leader_epoch, again.partitions.get("t", 0).log.leader_epoch) == (epoch, epoch)
    again.crash()


async def test_a_directory_missing_from_the_metadata_log_is_renamed_stray(tmp_path: Path) -> None:
    opened = await with_topic(tmp_path / "a", NewTopic("t"))
    opened.close()
    other = await with_topic(tmp_path / "b", NewTopic("x"), NewTopic("y"))
    other.append("y", 0)
    other.close()
    shutil.copytree(tmp_path / "b" / "y-0", tmp_path / "a" / "y-0")
    again = TopicDir(tmp_path / "a")
    assert again.served() == [("t", 0)]
    assert [path.name.rpartition("-")[2] for path in (tmp_path / "a").glob("y-0.*")] == ["stray"]
    again.crash()


async def test_a_start_rewrites_the_checkpoints_only_to_remove_partitions_from_them(tmp_path: Path) -> None:
    opened = await with_topic(tmp_path, NewTopic("t"), NewTopic("u"))
    for name in ("t", "u"):
        opened.append(name, 0)
    opened.close()
    checkpoint = tmp_path / "recovery-point-offset-checkpoint"
    as_closed = checkpoint.read_text()
    again = TopicDir(tmp_path)
    assert checkpoint.read_text() == as_closed
    again.log_dir.delete_log("u", 0)
    again.crash()  # between the rename and the removal's checkpoint
    assert "\nu 0 " in checkpoint.read_text()
    TopicDir(tmp_path).crash()
    assert "\nt 0 " in checkpoint.read_text()
    assert "\nu 0 " not in checkpoint.read_text()


async def test_a_directory_without_partition_metadata_belongs_to_the_topic_of_its_name(tmp_path: Path) -> None:
    opened = await with_topic(tmp_path, NewTopic("t"))
    opened.append("t", 0)
    opened.close()
    (tmp_path / "t-0" / "partition.metadata").unlink()
    again = TopicDir(tmp_path)
    assert again.append("t", 0) == 1
    assert encode_uuid(topic(again, "t").topic_id) in (tmp_path / "t-0" / "partition.metadata").read_text()
    again.crash()


@pytest.mark.parametrize("keep_ids", [True, False])
async def test_a_directory_without_a_metadata_log_is_adopted_with_its_topic_ids(tmp_path: Path, keep_ids: bool) -> None:
    opened = await with_topic(tmp_path, NewTopic("a", 3), NewTopic("__consumer_offsets", 1))
    topic_id = topic(opened, "a").topic_id
    record = SimpleRecord(None, b"x", opened.clock.now_ms())
    opened.partitions.get("a", 2).append(build_batch([record], producer_id=4_321, producer_epoch=0, base_sequence=0))
    opened.append("a", 0)
    opened.partitions.get("__consumer_offsets", 0).append_records([SimpleRecord(b"k", None, 0)])
    opened.close()
    shutil.rmtree(tmp_path / "__cluster_metadata-0")
    if not keep_ids:
        for path in tmp_path.glob("a-*/partition.metadata"):
            path.unlink()
    for _ in range(2):
        again = TopicDir(tmp_path)
        assert again.served() == [("__consumer_offsets", 0), ("a", 0), ("a", 1), ("a", 2)]
        assert not keep_ids or topic(again, "a").topic_id == topic_id
        assert encode_uuid(topic(again, "a").topic_id) in (tmp_path / "a-2" / "partition.metadata").read_text()
        assert again.partitions.get("__consumer_offsets", 0).log.config.compacts
        assert (await again.topics.allocate_producer_ids()).start >= 5_000
        again.close()


async def test_an_adopted_directorys_transactional_producers_keep_their_ids_for_themselves(tmp_path: Path) -> None:
    opened = await with_topic(tmp_path, NewTopic("__transaction_state", 2))
    silent = Transaction("t", producer_id=4_321, producer_epoch=0, timeout_ms=1)
    records = [
        encode_record(TxnRecord(txn.transactional_id, txn), 2) for txn in (silent, silent._replace(transactional_id="u", producer_id=7))
    ]
    opened.partitions.get("__transaction_state", 1).append_records([SimpleRecord(key, value, 0) for key, value in records])
    opened.close()
    shutil.rmtree(tmp_path / "__cluster_metadata-0")
    again = TopicDir(tmp_path)
    assert (await again.topics.allocate_producer_ids()).start == 5_000
    again.close()


async def test_a_damaged_transaction_state_is_not_adopted(tmp_path: Path) -> None:
    opened = await with_topic(tmp_path, NewTopic("__transaction_state"))
    opened.partitions.get("__transaction_state", 0).append_records([SimpleRecord(b"?", b"?", 0)])
    opened.close()
    shutil.rmtree(tmp_path / "__cluster_metadata-0")
    with pytest.raises(LogDirRefused, match="which is to be adopted, cannot be read at offset"):
        TopicDir(tmp_path)


async def test_invalid_topic_configs_from_kafka_are_dropped_with_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    opened = await with_topic(tmp_path, NewTopic("t", configs=[("retention.ms", "5")]))
    foreign = [("segment.bytes", "1000"), ("remote.storage.enable", "true"), ("message.format.version", "2.8-IV1")]
    opened.write([ConfigRecord(ResourceType.TOPIC, "t", name, value) for name, value in foreign])
    opened.close()
    again = TopicDir(tmp_path)
    assert (again.partitions.get("t", 0).log.config.retention_ms, again.partitions.get("t", 0).log.config.segment_bytes) == (5, 1 << 30)
    assert [name for name, _ in foreign if f"{name}=" in caplog.text] == [name for name, _ in foreign]
    described = describe_configs(again.catalog, again.metadata.broker_configs, ResourceType.TOPIC, "t", ["segment.bytes"])
    assert [(entry.value, entry.source) for entry in described] == [("1073741824", ConfigSource.DEFAULT)]
    change = AlterResource(ResourceType.TOPIC, "t", [ConfigOp("retention.ms", OpType.SET, "6")])
    assert await again.decisions.alter_configs([change]) == [None]
    again.crash()


async def test_partitions_of_one_name_with_different_ids_are_not_adopted(tmp_path: Path) -> None:
    opened = await with_topic(tmp_path, NewTopic("a"), NewTopic("b"))
    for name in ("a", "b"):
        opened.append(name, 0)
    opened.close()
    shutil.rmtree(tmp_path / "__cluster_metadata-0")
    (tmp_path / "b-0").rename(tmp_path / "a-1")
    with pytest.raises(LogDirRefused, match="different ids"):
        TopicDir(tmp_path)


async def test_partitions_of_another_nodes_metadata_are_led_by_this_node(tmp_path: Path) -> None:
    opened = await with_topic(tmp_path, NewTopic("t"))
    opened.append("t", 0)
    opened.close()
    properties = tmp_path / "meta.properties"
    properties.write_text(properties.read_text().replace("node.id=1", "node.id=7"))
    again = TopicDir(tmp_path, settings=BrokerSettings(node_id=7))
    state = topic(again, "t").partitions[0]
    assert (state.leader, state.replicas, state.isr, state.leader_epoch) == (7, (7,), (7,), 1)
    assert again.append("t", 0) == 1
    again.crash()


async def test_a_directory_keeps_its_older_feature_levels(tmp_path: Path) -> None:
    opened = TopicDir(tmp_path)
    opened.write([FeatureLevelRecord("metadata.version", 17), FeatureLevelRecord("transaction.version", 1)])
    opened.close()
    again = TopicDir(tmp_path)
    assert again.catalog.features == {
        "metadata.version": 17,
        "group.version": 1,
        "share.version": 2,
        "streams.version": 1,
        "transaction.version": 1,
    }
    assert again.settings.transaction_version == 1
    start = again.controller.voter.raft_log.log.log_end_offset
    await again.decisions.create_topics([NewTopic("t")])
    chunk = again.controller.voter.raft_log.log.read(start, 1 << 20, isolation=Isolation.LOG_END, min_one_batch=True).records
    written = [bytes(record.value or b"") for record in iter_records(chunk)]
    assert [(value[1], value[2]) for value in written] == [(2, 0), (3, 1)]
    again.crash()


async def test_a_given_transaction_version_applies_and_is_in_the_log(tmp_path: Path) -> None:
    TopicDir(tmp_path).close()
    for level in (1, 0, 2):
        given = BrokerSettings(transaction_version=level, explicit={"transaction.version": "command line"})
        opened = TopicDir(tmp_path, settings=given)
        assert opened.settings.transaction_version == level
        assert opened.catalog.features.get("transaction.version", 0) == level
        opened.close()


@pytest.mark.parametrize("level", [0, 1])
async def test_a_transaction_version_applies_until_it_is_changed(tmp_path: Path, level: int) -> None:
    TopicDir(tmp_path, settings=BrokerSettings(transaction_version=level, explicit={"transaction.version": "command line"})).close()
    for _ in range(2):
        opened = TopicDir(tmp_path)
        assert opened.settings.transaction_version == level
        opened.close()
