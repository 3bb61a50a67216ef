"""Ottla's decisions as a controller that takes the protocol's messages, to compare with Kafka's (`kafka_controller`).

The state follows the records that Kafka's controller wrote, not its own, so that after a difference both continue from the same state.
Topic ids are those that Kafka's controller chose, and all random numbers drawn for a request are one number, as in `kafka_controller`. The
controller's real handlers convert the messages to decisions.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from random import Random
from types import SimpleNamespace
from typing import Any, Final, NamedTuple, TypeVar

from ottla.broker.api.context import Context
from ottla.broker.api.routes import controller_routes
from ottla.broker.api.served_api import ListenerType
from ottla.broker.cluster.features import METADATA_VERSION
from ottla.broker.cluster.metadata_records import ConfigRecord, FeatureLevelRecord, MetadataRecord, TopicRecord
from ottla.broker.configs.broker_config import BrokerConfigs
from ottla.broker.controller.activation import activate
from ottla.broker.controller.elect_leaders import balance_leaders, elect_unclean_leaders
from ottla.broker.controller.heartbeats import fence_stale
from ottla.broker.controller.state import ControllerState, EffectsOutsideLog
from ottla.broker.core.effects import Effects
from ottla.broker.core.settings_load import load
from ottla.protocol.messages.k19_create_topics import CreateTopicsResponse
from ottla.protocol.schema import Message, decode, encode
from tests.support.kafka_controller import CLUSTER_ID, FIRST_OFFSET, NODE_ID, START_MS, Advance, Answer, Order, Request, Start, Task

T = TypeVar("T")
MEMBER: Final = {
    "node.id": str(NODE_ID),
    "process.roles": "broker",
    "controller.quorum.voters": f"{NODE_ID + 1}@localhost:9093",
    "controller.listener.names": "CONTROLLER",
}
Decided = Effects[MetadataRecord, Any]
NOTHING: Final[Decided] = Effects([], None)


class Verdict(NamedTuple):
    """Ottla's result of an order (a request, a clock advance or a timer of the controller): the records and the response, if the order has
    any. `more`: a timer wants to run again at once."""

    records: Sequence[MetadataRecord]
    response: Message | None
    more: bool = False


class Draw(Random):
    """A random generator that returns `number` for every draw, as the generator of Kafka's controller does, and the topic ids that Kafka
    chose in place of random bytes."""

    number = 0

    def __init__(self) -> None:
        super().__init__(0)
        self.topic_ids: deque[bytes] = deque()

    def _randbelow(self, n: int) -> int:  # used by every choice and shuffle of Random
        return self.number % n

    def randbytes(self, n: int) -> bytes:
        """Return the next of the topic ids that Kafka's controller chose, in place of random bytes."""
        return self.topic_ids.popleft() if self.topic_ids else bytes([7] * n)


class OttlasController:
    """Ottla's controller; `execute` runs an order (a request, a clock advance or a timer), given the result of Kafka's controller."""

    def __init__(self) -> None:
        self._draw = Draw()
        self._decided: Decided = NOTHING
        self._tasks: dict[str, Callable[[], Decided]] = {
            "fence": lambda: fence_stale(self.state, self.now_ms),
            "elect-preferred": lambda: balance_leaders(self.state),
            "elect-unclean": lambda: elect_unclean_leaders(self.state),
        }

    def execute(self, order: Order, theirs: Answer) -> Verdict | None:
        """Return Ottla's result of the order; None if Ottla does not support it. `theirs` is the result of Kafka's controller. Raises any
        exception of a decision but a rejection."""
        self._decided = NOTHING
        response: Message | None = None
        served = True
        match order:
            case Start():
                self._decided = self._start(order)
            case Advance(milliseconds):
                self.now_ms += milliseconds
            case Task(name):
                self._decided = self._tasks[name]()
            case Request(message, version, draw) if message.API_KEY in controller_routes():
                self._draw.number, self._draw.topic_ids = draw, topic_ids(theirs)
                response = self._answer(decode(type(message), encode(message, version), version), version)
            case _:
                served = False
        self._follow(theirs)
        more = bool(self._decided.response) if isinstance(order, Task) else False
        return Verdict(self._decided.records, response, more) if served else None

    async def run(self, decide: Callable[[ControllerState], Effects[MetadataRecord, T]], *, validate_only: bool = False) -> T:
        """Implement what handlers need of an `ActiveController`; records are not written, because Kafka's are."""
        effects = decide(self.state)
        self._decided = NOTHING if validate_only else effects
        return effects.response

    @property
    def voter(self) -> Any:
        """A stand-in for `SoleVoter` with the part that request handlers use."""
        return SimpleNamespace(end_offset=self.end_offset, is_standalone=False)

    def _answer(self, request: Message, version: int) -> Message:
        services: Any = SimpleNamespace(
            listener_type=ListenerType.CONTROLLER,
            settings=self.state.settings,
            clock=SimpleNamespace(mono_ms=lambda: self.now_ms),
            active=self,
            broker_configs=self._broker_configs,
            topics=self.state.catalog,
            authorizer=None,
            quotas=None,
        )
        judge: Any = SimpleNamespace(is_forwarded=False)
        answering = controller_routes()[request.API_KEY].handle(Context(version, "judge", judge, services), request)
        try:
            answering.send(None)
        except StopIteration as answered:
            response: Message = answered.value
            return response
        raise AssertionError(f"{request} waits for something")

    def _follow(self, theirs: Answer) -> None:
        written = theirs.decoded()
        process_batch_end_offset = (
            self._decided.process_batch_end_offset if isinstance(self._decided, EffectsOutsideLog) else lambda _: None
        )
        self.state.apply(EffectsOutsideLog(written, None, process_batch_end_offset), self.end_offset)
        self.end_offset += len(written)
        if any(isinstance(record, ConfigRecord) for record in written):
            self._broker_configs.refresh()  # as a controller does after a commit

    def _start(self, order: Start) -> Decided:
        settings = load({**MEMBER, **order.settings}, {}, None).settings
        self.state = ControllerState(CLUSTER_ID, settings, self._draw, [NODE_ID])
        self._broker_configs = BrokerConfigs(settings, self.state.catalog)
        self.now_ms, self.end_offset = START_MS, FIRST_OFFSET
        names = sorted(order.features, key=lambda name: (name != METADATA_VERSION, name))
        return activate(self.state, [FeatureLevelRecord(name, order.features[name]) for name in names])


def topic_ids(answer: Answer) -> deque[bytes]:
    """Return the ids of new topics; for topics that were only validated, those in the response."""
    ids = deque(record.topic_id for record in answer.decoded() if isinstance(record, TopicRecord))
    if not ids and isinstance(answer.response, CreateTopicsResponse):
        ids = deque(topic.topic_id for topic in answer.response.topics if topic.topic_id != bytes(16))
    return ids
