"""Creation of missing topics that a broker or a client needs. A topic that is already being created is not requested again."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from typing import NamedTuple, Protocol

from ottla.broker.cluster.image import TopicImage
from ottla.broker.controller.create_topics import NewTopic
from ottla.broker.core.peer_log import PEERS, shown
from ottla.broker.core.principal import Principal
from ottla.broker.core.rejected import Rejected
from ottla.broker.runtime.upkeep.nursery import Nursery

peer_logger = logging.getLogger(PEERS)


class Client(Protocol):
    """The client on whose behalf a request is sent: its address and principal, and whether it authenticated with a delegation token."""

    @property
    def host(self) -> str: ...
    @property
    def principal(self) -> Principal: ...
    @property
    def token_authenticated(self) -> bool: ...


class Requester(NamedTuple):
    """The client whose request causes the creation of topics. `charge` charges a number of partitions to the client's quota, and raises
    Rejected if the quota is used up; only a controller in the same process calls `charge`.
    """

    client: Client
    client_id: str | None
    charge: Callable[[int], None]


class TopicMaker(Protocol):
    """Creates topics and allocates producer ids for a broker. It is implemented by `LocalTopics`, which calls a controller in this process,
    and by `RemoteTopics` (`ottla.broker.runtime.nodes.remote_topics`), which sends requests to the controller."""

    async def allocate_producer_ids(self) -> range:
        """Return a block of producer ids that no other request got. Raises Rejected if none can be allocated."""
        ...

    async def create(self, topics: Sequence[NewTopic], requester: Requester | None = None) -> dict[str, Rejected | None]:
        """Create topics as requested. Return, by name, None if the topic exists now, or the error.

        `requester` is the client whose quota the new partitions count against; None means this broker itself. A controller in another
        process also authorizes the client. Raises Rejected if the whole request fails, for example without a response (REQUEST_TIMED_OUT).
        """
        ...

    async def auto_create(self, names: Iterable[str]) -> dict[str, Rejected | None]:
        """Create missing topics with the broker's default settings; an internal topic, such as `__consumer_offsets`, gets settings of its
        own. Return, by name, None if the topic exists now, or the error. Raises Rejected if the whole request fails, for example without a
        response of the controller (REQUEST_TIMED_OUT).
        """
        ...

    def begin_auto_create(self, names: Iterable[str], requester: Requester | None = None) -> None:
        """Start to create missing topics as `auto_create` does, and return at once. A topic that is already being created is not requested
        again. `requester` is the client whose quota the new partitions count against (a controller in another process also authorizes the
        client); None means that the broker itself needs the topics.

        A failure is only logged; the caller checks later whether the topic exists.
        """
        ...

    async def ensure(self, name: str) -> TopicImage:
        """Return the topic. Create it if it does not exist. Raises Rejected if the creation fails or is not finished yet; after an
        unfinished creation the caller may try again.
        """
        ...


Creation = Callable[[Sequence[str]], Awaitable[dict[str, Rejected | None]]]
"""A function that creates the topics with the given names. It returns, by name, None if the topic exists now, or the error. It raises
Rejected if the whole request fails."""


class AutoCreation:
    """Creates topics in the background. A topic that is already being created is not created again."""

    def __init__(self, nursery: Nursery) -> None:
        self._nursery = nursery
        self._being_created: set[str] = set()

    def begin(self, names: Iterable[str], create: Creation) -> None:
        """Start to create the topics with the function `create`, except those that are already being created. Return at once. A failure is
        only logged."""
        wanted = [name for name in names if name not in self._being_created]
        if not wanted:
            return
        self._being_created.update(wanted)
        self._nursery.run("creation of topics", partial(self._make, wanted, create))

    async def _make(self, names: Sequence[str], create: Creation) -> None:
        try:
            answers = await create(names)
        except Rejected as error:
            first = shown(names[0])
            peer_logger.warning("cannot create the %d requested topic(s), the first being %s: %s", len(names), first, error)
            return
        finally:
            self._being_created.difference_update(names)
        for name, refused in answers.items():
            if refused is not None:
                peer_logger.warning("cannot create the requested topic %s: %s", name, refused)
