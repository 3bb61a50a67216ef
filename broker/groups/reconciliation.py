"""Takes a consumer group's member one step towards its target assignment: which partitions it keeps, must revoke, and newly gets.

Invariants, which ensure that each partition has one owner:

1. Partitions that the member has outside its target are revoked first. Until the member confirms this, by its list of owned partitions, it
   stays in its epoch and gets nothing new.
2. Then it enters the target's epoch and gets the free partitions of its target. A partition is free (`is_free`) if no other member has it
   assigned or has still to confirm its revocation.
3. While some partitions of its target are not free, the member waits. Each heartbeat checks them again; a newer target may make the member
   revoke more meanwhile.
4. A topic that the member has unsubscribed from is not assigned, even if the target still has it: the next target may not be computed yet.

Source: Kafka's CurrentAssignmentBuilder; KIP-848 "Assignment process".
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from ottla.broker.core.rejected import Rejected
from ottla.broker.groups.consumer_member import Assignment, ConsumerMember, MemberState, epochs_of
from ottla.protocol.error_codes import ErrorCode


@dataclass(frozen=True, slots=True)
class Target:
    """A member's target assignment and its epoch. `is_free` returns whether no member holds a partition. `subscribed` has the ids of the
    member's subscribed topics; `subscription_changed` is true if the request being processed has changed the subscription.
    """

    epoch: int
    assignment: Assignment
    is_free: Callable[[bytes, int], bool]
    subscribed: frozenset[bytes]
    subscription_changed: bool = False


def reconcile(member: ConsumerMember, target: Target, owned: Assignment | None) -> ConsumerMember:
    """Return the member after one step towards its target; the same object if nothing changes. `owned` are the partitions that the request
    lists as owned; None if it has no list.

    Raises Rejected(FENCED_MEMBER_EPOCH) if a newer coordinator has written a member state that is unknown here, unless the request's list
    of owned partitions is empty.
    """
    after = _step(member, target, owned)
    return member if after == member else after


def _step(member: ConsumerMember, target: Target, owned: Assignment | None) -> ConsumerMember:
    if member.state is MemberState.STABLE and member.epoch == target.epoch:
        return _without_unsubscribed(member, target, owned)
    if member.state is MemberState.UNREVOKED_PARTITIONS and owns_revoked_partitions(owned, member.pending_revocation):
        return _without_unsubscribed(member, target, owned)
    if member.state is not MemberState.UNKNOWN:
        return _next(member, member.epoch, target, owned)
    if owned is None or owned:
        raise Rejected(
            ErrorCode.FENCED_MEMBER_EPOCH,
            "The consumer group member is in a unknown state. The member must abandon all its partitions and rejoin.",
        )
    return _next(member, target.epoch, target, owned)


def owns_revoked_partitions(owned: Assignment | None, revoked: Assignment) -> bool:
    """Return whether the member still has to confirm a revocation: its request lists a partition of `revoked`, or has no list of owned
    partitions (None)."""
    return owned is None or any(partitions & revoked.get(topic_id, frozenset()) for topic_id, partitions in owned.items())


def is_subset(owned: Assignment | None, assigned: Assignment) -> bool:
    """Return whether the request lists owned partitions (not None), and all of them are in `assigned`."""
    return owned is not None and all(partitions <= assigned.get(topic_id, frozenset()) for topic_id, partitions in owned.items())


def _without_unsubscribed(member: ConsumerMember, target: Target, owned: Assignment | None) -> ConsumerMember:
    """Return the member without the partitions of topics from which this request unsubscribes it. If it still owns them, they are pending
    revocation. If the request has not changed the subscription, return the member unchanged.
    """
    gone = {topic_id: partitions for topic_id, partitions in member.assigned.items() if topic_id not in target.subscribed}
    if not gone or not target.subscription_changed:
        return member
    kept = {topic_id: partitions for topic_id, partitions in member.assigned.items() if topic_id in target.subscribed}
    revoked = dict(member.pending_revocation)
    for topic_id, partitions in gone.items():
        revoked[topic_id] = revoked.get(topic_id, frozenset()) | partitions
    if owns_revoked_partitions(owned, revoked):
        return _moved(member, MemberState.UNREVOKED_PARTITIONS, member.epoch, kept, revoked)
    return _moved(member, member.state, member.epoch, kept, member.pending_revocation)


def _next(member: ConsumerMember, epoch: int, target: Target, owned: Assignment | None) -> ConsumerMember:
    kept: dict[bytes, frozenset[int]] = {}
    revoked: dict[bytes, frozenset[int]] = {}
    pending: dict[bytes, frozenset[int]] = {}
    has_unreleased = False
    for topic_id in target.assignment.keys() | member.assigned.keys():
        wanted = target.assignment.get(topic_id, frozenset()) if topic_id in target.subscribed else frozenset()
        had = member.assigned.get(topic_id, frozenset())
        missing = wanted - had
        own = member.pending_revocation.get(topic_id, frozenset())
        free = frozenset(partition for partition in missing if partition in own or target.is_free(topic_id, partition))
        has_unreleased = has_unreleased or free != missing
        for assignment, partitions in ((kept, had & wanted), (revoked, had - wanted), (pending, free)):
            if partitions:
                assignment[topic_id] = partitions
    if revoked and owns_revoked_partitions(owned, revoked):
        return _moved(member, MemberState.UNREVOKED_PARTITIONS, epoch, kept, revoked)
    state = MemberState.UNRELEASED_PARTITIONS if has_unreleased else MemberState.STABLE
    given = {topic_id: kept.get(topic_id, frozenset()) | pending.get(topic_id, frozenset()) for topic_id in kept.keys() | pending.keys()}
    return _moved(replace(member, epochs={**member.epochs, **epochs_of(pending, target.epoch)}), state, target.epoch, given, {})


def _moved(member: ConsumerMember, state: MemberState, epoch: int, assigned: Assignment, revoked: Assignment) -> ConsumerMember:
    """Return the member in the new state. The epoch that it has now becomes its previous epoch; requests with the previous epoch are still
    accepted, because the response with the new one may be lost.
    """
    after = replace(member, state=state, epoch=epoch, previous_epoch=member.epoch, assigned=assigned, pending_revocation=revoked)
    return replace(after, epochs={partition: member.epochs[partition] for partition in after.held_partitions()})
