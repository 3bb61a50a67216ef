"""A cluster broker in memory. It forwards requests that the controller decides in Envelope requests, which a scripted controller
answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any

from ottla.broker.api.context import Listener, Peer
from ottla.broker.api.dispatch import Dispatcher
from ottla.broker.api.reply import CLOSE
from ottla.broker.api.routes import broker_routes
from ottla.broker.app import Broker
from ottla.broker.core.settings_load import load
from ottla.broker.environment import Environment
from ottla.broker.faults.engine import Faults
from ottla.broker.runtime.nodes.controller_channel import ControllerChannel
from ottla.broker.runtime.nodes.envelopes import EnvelopeForwarding
from ottla.broker.runtime.nodes.link import Node
from ottla.broker.sim.memory_files import MemoryFiles
from ottla.broker.sim.sim_threads import InlineThreads
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.codec import Request, decode_request, decode_response, encode_request, encode_response
from ottla.protocol.messages.k19_create_topics import CreatableTopic, CreatableTopicResult, CreateTopicsRequest, CreateTopicsResponse
from ottla.protocol.messages.k58_envelope import EnvelopeResponse
from ottla.protocol.schema import Message
from tests.support.answering_node import ScriptedNode
from tests.support.node_links import LinkHarness

CORRELATION_ID = 77
CONTROLLER = Node(3000, "controller", 9093)


def forwarded_request(request: Request) -> Request:
    """Return the client's request that an Envelope request forwards."""
    return decode_request(request.body.request_data)


def in_envelope(inner: Request, response: Message, correlation_id: int | None = None) -> EnvelopeResponse:
    header = inner.header
    written = encode_response(
        header.api_key, header.api_version, header.correlation_id if correlation_id is None else correlation_id, response
    )
    return EnvelopeResponse(b"".join(written)[4:])


class Member:
    """A cluster broker. `broker` has started; it forwards controller requests through the channel."""

    def __init__(self, broker: Broker, channel: ControllerChannel) -> None:
        self.services = replace(broker.services, forwarding=EnvelopeForwarding(channel))
        self._dispatcher = Dispatcher(self.services, Faults(), broker_routes())
        self.peer = Peer("10.1.2.3", "127.0.0.1", 9092, Listener("PLAINTEXT", "127.0.0.1", 9092))

    async def ask(self, request: Message, version: int, client_id: str | None = "someone") -> Any:
        """Return the response to a client's request, or CLOSE if the connection is closed."""
        frame = b"".join(encode_request(request.API_KEY, version, CORRELATION_ID, client_id, request))[4:]
        reply: Any = self._dispatcher.handle(self.peer, frame)
        reply = await reply if hasattr(reply, "__await__") else reply
        if reply is CLOSE:
            return CLOSE
        correlation_id, response = decode_response(request.API_KEY, version, b"".join(reply)[4:])
        assert correlation_id == CORRELATION_ID
        return response


CREATE = CreateTopicsRequest([CreatableTopic("a", 1, 1), CreatableTopic("b", 1, 1)])


def topics_created(request: Request) -> EnvelopeResponse:
    """Return the response of a controller that creates every topic of the forwarded CreateTopics."""
    inner = forwarded_request(request)
    return in_envelope(inner, CreateTopicsResponse(topics=[CreatableTopicResult(topic.name) for topic in inner.body.topics]))


class ClusterBrokerInMemory(LinkHarness):
    """A cluster broker in memory whose requests to the controller are answered by a script."""

    async def begin(self, answer: Callable[[Request], Any], versions: dict[int, tuple[int, int]] | None = None) -> ClusterBrokerInMemory:
        self.controller: ScriptedNode = await self.answering(CONTROLLER, answer, versions or {ApiKey.ENVELOPE: (0, 0)})
        self.channel = ControllerChannel(
            self.connect, lambda: CONTROLLER, clock=self.clock, timers=self.timers, name="forwarding", retry_timeout_ms=60_000
        )
        environment = Environment(self.clock, MemoryFiles(), self.network, Random(1), InlineThreads)
        wanted = {"log.dir": "/data", "listeners": "PLAINTEXT://member:9092"}
        self.broker = Broker(load(wanted, {}, None).settings, Faults(), environment)
        await self.broker.start()
        self.member = Member(self.broker, self.channel)
        return self

    async def end(self) -> None:
        self.channel.close()
        await self.broker.stop()
