"""The behaviour that consumer, share and streams groups have in common."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.broker.core.rejected import Rejected
from ottla.broker.groups.coordinator import GroupCoordinator, GroupsConfig
from ottla.broker.groups.states import Now
from ottla.protocol import consumer_group_log, share_group_log, streams_group_log

KINDS = pytest.mark.parametrize(
    ("kind", "key", "value"),
    [
        ("consumers", consumer_group_log.ConsumerGroupMetadataKey("g"), consumer_group_log.ConsumerGroupMetadataValue(3)),
        ("shares", share_group_log.ShareGroupMetadataKey("g"), share_group_log.ShareGroupMetadataValue(3)),
        ("streams", streams_group_log.StreamsGroupMetadataKey("g"), streams_group_log.StreamsGroupMetadataValue(3)),
    ],
)


@KINDS
def test_a_record_makes_a_group_and_its_tombstone_ends_it(kind: str, key: Any, value: Any) -> None:
    groups = getattr(GroupCoordinator(GroupsConfig()), kind)
    groups.apply(key, None)
    with pytest.raises(Rejected, match="Group g not found"):
        groups.existing("g")
    groups.apply(key, value)
    assert groups.existing("g").epoch == 3
    groups.on_loaded(groups.existing("g"), Now(0, 0))
    assert groups.next_deadline("g") is None
    groups.apply(key, None)
    assert (groups.deadlines, groups.next_deadline("g")) == ({}, None)


@KINDS
def test_a_group_of_another_kind_is_not_found(kind: str, key: Any, value: Any) -> None:
    machine = GroupCoordinator(GroupsConfig())
    getattr(machine, kind).apply(key, value)
    others = {"consumers": machine.consumers, "shares": machine.shares, "streams": machine.streams}
    for name, groups in others.items():
        if name != kind:
            with pytest.raises(Rejected, match=f"Group g is not a {groups.GROUP.PROTOCOL_TYPE} group"):
                groups.existing("g")
