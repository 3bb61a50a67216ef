"""Sends a broker's requests to the active controller, one at a time (Kafka's NodeToControllerRequestThread).

Invariants:
- Requests are sent in the order of the calls.
- A request is sent again, before all later ones, when its connection breaks or the node answers NOT_CONTROLLER. The controller may
  therefore apply it twice, so callers must send only requests that tolerate that.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from ottla.broker.core import limits
from ottla.broker.core.clock import Clock
from ottla.broker.core.state_lines import StateLines
from ottla.broker.core.timers import Timers
from ottla.broker.runtime.nodes.authentication import AuthenticationFailed
from ottla.broker.runtime.nodes.link import Connect, Link, LinkBroken, Node
from ottla.broker.runtime.upkeep.timer_driver import wait_at_most
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.schema import Message

logger = logging.getLogger(__name__)


class ControllerUnreachable(Exception):
    """No controller answered in time, or the channel was closed. The request may or may not have been applied."""


class ControllerAuthenticationFailed(ControllerUnreachable):
    """The controller has rejected this broker's credentials, or the controller's own identity could not be verified. The next call connects
    again.
    """


class ControllerChannel:
    """A broker's connection to the active controller, with a queue of requests. `find_controller` returns the active controller's address,
    or None while this node does not know it.

    A call fails with ControllerUnreachable if no controller has answered within `retry_timeout_ms` (None: no limit); this time includes the
    wait for earlier calls. If one response takes longer than `socket_timeout_ms`, the request is sent again.
    """

    def __init__(
        self,
        connect: Connect,
        find_controller: Callable[[], Node | None],
        *,
        clock: Clock,
        timers: Timers,
        name: str,
        retry_timeout_ms: int | None,
        socket_timeout_ms: int = limits.CONTROLLER_SOCKET_MS,
    ) -> None:
        self._connect = connect
        self._find_controller = find_controller
        self._clock = clock
        self._timers = timers
        self._name = name
        self._retry_timeout_ms = retry_timeout_ms
        self._timeout_ms = socket_timeout_ms if retry_timeout_ms is None else min(socket_timeout_ms, retry_timeout_ms)
        self._turns: deque[asyncio.Future[None]] = deque()
        self._busy = False
        self._node: Node | None = None
        self._link: Link | None = None
        self._seen: Link | None = None
        self._skipped: Node | None = None
        self._looked_again: asyncio.Future[None] | None = None
        self._closed = False
        self._lines = StateLines(logger, clock.mono_ms)
        self._logged: Node | None = None

    async def call(self, request: Message) -> Any:
        """Send `request` to the active controller and return the response.

        Raises ControllerUnreachable if no controller answers in time, if authentication fails, and if the channel is closed. Raises
        UnsupportedByPeer if the controller does not serve the API.
        """
        self._check_open()
        wait_ms = self._retry_timeout_ms
        deadline_ms = None if wait_ms is None else self._clock.mono_ms() + wait_ms
        await self._turn(deadline_ms)
        try:
            return await self._carry_out(request, deadline_ms)
        finally:
            self._busy = False
            self._next()

    async def _turn(self, deadline_ms: int | None) -> None:
        """Wait until all earlier calls of this channel have ended. Raises ControllerUnreachable when monotonic time reaches
        `deadline_ms`."""
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._turns.append(turn)
        self._next()
        timer = None if deadline_ms is None else self._timers.schedule(deadline_ms, partial(self._overdue, turn))
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():  # cancelled in the turn of the loop in which its turn came
                self._busy = False
                self._next()
            raise
        finally:
            if timer is not None:
                timer.cancel()

    def _next(self) -> None:
        """Let the next waiting call begin, if no call is in progress."""
        while self._turns and not self._busy:
            turn = self._turns.popleft()
            if not turn.done():
                self._busy = True
                turn.set_result(None)

    def _overdue(self, turn: asyncio.Future[None]) -> None:
        if not turn.done():
            turn.set_exception(self._not_found())

    def _not_found(self) -> ControllerUnreachable:
        return ControllerUnreachable(f"{self._name}: no controller was found in {self._retry_timeout_ms} ms")

    def _check_open(self) -> None:
        if self._closed:
            raise ControllerUnreachable(f"the channel {self._name} is closed")

    def versions(self, api_key: int) -> tuple[int, int] | None:
        """Return the lowest and highest version of an API on the controller that was reached last. Return None if that controller does not
        serve the API, or none was reached yet."""
        for link in (self._link, self._seen):
            if link is not None and link.versions(ApiKey.API_VERSIONS) is not None:
                return link.versions(api_key)
        return None

    def look_again(self) -> None:
        """Look for the controller now, without waiting for the end of the current pause. Call this when this node has learned of another
        controller."""
        if self._looked_again is not None and not self._looked_again.done():
            self._looked_again.set_result(None)

    def close(self) -> None:
        """Close the connection and fail all pending calls with ControllerUnreachable."""
        self._closed = True
        for turn in self._turns:
            if not turn.done():
                turn.set_exception(ControllerUnreachable(f"the channel {self._name} was closed"))
        self.look_again()
        if self._link is not None:
            self._link.close()

    async def _carry_out(self, request: Message, deadline_ms: int | None) -> Any:
        """Send the request until a controller answers it. Raises ControllerUnreachable when monotonic time reaches `deadline_ms`, if
        authentication fails, and if the channel is closed; UnsupportedByPeer if the controller does not serve the API.
        """
        while True:
            self._check_open()
            if deadline_ms is not None and self._clock.mono_ms() >= deadline_ms:
                raise self._not_found()
            link = self._link or self._dial()
            if link is None:
                await self._wait_to_look_again(deadline_ms)
                continue
            try:
                response = await link.call(request, timeout_ms=self._timeout_ms)
            except AuthenticationFailed as error:
                self._leave(str(error))
                raise ControllerAuthenticationFailed(str(error)) from error
            except LinkBroken as error:
                self._leave(str(error))
                continue
            if ErrorCode.NOT_CONTROLLER in _error_codes(response):
                self._leave("it says that it is not the controller")
                continue
            self._lines.ended("left", "%s: the controller answers", self._name)
            return response

    async def _wait_to_look_again(self, deadline_ms: int | None) -> None:
        """Wait until `look_again` is called, for at most CONTROLLER_DISCOVERY_MS and not beyond `deadline_ms` (monotonic time; None: no
        deadline).
        """
        left_ms = limits.CONTROLLER_DISCOVERY_MS if deadline_ms is None else deadline_ms - self._clock.mono_ms()
        self._looked_again = asyncio.get_running_loop().create_future()
        await wait_at_most(self._timers, self._clock, min(limits.CONTROLLER_DISCOVERY_MS, left_ms), [self._looked_again])

    def _dial(self) -> Link | None:
        """Return a new link (connection) to the controller. Return None if no controller is known, or if the link to the known controller
        was just closed: the caller then waits before the next attempt.
        """
        found = self._find_controller()
        skipped, self._skipped = self._skipped, None
        if found is None or found == skipped:
            return None
        if found != self._logged:
            logger.info("%s: the controller is node %d at %s:%d", self._name, *found)
            self._logged = found
        self._node = found
        self._link = self._connect(found)
        return self._link

    def _leave(self, why: str) -> None:
        """Close the connection to a node, because the node cannot be reached or says that it is not the controller. `why` is
        for the log.
        """
        self._lines.report("left", logging.INFO, "%s: leaving the controller: %s", self._name, why)
        assert self._link is not None
        self._link.close()
        if self._link.versions(ApiKey.API_VERSIONS) is not None:
            self._seen = self._link
        self._link = None
        self._skipped = self._node


def _error_codes(message: Any) -> Iterator[int]:
    """Yield every error code of a response, nested ones included."""
    for name in message.__dataclass_fields__:
        value = getattr(message, name)
        if name == "error_code":
            yield value
        elif isinstance(value, list) and value and hasattr(value[0], "__dataclass_fields__"):
            for element in value:
                yield from _error_codes(element)
