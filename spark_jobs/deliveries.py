"""Counts the records delivered to share groups, according to the records that `__share_group_state` still holds.

These are figures, not findings: a group with archived records can be correct. Superseded state is deleted from the log, so records below
the start offset, which the group has finished, are not counted.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ShareDeliveries:
    """The delivery state of one partition's records in a share group, according to `__share_group_state`.

    `topic`: the topic's name, or its id if no log of it is in the directory. `start_offset`: the records before it are finished (-1: the
    group has not begun). `last_offset`: the last record with a state (None: there is none). `records`: the number of records with a state,
    which is `accepted` + `archived` (given up without being accepted: rejected, or delivered too often) + `waiting` (to be delivered
    again). `redelivered`: records that were delivered more than once. `deliveries_max`: the highest delivery count of a record.
    """

    group_id: str
    topic: str
    partition: int
    start_offset: int
    last_offset: int | None
    records: int
    accepted: int
    archived: int
    waiting: int
    redelivered: int
    deliveries_max: int
