"""Creates topics and allocates producer ids for a broker of a cluster, by requests to the controller (Kafka's
`DefaultAutoTopicCreationManager` and `RPCProducerIdManager`).

Invariants:
- A request names partitions and replicas only if this broker's settings set them explicitly; otherwise the controller's defaults apply.
  An internal topic is always requested with explicit counts and settings.
- If a client's request causes the creation of a topic, the request to the controller is sent on the client's behalf. The controller
  authorizes the client and charges its quotas, as for a CreateTopics request of the client.
- The broker uses a new topic only when the metadata log has it, not when the controller's response arrives.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, Final

from ottla.broker.cluster.catalog import Catalog
from ottla.broker.cluster.image import TopicImage
from ottla.broker.cluster.topic_names import is_internal
from ottla.broker.configs.topic_config import internal_topic_configs, internal_topic_partitions, internal_topic_replicas
from ottla.broker.controller.create_topics import NewTopic
from ottla.broker.core.rejected import Rejected, VersionNotKnown
from ottla.broker.core.settings import BrokerSettings
from ottla.broker.runtime.metadata.topic_making import AutoCreation, Requester
from ottla.broker.runtime.nodes.controller_channel import ControllerChannel, ControllerUnreachable
from ottla.broker.runtime.nodes.envelopes import EnvelopeForwarding
from ottla.broker.runtime.nodes.link import UnsupportedByPeer
from ottla.broker.runtime.upkeep.nursery import Nursery
from ottla.broker.runtime.upkeep.timer_driver import pause
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k19_create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest, CreateTopicsResponse
from ottla.protocol.messages.k67_allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from ottla.protocol.schema import Message

CONTROLLERS_CHOICE: Final = -1
REFUSED_MS: Final = 50
"""Milliseconds to wait after the controller has rejected a request for producer ids (Kafka's RPCProducerIdManager.RETRY_BACKOFF_MS)."""
_LAST_ID: Final = 2**63 - 1


class RemoteTopics:
    """Creates topics and allocates producer ids by requests to the controller (a `TopicMaker`). `broker_epoch` returns the epoch of this
    broker's registration.
    """

    def __init__(
        self,
        channel: ControllerChannel,
        catalog: Catalog,
        settings: BrokerSettings,
        broker_epoch: Callable[[], int],
        *,
        nursery: Nursery,
    ) -> None:
        self._channel = channel
        self._forwarding = EnvelopeForwarding(channel)
        self._catalog = catalog
        self._settings = settings
        self._broker_epoch = broker_epoch
        self._nursery = nursery
        self._auto_creation = AutoCreation(nursery)
        self._ids_given = 0

    async def auto_create(self, names: Iterable[str], requester: Requester | None = None) -> dict[str, Rejected | None]:
        """Ask the controller to create the topics with default settings, on behalf of the client `requester` (None: this broker itself).
        Return, by name, None if the topic exists now, or the error. Raises Rejected if the controller does not answer (REQUEST_TIMED_OUT)
        or does not support the request (UNSUPPORTED_VERSION).
        """
        return await self._create([self._wanted(name) for name in names], requester)

    async def create(self, topics: Sequence[NewTopic], requester: Requester | None = None) -> dict[str, Rejected | None]:
        """Ask the controller to create the topics as requested, on behalf of the client `requester` (None: this broker itself). Return, by
        name, None if the topic exists now, or the error. Raises Rejected if the controller does not answer (REQUEST_TIMED_OUT) or does not
        support the request (UNSUPPORTED_VERSION).
        """
        return await self._create(
            [
                CreatableTopic(
                    topic.name,
                    topic.num_partitions,
                    topic.replication_factor,
                    configs=[CreatableTopicConfig(name, value) for name, value in topic.configs],
                )
                for topic in topics
            ],
            requester,
        )

    async def _create(self, wanted: list[CreatableTopic], requester: Requester | None) -> dict[str, Rejected | None]:
        request = CreateTopicsRequest(wanted, timeout_ms=self._settings.request_timeout_ms)
        response: CreateTopicsResponse = await (self._ask(request) if requester is None else self._ask_for(requester, request))
        return {topic.name: _refusal(topic.error_code, topic.error_message) for topic in response.topics}

    def begin_auto_create(self, names: Iterable[str], requester: Requester | None = None) -> None:
        """Start to create missing topics as `auto_create` does, and return at once. A topic that is already being created is not requested
        again. A failure is only logged.
        """
        self._auto_creation.begin(names, partial(self.auto_create, requester=requester))

    async def ensure(self, name: str) -> TopicImage:
        """Return the topic. If it does not exist, start to create it and raise Rejected(COORDINATOR_NOT_AVAILABLE), on which a client
        retries."""
        topic = self._catalog.topic(name)
        if topic is None:
            self.begin_auto_create([name])
            raise Rejected(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"The topic {name} is being created.")
        return topic

    async def allocate_producer_ids(self) -> range:
        """Return a new block of producer ids from the controller.

        Raises Rejected(COORDINATOR_LOAD_IN_PROGRESS), on which every client retries, if the controller does not return a block. If the
        controller has rejected the request, the error is raised after a pause of REFUSED_MS, so that this broker does not repeat the
        request at once.
        """
        request = AllocateProducerIdsRequest(self._settings.node_id, self._broker_epoch())
        try:
            return self._block(await self._ask(request))
        except Rejected as error:
            if error.code != ErrorCode.REQUEST_TIMED_OUT:
                await pause(self._nursery.timers, self._nursery.clock, REFUSED_MS)
            raise Rejected(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, error.message) from error

    def _block(self, response: AllocateProducerIdsResponse) -> range:
        start, count = response.producer_id_start, response.producer_id_len
        if response.error_code != ErrorCode.NONE:
            raise Rejected(ErrorCode.of(response.error_code), f"the controller gives error {response.error_code} for producer ids")
        if start < self._ids_given or not 0 < count <= _LAST_ID - start:
            raise Rejected(ErrorCode.UNKNOWN_SERVER_ERROR, f"the controller gives {count} producer ids from {start} on")
        self._ids_given = start + count
        return range(start, start + count)

    def _wanted(self, name: str) -> CreatableTopic:
        settings = self._settings
        if is_internal(name):
            configs = [CreatableTopicConfig(*each) for each in internal_topic_configs(name, settings).items()]
            return CreatableTopic(name, internal_topic_partitions(name, settings), internal_topic_replicas(name, settings), configs=configs)
        partitions = settings.num_partitions if "num.partitions" in settings.explicit else CONTROLLERS_CHOICE
        replicas = settings.default_replication_factor if "default.replication.factor" in settings.explicit else CONTROLLERS_CHOICE
        return CreatableTopic(name, partitions, replicas)

    async def _ask_for(self, requester: Requester, request: CreateTopicsRequest) -> Any:
        _, newest = self._channel.versions(ApiKey.CREATE_TOPICS) or (0, CreateTopicsRequest.MAX_VERSION)
        version = min(newest, CreateTopicsRequest.MAX_VERSION)
        try:
            return await self._forwarding.forward(request, version, requester.client_id, requester.client)
        except VersionNotKnown as error:
            raise Rejected(ErrorCode.UNSUPPORTED_VERSION, str(error)) from error

    async def _ask(self, request: Message) -> Any:
        try:
            return await self._channel.call(request)
        except ControllerUnreachable as error:
            raise Rejected(ErrorCode.REQUEST_TIMED_OUT, str(error)) from error
        except UnsupportedByPeer as error:
            raise Rejected(ErrorCode.UNSUPPORTED_VERSION, str(error)) from error


def _refusal(code: int, message: str | None) -> Rejected | None:
    if code in {ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS}:
        return None
    return Rejected(ErrorCode.of(code), message or "")
