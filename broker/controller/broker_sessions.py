"""What the controller keeps in memory of the brokers: when each was heard of, and how far it has read the metadata.

Rules that hold inside:
- Nothing of this is in the log. A controller that starts gives every broker that is not fenced a whole session again.
- A session is measured in time in which the controller ran. A loop that stalls for longer than a session fences nobody. (Kafka's controller
  fences brokers after its own pause.)
- A session belongs to one epoch of a broker: who beats with an old epoch keeps nothing alive.
- A change of a broker's registration makes the offset that it told unknown (-1) until it beats again. Kafka does so too, and with it a
  broker that shuts down waits for one more beat of the others, not for one less.

Source: KAFKA BrokerHeartbeatManager, BrokerHeartbeatTracker.
"""

from __future__ import annotations

from enum import Enum
from typing import Final, NamedTuple

UNKNOWN_OFFSET: Final = -1
OFFSET_MAX: Final = 2**63 - 1


class BrokerState(Enum):
    """What a broker is, and what a heartbeat can make of it (Kafka's `BrokerControlState`)."""

    FENCED = "fenced"
    UNFENCED = "unfenced"
    CONTROLLED_SHUTDOWN = "controlled shutdown"
    SHUTDOWN_NOW = "shutdown now"

    @property
    def is_fenced(self) -> bool:
        """Whether it neither leads nor is in sync."""
        return self in {BrokerState.FENCED, BrokerState.SHUTDOWN_NOW}


class Contact(NamedTuple):
    """Whose session it is."""

    broker_id: int
    epoch: int


class _Heard(NamedTuple):
    """`shutdown_offset`: the metadata offset that the others must have read before the broker may end; -1 while it does not shut down."""

    fenced: bool
    metadata_offset: int = UNKNOWN_OFFSET
    shutdown_offset: int = UNKNOWN_OFFSET


class BrokerSessions:
    """Times are monotonic milliseconds."""

    def __init__(self, session_timeout_ms: int) -> None:
        self._timeout_ms = session_timeout_ms
        self._contacts: dict[Contact, int] = {}  # in the order of their times
        self._heard: dict[int, _Heard] = {}

    # --- contact -----------------------------------------------------------------------------------------------------------------

    def touch(self, contact: Contact, now_ms: int) -> None:
        """The broker was heard of: to be called when a heartbeat comes in, before it waits for its turn."""
        self._contacts.pop(contact, None)
        self._contacts[contact] = now_ms

    def not_listened(self, ms: int, now_ms: int) -> None:
        """The controller did not run for the last `ms`: it could receive no heartbeat then, so that time ends no session.

        In one process with its brokers, they could not send one either.
        """
        self._contacts = {contact: min(at_ms + ms, now_ms) for contact, at_ms in self._contacts.items()}

    def forget(self, contact: Contact) -> None:
        """This session has ended."""
        self._contacts.pop(contact, None)

    def is_valid(self, contact: Contact, now_ms: int) -> bool:
        """Whether the session was not silent for too long."""
        at_ms = self._contacts.get(contact)
        return at_ms is not None and not self._is_over(at_ms, now_ms)

    def expired(self, now_ms: int) -> Contact | None:
        """The session that was silent for the longest, if it was so for too long."""
        for contact, at_ms in self._contacts.items():
            return contact if self._is_over(at_ms, now_ms) else None
        return None

    def _is_over(self, at_ms: int, now_ms: int) -> bool:
        return at_ms + self._timeout_ms < now_ms

    # --- what brokers are and have read -------------------------------------------------------------------------------------------

    def register(self, broker_id: int, *, fenced: bool) -> None:
        """The broker's registration is new or has changed, and says whether it is fenced."""
        heard = self._heard.get(broker_id, _Heard(fenced))
        self.told(broker_id, fenced=fenced, offset=heard.metadata_offset if heard.fenced != fenced else UNKNOWN_OFFSET)

    def told(self, broker_id: int, *, fenced: bool, offset: int) -> None:
        """The broker has read the metadata up to this offset. One that is fenced is not shutting down any more."""
        shutdown_offset = UNKNOWN_OFFSET if fenced or broker_id not in self._heard else self._heard[broker_id].shutdown_offset
        self._heard[broker_id] = _Heard(fenced, offset, shutdown_offset)

    def shut_down_at(self, broker_id: int, offset: int) -> None:
        """The broker shuts down, and may end when the others have read up to this offset; the first one counts."""
        heard = self._heard[broker_id]
        if heard.shutdown_offset == UNKNOWN_OFFSET:
            self._heard[broker_id] = heard._replace(shutdown_offset=offset)

    def remove(self, broker_id: int) -> None:
        """There is no such broker any more, or it is another incarnation."""
        self._heard.pop(broker_id, None)

    def state(self, broker_id: int) -> BrokerState:
        """What the broker is. Raises KeyError for one that is not registered."""
        heard = self._heard[broker_id]
        if heard.shutdown_offset != UNKNOWN_OFFSET:
            return BrokerState.CONTROLLED_SHUTDOWN
        return BrokerState.FENCED if heard.fenced else BrokerState.UNFENCED

    def may_end(self, broker_id: int) -> bool:
        """Whether all active brokers have seen what moved away from this one."""
        active = (heard.metadata_offset for heard in self._heard.values() if not heard.fenced and heard.shutdown_offset == UNKNOWN_OFFSET)
        return self._heard[broker_id].shutdown_offset <= min(active, default=OFFSET_MAX)

    def usable(self) -> dict[int, bool]:
        """The brokers that new replicas can be given to, and whether each is fenced: all but those that shut down."""
        return {broker_id: heard.fenced for broker_id, heard in self._heard.items() if heard.shutdown_offset == UNKNOWN_OFFSET}
