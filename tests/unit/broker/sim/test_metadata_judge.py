"""The judge of metadata, which decides whether one image may follow another: when a partition may lose every replica that could lead it."""

from __future__ import annotations

from contextlib import nullcontext

import pytest

from ottla.broker.cluster.image import ELR_VERSION, MetadataImage, ResourceType
from ottla.broker.cluster.metadata_records import (
    ClearElrRecord,
    ConfigRecord,
    FeatureLevelRecord,
    MetadataRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    TopicRecord,
)
from ottla.broker.sim.metadata_judge import UNCLEAN_SETTING, check_step
from ottla.broker.sim.violation import Violation
from tests.support.metadata_images import level, made_of

TOPIC = b"\x07" * 16
LED = made_of(
    level(30),
    FeatureLevelRecord(ELR_VERSION, 1),
    TopicRecord("t", TOPIC),
    PartitionRecord(0, TOPIC, [1, 2], [1], leader=1, leader_epoch=0, partition_epoch=0, directories=[bytes(16)] * 2),
)
NOBODY_IN_SYNC = made_of(PartitionChangeRecord(0, TOPIC, isr=[], leader=-1, eligible_leader_replicas=[1], last_known_elr=[1]), image=LED)
SET = ConfigRecord(ResourceType.TOPIC, "t", "min.insync.replicas", "1")
SET_FOR_ALL = ConfigRecord(ResourceType.BROKER, "", "min.insync.replicas", "1")


def after(*records: MetadataRecord, image: MetadataImage = NOBODY_IN_SYNC) -> MetadataImage:
    return made_of(*records, image=image)


@pytest.mark.parametrize(("setting", "cleared"), [(SET, "t"), (SET_FOR_ALL, "")])
def test_permanently_leaderless_partition_is_allowed_if_min_insync_replicas_was_set_with_an_empty_isr(
    setting: ConfigRecord, cleared: str
) -> None:
    given_up = after(setting, ClearElrRecord(cleared))
    check_step(LED, NOBODY_IN_SYNC)
    check_step(NOBODY_IN_SYNC, given_up)
    check_step(LED, given_up)  # one image, two decisions
    later = after(TopicRecord("another", b"\x08" * 16), ConfigRecord(ResourceType.TOPIC, "t", "retention.ms", "5"), image=given_up)
    check_step(given_up, later)


@pytest.mark.parametrize(
    "records",
    [
        [ClearElrRecord("t")],
        [ConfigRecord(ResourceType.TOPIC, "t", "retention.ms", "5"), ClearElrRecord("t")],
        [ConfigRecord(ResourceType.TOPIC, "another", "min.insync.replicas", "1"), ClearElrRecord("t")],
        [PartitionChangeRecord(0, TOPIC, eligible_leader_replicas=[], last_known_elr=[])],
    ],
)
def test_permanently_leaderless_partition_without_such_a_setting_is_a_violation(records: list[MetadataRecord]) -> None:
    with pytest.raises(Violation, match="t-0: no replica can ever lead it"):
        check_step(NOBODY_IN_SYNC, after(*records))


def test_partition_created_without_possible_leaders_is_a_violation() -> None:
    made = made_of(level(30), FeatureLevelRecord(ELR_VERSION, 1), SET)
    new = PartitionRecord(0, TOPIC, [1], [], leader_epoch=0, partition_epoch=0, directories=[bytes(16)])
    with pytest.raises(Violation, match="no replica can ever lead it"):
        check_step(made, after(TopicRecord("t", TOPIC), new, image=made))


@pytest.mark.parametrize(
    ("unclean", "leader", "violation"), [(True, -1, ""), (False, -1, "a fenced broker is in the ISR"), (True, 1, "the leader is fenced")]
)
def test_cancelled_reassignment_may_leave_a_fenced_isr_only_with_unclean_elections(unclean: bool, leader: int, violation: str) -> None:
    allowed = [ConfigRecord(ResourceType.TOPIC, "t", UNCLEAN_SETTING, "true")] * unclean
    moved = after(
        *allowed,
        RegisterBrokerRecord(1, incarnation_id=bytes(16), broker_epoch=1, fenced=True),
        PartitionChangeRecord(0, TOPIC, isr=[2], leader=2, adding_replicas=[2]),
        image=LED,
    )
    reverted = after(PartitionChangeRecord(0, TOPIC, isr=[1], replicas=[1], leader=leader, adding_replicas=[]), image=moved)
    with pytest.raises(Violation, match=violation) if violation else nullcontext():
        check_step(moved, reverted)
