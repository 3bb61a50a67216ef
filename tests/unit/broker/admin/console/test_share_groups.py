"""The groups view of share and streams groups: deliveries, locks and tasks, over a broker with members of both."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from ottla.broker.admin.console import share_groups
from ottla.broker.core.clock import MovableClock
from ottla.broker.testing import InProcessBroker
from ottla.protocol.client import Client
from tests.support import share_group_calls, streams_group_calls
from tests.support.console import Console, served
from tests.support.group_calls import wait_until
from tests.support.share_calls import ACCEPT, REJECT, RELEASE, ShareMember, acknowledged, acquired, configure
from tests.support.share_group_calls import settle
from tests.support.topic_calls import produce

LOCK_S = 30


@pytest.fixture
def console() -> Iterator[Console]:
    clock = MovableClock()
    settings = share_group_calls.AT_ONCE | streams_group_calls.AT_ONCE
    with InProcessBroker(clock=clock, settings=settings) as broker, served(broker, clock) as found:
        yield found


@pytest.fixture
def client(console: Console) -> Iterator[Client]:
    with console.client("worker") as client:
        yield client


@pytest.fixture
def member(client: Client) -> ShareMember:
    """The only member of share group "g", which has acquired the six records of partition 0."""
    share_group_calls.prepare(client)
    configure(client, "g", share__auto__offset__reset="earliest")
    settle(client)
    for value in range(6):
        produce(client, "t", b"%d" % value)
    member = ShareMember(client, "m")
    assert acquired(member.fetch()) == [(0, 5, 1)]
    return member


def first_of(console: Console) -> dict[str, Any]:
    """Return the console's description of the group's partition 0."""
    shown: dict[str, Any] = console.read("group", name="g")["shared"][0]
    return shown


def test_each_record_in_flight_has_its_state_delivery_count_and_lock(console: Console, member: ShareMember) -> None:
    assert acknowledged(member.acknowledge((0, 0, [ACCEPT]), (1, 1, [RELEASE]), (2, 2, [ACCEPT]), (3, 3, [REJECT]))) == [0]
    console.broker.clock.advance(10)
    shown = first_of(console)
    assert (shown["topic"], shown["partition"], shown["source"], shown["start"], shown["end"], shown["lag"]) == ("t", 0, "leader", 1, 6, 3)
    assert shown["records"] == {"available": 1, "acquired": 2, "acknowledged": 1, "archiving": 0, "archived": 1}
    fields = ("first", "last", "state", "delivery_count", "member_id")
    assert [tuple(each[name] for name in fields) for each in shown["deliveries"]] == [
        (1, 1, "available", 1, None),
        (2, 2, "acknowledged", 1, None),
        (3, 3, "archived", 1, None),
        (4, 5, "acquired", 1, "m"),
    ]
    (lock_ms,) = [each["lock_ms"] for each in shown["deliveries"] if each["lock_ms"] is not None]
    assert 15_000 < lock_ms <= 20_000


def test_group_list_has_the_share_groups_kind_and_lag(console: Console, member: ShareMember) -> None:
    (row,) = console.read("groups")["groups"]
    assert (row["kind"], row["state"], row["members"], row["partitions"], row["lag"], row["lag_unknown"]) == ("share", "Stable", 1, 2, 6, 1)
    group = console.read("group", name="g")
    assert (group["offsets"], group["member_rows"][0]["assigned"]) == ([], ["t-0", "t-1"])
    assert (group["shared"][1]["source"], group["shared"][1]["start"], group["shared"][1]["deliveries"]) == (None, None, [])


def test_expired_locks_are_counted(console: Console, member: ShareMember) -> None:
    console.broker.clock.advance(LOCK_S)
    assert acquired(member.fetch(max_wait_ms=5_000)) == [(0, 5, 2)]
    shown = first_of(console)
    assert (shown["locks_expired"], shown["deliveries"][0]["delivery_count"]) == (6, 2)


def test_share_state_is_read_from_the_coordinator_after_the_last_member_left(console: Console, member: ShareMember) -> None:
    assert acknowledged(member.acknowledge((0, 0, [ACCEPT]), (1, 1, [RELEASE]), (2, 2, [ACCEPT]))) == [0]
    member.client.close()
    wait_until(lambda: first_of(console)["source"] != "leader", "the broker knows that the connection is closed")
    shown = first_of(console)
    assert (shown["source"], shown["start"], shown["lag"], shown["locks_expired"]) == ("coordinator", 1, 4, None)
    assert shown["records"]["acquired"] == 0
    assert (shown["deliveries"][0]["first"], shown["deliveries"][0]["delivery_count"]) == (1, 1)


def test_deliveries_have_a_limit(console: Console, member: ShareMember, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(share_groups, "DELIVERIES_MAX", 1)
    assert acknowledged(member.acknowledge((1, 1, [ACCEPT]))) == [0]
    shown = first_of(console)
    assert ([each["first"] for each in shown["deliveries"]], shown["deliveries_left_out"]) == ([0], 2)
    assert shown["records"]["acquired"] == 5


def test_streams_group_query_returns_the_tasks_of_its_members(console: Console, client: Client) -> None:
    streams_group_calls.prepare(client)
    configure(client, "g", streams__num__standby__replicas="1")
    for member_id in ("m", "n"):
        assert streams_group_calls.beat(client, member_id=member_id, process_id=member_id).error_code == 0
    group = console.read("group", name="g")
    assert (group["kind"], group["state"], group["problem"], group["shared"]) == ("streams", "Reconciling", None, [])
    assert {each["member_id"]: each["tasks"] for each in group["member_rows"]}["m"] == {
        "active": ["0_0", "0_1"],
        "standby": [],
        "warmup": [],
    }


def test_a_streams_group_that_is_not_ready_says_why(console: Console, client: Client) -> None:
    streams_group_calls.find_coordinator(client)
    epoch = streams_group_calls.beat(client).member_epoch
    assert streams_group_calls.beat(client, epoch).error_code == 0  # the first heartbeat's comparison with the topics is not kept
    group = console.read("group", name="g")
    assert (group["state"], group["problem"]) == ("NotReady", "Source topics t are missing.")
