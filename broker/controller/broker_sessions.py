"""Broker state that the controller keeps only in memory: last contact and metadata offset of each broker.

Invariants:
- This state is not in the metadata log. A controller that starts gives every unfenced broker of another node a full session.
- A session timeout counts only the time in which the controller ran: if the event loop stalls for longer than the timeout, no broker is
  fenced. (Kafka's controller fences brokers after its own pause.)
- A session belongs to one broker epoch; a heartbeat with an older epoch does not extend it.
- As in Kafka, a registration record that does not change whether the broker is fenced resets the broker's metadata offset to unknown (-1)
  until its next heartbeat. Another broker in controlled shutdown may therefore wait for one heartbeat too many, but never for too few.

Source: Kafka's BrokerHeartbeatManager, BrokerHeartbeatTracker.
"""

from __future__ import annotations

from enum import Enum
from typing import Final, NamedTuple

UNKNOWN_OFFSET: Final = -1
OFFSET_MAX: Final = 2**63 - 1


class BrokerState(Enum):
    """A broker's state as the controller sees it (Kafka's `BrokerControlState`). Heartbeats change it."""

    FENCED = "fenced"
    UNFENCED = "unfenced"
    CONTROLLED_SHUTDOWN = "controlled shutdown"
    SHUTDOWN_NOW = "shutdown now"

    @property
    def is_fenced(self) -> bool:
        """Whether a broker in this state neither leads nor is in an ISR: it is fenced, or may shut down now."""
        return self in {BrokerState.FENCED, BrokerState.SHUTDOWN_NOW}


class BrokerIdAndEpoch(NamedTuple):
    """The owner of a heartbeat session: a broker id and the epoch of its registration."""

    broker_id: int
    epoch: int


class _Report(NamedTuple):
    """The last state that a broker reported. `metadata_offset` is the last offset of the metadata log that it has applied, -1 if unknown.
    `shutdown_offset` is -1 unless the broker is in controlled shutdown; then it is the metadata offset that all other active brokers must
    have applied before this broker may stop.
    """

    fenced: bool
    metadata_offset: int = UNKNOWN_OFFSET
    shutdown_offset: int = UNKNOWN_OFFSET


class BrokerSessions:
    """The heartbeat sessions and the reported states of all brokers. Times are monotonic ms."""

    def __init__(self, session_timeout_ms: int) -> None:
        self._timeout_ms = session_timeout_ms
        self._touched_ms: dict[BrokerIdAndEpoch, int] = {}  # oldest first, because `touch` moves an entry to the end
        self._reports: dict[int, _Report] = {}

    def __len__(self) -> int:
        return len(self._touched_ms)

    # --- contact -----------------------------------------------------------------------------------------------------------------

    def touch(self, session: BrokerIdAndEpoch, now_ms: int) -> None:
        """Extend a broker's session. Call this when a heartbeat arrives, before the heartbeat is queued."""
        self._touched_ms.pop(session, None)
        self._touched_ms[session] = now_ms

    def extend_all(self, ms: int, now_ms: int) -> None:
        """Extend all sessions by the last `ms` milliseconds, in which the controller did not run and so could not receive heartbeats.

        Brokers in the same process could not send heartbeats in that time either.
        """
        self._touched_ms = {session: min(at_ms + ms, now_ms) for session, at_ms in self._touched_ms.items()}

    def forget(self, session: BrokerIdAndEpoch) -> None:
        """End the heartbeat session of the broker with this epoch."""
        self._touched_ms.pop(session, None)

    def is_valid(self, session: BrokerIdAndEpoch, now_ms: int) -> bool:
        """Return whether the broker has a heartbeat session with this epoch that has not timed out."""
        at_ms = self._touched_ms.get(session)
        return at_ms is not None and not self._is_over(at_ms, now_ms)

    def expired(self, now_ms: int) -> BrokerIdAndEpoch | None:
        """Return the owner of the session with the oldest heartbeat if that session has timed out, otherwise None."""
        for session, at_ms in self._touched_ms.items():
            return session if self._is_over(at_ms, now_ms) else None
        return None

    def _is_over(self, at_ms: int, now_ms: int) -> bool:
        return at_ms + self._timeout_ms < now_ms

    # --- reported states ----------------------------------------------------------------------------------------------------------

    def register(self, broker_id: int, *, fenced: bool) -> None:
        """Record that the broker has registered, or that its registration has changed. If `fenced` is the same as before, the broker's
        metadata offset becomes unknown (-1) until its next heartbeat, as in Kafka.
        """
        report = self._reports.get(broker_id, _Report(fenced))
        self.report(broker_id, fenced=fenced, offset=report.metadata_offset if report.fenced != fenced else UNKNOWN_OFFSET)

    def report(self, broker_id: int, *, fenced: bool, offset: int) -> None:
        """Record whether the broker is fenced, and the last offset of the metadata log that it has applied. Fencing ends a controlled
        shutdown.
        """
        shutdown_offset = UNKNOWN_OFFSET if fenced or broker_id not in self._reports else self._reports[broker_id].shutdown_offset
        self._reports[broker_id] = _Report(fenced, offset, shutdown_offset)

    def maintain_controlled_shutdown_offset(self, broker_id: int, offset: int) -> None:
        """Begin the broker's controlled shutdown: it may shut down when all other active brokers have applied the metadata up to `offset`.
        Later calls have no effect."""
        report = self._reports[broker_id]
        if report.shutdown_offset == UNKNOWN_OFFSET:
            self._reports[broker_id] = report._replace(shutdown_offset=offset)

    def remove(self, broker_id: int) -> None:
        """Remove the reported state of a broker that was unregistered or restarted."""
        self._reports.pop(broker_id, None)

    def state(self, broker_id: int) -> BrokerState:
        """Return the broker's state as its heartbeats reported it. Raises KeyError for an unregistered broker."""
        report = self._reports[broker_id]
        if report.shutdown_offset != UNKNOWN_OFFSET:
            return BrokerState.CONTROLLED_SHUTDOWN
        return BrokerState.FENCED if report.fenced else BrokerState.UNFENCED

    def may_shut_down(self, broker_id: int) -> bool:
        """Return whether the broker, which is in controlled shutdown, may end: all active brokers have seen the changes that moved its
        leaderships to others.
        """
        active = (
            report.metadata_offset for report in self._reports.values() if not report.fenced and report.shutdown_offset == UNKNOWN_OFFSET
        )
        return self._reports[broker_id].shutdown_offset <= min(active, default=OFFSET_MAX)

    def usable(self) -> dict[int, bool]:
        """Return the brokers that may get new replicas: all that are not in controlled shutdown. The result maps each broker id to whether
        the broker is fenced."""
        return {broker_id: report.fenced for broker_id, report in self._reports.items() if report.shutdown_offset == UNKNOWN_OFFSET}
