from __future__ import annotations

from ottla.broker.replication.brokers import Brokers
from ottla.broker.replication.leadership import Leadership, Registration
from ottla.broker.replication.read_replica import preferred

RACKS = {1: "a", 2: "b", 3: "b", 4: "b", 5: "c"}


def leadership(ends: dict[int, int], caught_up: dict[int, int] | None = None, isr: tuple[int, ...] = (1, 2, 3, 4, 5)) -> Leadership:
    made = Leadership(Brokers())
    made.assigned(Registration(1, (1, 2, 3, 4, 5), isr, 1, 1), news=True)
    for node, end in ends.items():
        made.followers[node].log_start, made.followers[node].log_end = 5, end
        made.followers[node].caught_up_ms = (caught_up or {}).get(node, 0)
    return made


def test_consumer_in_the_leaders_rack_or_an_unknown_one_reads_from_the_leader() -> None:
    others = leadership({2: 10, 5: 10})
    assert [preferred(others, rack, 8, RACKS.get) for rack in ("a", "d")] == [None, None]


def test_preferred_read_replica_has_the_highest_offset_then_latest_catch_up_then_greatest_id() -> None:
    assert preferred(leadership({2: 10, 3: 11, 4: 9}), "b", 8, RACKS.get) == 3
    assert preferred(leadership({2: 10, 3: 10}, {2: 70, 3: 60}), "b", 8, RACKS.get) == 2
    assert preferred(leadership({2: 10, 4: 10}), "b", 8, RACKS.get) == 4


def test_preferred_read_replica_is_in_sync_and_has_the_offset() -> None:
    assert preferred(leadership({2: 10, 3: 11}, isr=(1, 2)), "b", 8, RACKS.get) == 2
    assert [preferred(leadership({2: 10}), "b", offset, RACKS.get) for offset in (4, 5, 10, 11)] == [None, 2, 2, None]
