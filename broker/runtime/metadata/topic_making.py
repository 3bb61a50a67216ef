"""Topics that somebody needs and that nobody created: who makes them, and that each is begun once."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from ottla.broker.core.peer_log import PEERS, shown
from ottla.broker.core.rejected import Rejected

if TYPE_CHECKING:
    from ottla.broker.cluster.image import TopicImage
    from ottla.broker.controller.create_topics import NewTopic
    from ottla.broker.core.principal import Principal

peer_logger = logging.getLogger(PEERS)


class Client(Protocol):
    """Who it is, and from where; by a delegation token or not."""

    @property
    def host(self) -> str: ...
    @property
    def principal(self) -> Principal: ...
    @property
    def by_token(self) -> bool: ...


class Asker(NamedTuple):
    """The client that asked for topics which are not there. `charge` is told of the partitions that are made here, and raises Rejected."""

    client: Client
    client_id: str | None
    charge: Callable[[int], None]


class TopicMaker(Protocol):
    """What the cluster's controller does for a broker's own needs: decided in this process (`TopicService`), or asked for
    (`ottla.broker.runtime.nodes.remote_topics`)."""

    async def allocate_producer_ids(self) -> range:
        """A block of producer ids that no other request was given. Raises Rejected when none can be had."""
        ...

    async def create(self, topics: Sequence[NewTopic]) -> dict[str, Rejected | None]:
        """Creates topics as they are asked for. None: the topic is there, made now or before. Raises Rejected where nothing was decided."""
        ...

    async def auto_create(self, names: Iterable[str]) -> dict[str, Rejected | None]:
        """Creates missing topics with the broker's defaults, internal ones with their own. None: the topic is there. Raises Rejected
        where nothing was decided."""
        ...

    def begin_auto_create(self, names: Iterable[str], asker: Asker | None = None) -> None:
        """Begins to make missing topics as `auto_create` does; returns at once. One that is being made so is not begun again. With `asker`
        that client is judged by the controller, and charged; without one the broker needs them itself.

        Nobody is told what becomes of it but the log: whoever needs the topic asks whether it is there.
        """
        ...

    async def ensure(self, name: str) -> TopicImage:
        """The topic. Where it is not there it is made, and Rejected is raised unless it is there at once."""
        ...

    async def stop(self) -> None:
        """Nothing is made any more; what has begun is finished or given up."""
        ...


class AutoCreation:
    """Topics that are being made in the background by `create`, which gives an error or None for each name, or raises Rejected."""

    def __init__(self, create: Callable[[Sequence[str], Asker | None], Awaitable[dict[str, Rejected | None]]]) -> None:
        self._create = create
        self._making: set[asyncio.Task[None]] = set()
        self._being_made: set[str] = set()

    def begin(self, names: Iterable[str], asker: Asker | None = None) -> None:
        """See `TopicMaker.begin_auto_create`."""
        wanted = [name for name in names if name not in self._being_made]
        if not wanted:
            return
        self._being_made.update(wanted)
        making = asyncio.get_running_loop().create_task(self._make(wanted, asker))
        self._making.add(making)
        making.add_done_callback(self._making.discard)

    async def finish(self) -> None:
        """Waits for all that has begun."""
        while self._making:
            await asyncio.gather(*self._making, return_exceptions=True)

    def give_up(self) -> None:
        """Waits for nothing more."""
        for making in self._making:
            making.cancel()

    async def _make(self, names: Sequence[str], asker: Asker | None) -> None:
        try:
            answers = await self._create(names, asker)
        except Rejected as error:
            first = shown(names[0])
            peer_logger.warning("%d topic(s) were asked for, the first is %s, and none can be created: %s", len(names), first, error)
            return
        finally:
            self._being_made.difference_update(names)
        for name, refused in answers.items():
            if refused is not None:
                peer_logger.warning("topic %s was asked for and cannot be created: %s", name, refused)
