from __future__ import annotations

import itertools
from collections import Counter
from random import Random

import pytest

from ottla.broker.controller.striped_placer import UsableBroker, place_replicas
from ottla.broker.core.rejected import Rejected
from ottla.protocol.error_codes import ErrorCode
from tests.support.java_random import JavaRandom


def brokers(*racks: str | None, fenced: tuple[int, ...] = ()) -> list[UsableBroker]:
    """Return the brokers with ids from 1, each in the rack at its position."""
    return [UsableBroker(broker_id, rack, broker_id in fenced) for broker_id, rack in enumerate(racks, 1)]


NO_RACKS = brokers(None, None, None)
THREE_RACKS = brokers("a", "b", "c", "a", "b", "c", fenced=(3, 5))
MIXED = brokers("rack-b", "rack-a", None, "rack-c", "rack-b", "rack-d", "rack-a", None, fenced=(4, 7, 8))
FOUR_RACKS = brokers("east", "west", "north", "south", "east")


@pytest.mark.parametrize(
    ("seed", "cluster", "expected"),
    [
        (1, NO_RACKS, "1,2 2,3 3,1 3,1 1,2 2,3 1,3 3,2"),
        (7, THREE_RACKS, "2,6,4 6,1,2 4,2,6 2,6,1 2,4,6 1,6,2 6,2,4 2,1,6"),
        (42, MIXED, "6,4,3,2 6,3,2,5 3,2,1,4 2,5,4,6 1,4,6,3 3,6,2,4"),
        (5, brokers("a", "a", "b", fenced=(1, 2)), "3,2 3,1 3,2"),
        (11, FOUR_RACKS, "4,2,5 2,1,3 5,3,4 3,4,2 4,2,1 3,1,4 5,4,2 4,2,3 2,3,1 3,5,4 5,3,2 3,2,4 2,4,1 4,5,3"),
    ],
)
def test_the_placement_equals_kafkas_with_javas_random_numbers(seed: int, cluster: list[UsableBroker], expected: str) -> None:
    """The figures are those of Kafka 4.3.1's `StripedReplicaPlacer` with `new Random(seed)`."""
    wanted = [[int(replica) for replica in partition.split(",")] for partition in expected.split()]
    assert place_replicas(cluster, len(wanted), len(wanted[0]), JavaRandom(seed).below) == wanted


@pytest.mark.parametrize("seed", range(5))
def test_replicas_are_spread_evenly_over_racks_and_brokers(seed: int) -> None:
    cluster = brokers("a", "b", "c", "a", "b", "c")
    rack_of = {broker.broker_id: broker.rack for broker in cluster}
    placed = place_replicas(cluster, 600, 3, Random(seed).randrange)
    assert all(len({rack_of[replica] for replica in replicas}) == 3 for replicas in placed)
    leads = Counter(replicas[0] for replicas in placed)
    assert max(leads.values()) < 2 * min(leads[broker_id] for broker_id in rack_of)


@pytest.mark.parametrize("seed", range(5))
def test_a_fenced_broker_is_placed_last_and_never_first(seed: int) -> None:
    placed = place_replicas(brokers(None, None, None, fenced=(1,)), 50, 2, Random(seed).randrange)
    assert 1 not in set(itertools.chain(*placed))
    placed = place_replicas(brokers(None, None, None, fenced=(1,)), 50, 3, Random(seed).randrange)
    assert all(set(replicas) == {1, 2, 3} and replicas[-1] == 1 for replicas in placed)


def test_a_single_broker_gets_every_partition() -> None:
    assert place_replicas(brokers(None), 10_000, 1, Random(1).randrange) == [[1]] * 10_000


@pytest.mark.parametrize(
    ("cluster", "replicas", "text"),
    [
        (NO_RACKS, 0, "must be positive"),
        (NO_RACKS, 4, "The target replication factor of 4 cannot be reached because only 3 broker"),
        (brokers(None, None, fenced=(1, 2)), 1, "All brokers are currently fenced"),
        ([], 1, "All brokers are currently fenced"),
    ],
)
def test_an_impossible_placement_is_an_invalid_replication_factor(cluster: list[UsableBroker], replicas: int, text: str) -> None:
    with pytest.raises(Rejected) as refused:
        place_replicas(cluster, 1, replicas, Random(1).randrange)
    assert refused.value.code is ErrorCode.INVALID_REPLICATION_FACTOR
    assert text in refused.value.message
