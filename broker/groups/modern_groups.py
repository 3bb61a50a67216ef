"""All consumer groups, share groups or streams groups of one partition of `__consumer_offsets`: part of `GroupCoordinator`.

Invariants:

* An operation begins an update (`group_update`) of the group. The runtime appends the update's records and then calls `apply` for each.
  If the update raises Rejected, no record is written.
* All kinds of groups are in the coordinator's one table of groups, because a group id names one group of any kind.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, Generic, TypeVar

from ottla.broker.core.effects import Effects
from ottla.broker.core.rejected import Rejected
from ottla.broker.groups.deadlines import Deadlines
from ottla.broker.groups.group_records import GroupRecord
from ottla.broker.groups.group_update import GroupUpdate, ModernConfig
from ottla.broker.groups.modern import FIRST_EPOCH, ModernGroup
from ottla.broker.groups.results import Reply
from ottla.broker.groups.states import Now
from ottla.broker.groups.topics_view import TopicsView
from ottla.protocol.error_codes import ErrorCode

GroupT = TypeVar("GroupT", bound=ModernGroup[Any, Any])
ConfigT = TypeVar("ConfigT", bound=ModernConfig)
UpdateT = TypeVar("UpdateT", bound=GroupUpdate[Any, Any])
T = TypeVar("T")


class ModernGroups(ABC, Generic[GroupT, ConfigT, UpdateT]):
    """Operations on groups of one kind (consumer, share or streams). `groups` is the coordinator's table of groups of all kinds;
    `config_of` returns a group's current settings by id."""

    GROUP: ClassVar[type[ModernGroup[Any, Any]]]
    UPDATE: ClassVar[Callable[..., GroupUpdate[Any, Any]]]
    EPOCH_KEY: ClassVar[type[Any]]
    """The class of the record key of a group's epoch. The tombstone of this record deletes the group."""

    def __init__(self, groups: dict[str, Any], config_of: Callable[[str], ConfigT], topics: TopicsView) -> None:
        self._groups = groups
        self._config_of = config_of
        self._topics = topics
        self.deadlines: dict[str, Deadlines] = {}
        """The deadlines of each group, by group id. A deleted group, or one whose first operation was rejected, has no entry."""

    # --- time -----------------------------------------------------------------------------------------------------------------

    def next_deadline(self, group_id: str) -> int | None:
        """Return the monotonic time in ms at which `expire` may have work for the group; None without deadlines."""
        deadlines = self.deadlines.get(group_id)
        return None if deadlines is None else deadlines.next_ms

    @abstractmethod
    def expire(self, group: GroupT, now: Now) -> Effects[GroupRecord, list[Reply]]:
        """Process the group's deadlines that have passed, such as expired sessions. Return the records and replies."""

    @abstractmethod
    def on_loaded(self, group: GroupT, now: Now) -> None:
        """Start all members' sessions anew after the group was loaded."""

    @abstractmethod
    def on_write_failed(self, group: GroupT, now: Now) -> None:
        """Start the timers anew, and reset other state that is not persisted, after the write of the last operation's records has
        failed."""

    # --- persistence ----------------------------------------------------------------------------------------------------------

    def apply(self, key: Any, value: Any) -> None:
        """Apply a record of this kind of group. A value creates the group if necessary, in place of a group of another kind with its id; a
        tombstone of the group's epoch removes the group."""
        group, is_end = self._groups.get(key.group), value is None and isinstance(key, self.EPOCH_KEY)
        if is_end:
            self.forget(key.group)
        if value is not None and not isinstance(group, self.GROUP):
            group = self._groups[key.group] = self._new(key.group)
        if not isinstance(group, self.GROUP):
            return
        group.apply(key, value)
        if is_end:
            del self._groups[key.group]

    def forget(self, group_id: str) -> None:
        """Drop the timers and other unpersisted state of a deleted group."""
        self.deadlines.pop(group_id, None)

    # --- lookup ---------------------------------------------------------------------------------------------------------------

    def existing(self, group_id: str) -> GroupT:
        """Return the group with this id. Raises Rejected(GROUP_ID_NOT_FOUND) if there is none, or if it is a group of another kind."""
        group = self._groups.get(group_id)
        if isinstance(group, self.GROUP):
            return group  # type: ignore[return-value] # GROUP is the class of GroupT
        found = "not found" if group is None else f"is not a {self.GROUP.PROTOCOL_TYPE} group"
        raise Rejected(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} {found}.")

    def _new(self, group_id: str) -> GroupT:
        return self.GROUP(group_id, FIRST_EPOCH if self._config_of(group_id).delays_assignments else 0)  # type: ignore[return-value] # as above

    def _begin_update(self, group: GroupT, now: Now) -> UpdateT:
        """Return an update of the group: the operation that decides changes on a copy. The deadlines of an existing group are registered
        now; those of a new group only by `_effects`, because the operation may still be rejected."""
        deadlines = self.deadlines.get(group.group_id) or Deadlines()
        if self._groups.get(group.group_id) is group:
            self.deadlines[group.group_id] = deadlines
        return self.UPDATE(group, deadlines, self._topics, self._config_of(group.group_id), now)  # type: ignore[return-value] # as above

    def _effects(self, update: UpdateT, response: T) -> Effects[GroupRecord, T]:
        self.deadlines[update.group_id] = update.deadlines
        return Effects(update.records, response)
