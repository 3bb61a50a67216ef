"""A user without permissions changes nothing, whatever the form of the request: at a standalone node, a cluster broker, and its controller.

The requests use every API that changes state, with duplicate, null and unknown elements. Each response has an authorization error, or an
error in the request's form that Kafka returns before it authorizes. Metadata, logs, groups and loggers stay the same.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace
from random import Random
from typing import Any, Final, NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ottla.broker.api.authorizer import authorizer_of
from ottla.broker.api.context import Listener, Peer
from ottla.broker.api.controller_dispatch import ControllerDispatcher
from ottla.broker.api.dispatch import Dispatcher
from ottla.broker.api.reply import CLOSE
from ottla.broker.api.routes import broker_routes
from ottla.broker.api.services import ControllerServices
from ottla.broker.app import Broker
from ottla.broker.core.acl import STANDARD_AUTHORIZER
from ottla.broker.core.principal import Principal
from ottla.broker.core.settings_load import load
from ottla.broker.environment import Environment
from ottla.broker.faults.engine import Faults
from ottla.broker.runtime.upkeep.turns import Turns
from ottla.broker.sim.memory_files import MemoryFiles
from ottla.broker.sim.sim_threads import InlineThreads
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.codec import decode_response, encode_request
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k19_create_topics import CreatableTopic, CreateTopicsRequest
from ottla.protocol.schema import Message
from tests.support.altering_requests import AT_BROKERS, AT_CONTROLLERS, TOPIC, requests
from tests.support.owned_cluster import OwnedCluster
from tests.support.simulation import TimelessLoop

EXAMPLES: Final = 300
GUARDED: Final = {"authorizer.class.name": STANDARD_AUTHORIZER, "super.users": "User:ANONYMOUS", "delegation.token.secret.key": "secret"}
"""Nodes, and the client that prepares a test, are ANONYMOUS."""
ANN: Final = Peer("10.1.2.3", "127.0.0.1", 9092, Listener("PLAINTEXT", "127.0.0.1", 9092), principal=Principal("User", "ann"))
DENIALS: Final = {code for code in ErrorCode if code.name.endswith("AUTHORIZATION_FAILED")}
OF_FORM: Final = {
    ErrorCode.INVALID_REQUEST,
    ErrorCode.UNSUPPORTED_VERSION,
    ErrorCode.INVALID_REQUIRED_ACKS,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
    ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED,
}
"""Errors that Kafka returns to everybody, too."""
WITHOUT_A_CODE: Final = (ApiKey.ELECT_LEADERS, 0)
"""The denial of an election of all partitions is an empty answer, as in Kafka."""


class Listener(NamedTuple):
    """A listener under attack: its dispatcher, the keys of the APIs that change state there, and `state()`, which returns all that they
    could change."""

    dispatcher: Dispatcher
    keys: tuple[int, ...]
    state: Any


class Harness:
    """A standalone node, and a cluster of one broker and a controller, each with a topic, on one loop with virtual time."""

    def __init__(self, runner: asyncio.Runner) -> None:
        self._runner = runner
        self.cluster = OwnedCluster(1, controller=GUARDED, **{name.replace(".", "_"): value for name, value in GUARDED.items()})
        environment = Environment(self.cluster.clock, MemoryFiles(), self.cluster.network, Random(1), InlineThreads)
        wanted = {**GUARDED, "log.dir": "/alone", "listeners": "PLAINTEXT://alone:9092"}
        self._alone = Broker(load(wanted, {}, None).settings, Faults(), environment)
        self.listeners: dict[str, Listener] = {}
        runner.run(self._begin())

    async def _begin(self) -> None:
        await self.cluster.start()
        await self._alone.start()
        role, broker = self.cluster.controller_host.running.role, self.cluster.members[1].broker
        assert broker is not None
        settings = self.cluster.controller_host.running.settings
        controller = ControllerServices(
            settings=settings,
            clock=self.cluster.clock,
            timers=self.cluster.timers,
            turns=Turns(self.cluster.clock),
            topics=role.state.catalog,
            features=role.features,
            broker_configs=role.broker_configs,
            random_bytes=Random(1).randbytes,
            stop_at_once=print,
            authorizer=authorizer_of(settings, lambda: role.newest.image.acls, self.cluster.clock),
            controller=role,
        )

        def state_of_controller() -> Any:
            return role.newest.image, role.broker_configs.loggers.levels()

        def state_of(node: Broker) -> Any:
            services = node.services
            ends = [(each.topic, each.index, each.log.log_start_offset, each.log.log_end_offset) for each in services.partitions]
            return services.topics.image, ends, services.broker_configs.loggers.levels(), list(services.groups.all_groups())

        self.listeners = {
            "standalone": Listener(Dispatcher(self._alone.services, Faults()), AT_BROKERS, lambda: state_of(self._alone)),
            "broker": Listener(
                Dispatcher(broker.services, Faults(), broker_routes()),
                AT_BROKERS,
                lambda: (state_of(broker), role.newest.image),
            ),
            "controller": Listener(ControllerDispatcher(controller), AT_CONTROLLERS, state_of_controller),
        }
        create = CreateTopicsRequest([CreatableTopic(TOPIC, 1, 1)])
        for name in ("standalone", "broker"):
            (created,) = (await self._ask(name, create, 7, replace(ANN, principal=Principal("User", "ANONYMOUS")))).topics
            assert created.error_code == 0, created
        await self.cluster.until(lambda: self.cluster.members[1].knows(TOPIC), "the topic is there")

    def topic_id(self, listener: str) -> bytes:
        services: Any = (self._alone if listener == "standalone" else self.cluster.members[1].broker).services
        return services.topics.image.topic_ids[TOPIC]

    def ask(self, listener: str, request: Message, version: int) -> Any:
        return self._runner.run(self._ask(listener, request, version, ANN))

    async def _ask(self, listener: str, request: Message, version: int, peer: Peer) -> Any:
        frame = b"".join(encode_request(request.API_KEY, version, 1, "ann", request))[4:]
        reply: Any = self.listeners[listener].dispatcher.handle(peer, frame)
        reply = await self.cluster.done(reply) if inspect.isawaitable(reply) else reply
        return reply if reply is None or reply is CLOSE else decode_response(request.API_KEY, version, b"".join(reply)[4:])[1]

    def end(self) -> None:
        self._runner.run(self._alone.stop())
        self._runner.run(self.cluster.stop())


@pytest.fixture(scope="module")
def harness() -> Iterator[Harness]:
    with asyncio.Runner(loop_factory=TimelessLoop) as runner:
        harness = Harness(runner)
        yield harness
        harness.end()


_CODES: Final = ("error_code", "partition_error_code")


def innermost_codes(struct: Any) -> list[int]:
    """Return the error codes of a response's innermost elements; of a struct without such elements, its own."""
    inner = [each for field in fields(struct) for each in _structs(getattr(struct, field.name))]
    below = [code for each in inner for code in innermost_codes(each)]
    own = [getattr(struct, field.name) for field in fields(struct) if field.name in _CODES]
    return below or own


def _structs(value: object) -> list[Any]:
    return [each for each in (value if isinstance(value, list) else [value]) if is_dataclass(each)]


@pytest.mark.parametrize("listener", ["standalone", "broker", "controller"])
@settings(max_examples=EXAMPLES, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_user_without_permissions_alters_nothing_by_any_request(harness: Harness, listener: str, data: st.DataObject) -> None:
    request, version = data.draw(requests(harness.listeners[listener].keys, harness.topic_id(listener)))
    before = harness.listeners[listener].state()
    answer = harness.ask(listener, request, version)
    assert harness.listeners[listener].state() == before
    if answer is not None and answer is not CLOSE and (request.API_KEY, version) != WITHOUT_A_CODE:
        assert {ErrorCode(code) for code in innermost_codes(answer)} <= DENIALS | OF_FORM, answer
