"""Mutations for testing the simulation: rules of the controller about the ISR, leader elections, fencing and durable metadata that are
broken on purpose. The simulation must detect each of them.

The epoch checks of AlterPartition are not among them: 25 seeds did not detect that they were missing, because leader and controller also
check whether a new ISR member is eligible. tests/unit/broker/controller/test_alter_partition.py tests the epoch checks.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from typing import Any, Final

from ottla.broker.api import k67_allocate_producer_ids
from ottla.broker.cluster.image import PartitionRegistration
from ottla.broker.cluster.metadata_records import MetadataRecord
from ottla.broker.controller import alter_partition, partition_change, registrations
from ottla.broker.controller.broker_sessions import BrokerSessions
from ottla.broker.controller.partition_change import PartitionRules
from ottla.broker.controller.state import ControllerState
from ottla.broker.core.effects import Effects
from ottla.broker.replication.brokers import Brokers
from ottla.broker.replication.leadership import Leadership
from ottla.broker.runtime.nodes import snapshot_generator
from ottla.broker.runtime.quorum.sole_voter import SoleVoter
from ottla.broker.sim.mutation import Mutation, always, nothing


def _any_replica(original: Any) -> Callable[..., bool]:
    return lambda state, member: member.broker_id in state.image.brokers


def _any_fetching_replica(original: Any) -> Callable[..., bool]:
    return lambda self, node, epoch: epoch is not None


def _first_alive(original: Any) -> Callable[..., tuple[int, bool]]:
    def _elected(sets: Any, before: PartitionRegistration, rules: PartitionRules) -> tuple[int, bool]:
        leader, unclean = original(sets, before, rules)
        alive = next((replica for replica in sets.replicas if rules.may_lead(replica)), leader)
        return (leader, unclean) if leader == before.leader else (alive, False)

    return _elected


def _all_eligible(original: Any) -> Callable[..., Any]:
    def _with_elr(sets: Any, before: PartitionRegistration, lost: Collection[int], rules: PartitionRules) -> Any:
        found = original(sets, before, lost, rules)
        if not rules.has_elr or len(found.isr) >= rules.min_isr:
            return found
        return found._replace(elr=[replica for replica in found.replicas if replica not in found.isr])

    return _with_elr


def _ends_at_once(original: Any) -> Callable[..., Any]:
    def _reassigned(sets: Any) -> Any:
        if not sets.removing and not sets.adding:
            return sets
        replicas = [replica for replica in sets.replicas if replica not in sets.removing]
        return sets._replace(isr=replicas, replicas=replicas, removing=(), adding=())

    return _reassigned


def _same_block(original: Any) -> Callable[..., Effects[MetadataRecord, range]]:
    def allocate_block_to(state: ControllerState, broker_id: int, broker_epoch: int) -> Effects[MetadataRecord, range]:
        effects: Effects[MetadataRecord, range] = original(state, broker_id, broker_epoch)
        return replace(effects, response=range(effects.response.stop))

    return allocate_block_to


def _notified_before_sync(original: Any) -> Callable[..., None]:
    def _sync(self: SoleVoter) -> None:
        self._on_disk(self.end_offset)

    return _sync


def _without_the_last(original: Any) -> Callable[..., list[MetadataRecord]]:
    return lambda image: list(original(image))[:-1]


OF_THE_CONTROLLER: Final = (
    Mutation(
        "a fenced broker joins no ISR (controller and leader both check)",
        alter_partition,
        "_is_eligible",
        _any_replica,
        also=Mutation("the same at the leader", Brokers, "may_join", _any_fetching_replica),
    ),
    Mutation("only an in-sync or eligible replica is elected", partition_change, "_elected", _first_alive),
    Mutation("only a replica that left an ISR below its minimum is eligible to lead", partition_change, "_with_elr", _all_eligible),
    Mutation(
        "below min.insync.replicas nothing is committed, so that eligible replicas have everything",
        Leadership,
        "below_min_in_sync",
        always(False),
    ),
    Mutation("a reassignment ends when all added replicas are in sync", partition_change, "_reassigned", _ends_at_once),
    Mutation("a restarted broker leaves the ISR until it has caught up", registrations, "broker_restarted", always([])),
    Mutation("a silent broker is fenced", BrokerSessions, "expired", nothing),
    Mutation("a block of producer ids is allocated once", k67_allocate_producer_ids, "allocate_block_to", _same_block),
    Mutation("metadata is synced before it is published", SoleVoter, "_sync", _notified_before_sync),
    Mutation("a snapshot has everything that the log before it had", snapshot_generator, "to_records", _without_the_last),
)
