"""What the groups of all kinds have in common."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.broker.core.rejected import Rejected
from ottla.broker.groups import consumer_records, share_records
from ottla.broker.groups.coordinator import GroupCoordinator, GroupsConfig
from ottla.broker.groups.states import Now
from ottla.broker.streams import records as streams_records

KINDS = pytest.mark.parametrize(
    ("kind", "key", "value"),
    [
        ("consumers", consumer_records.ConsumerGroupMetadataKey("g"), consumer_records.ConsumerGroupMetadataValue(3)),
        ("shares", share_records.ShareGroupMetadataKey("g"), share_records.ShareGroupMetadataValue(3)),
        ("streams", streams_records.StreamsGroupMetadataKey("g"), streams_records.StreamsGroupMetadataValue(3)),
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
