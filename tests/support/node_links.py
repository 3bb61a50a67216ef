"""A virtual clock and a network in memory on one event loop, and links to scripted nodes in it."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any

from ottla.broker.core.clock import VirtualClock
from ottla.broker.core.timers import Timers
from ottla.broker.net.node_client import NodeClient
from ottla.broker.runtime.nodes.link import Node
from ottla.broker.runtime.upkeep.nursery import Nursery
from ottla.broker.runtime.upkeep.timer_driver import TimerDriver
from ottla.broker.sim.memory_network import MemoryNetwork
from tests.support.answering_node import Answer, ScriptedNode
from tests.support.simulation import settle


class LinkHarness:
    """A virtual clock, timers and a network in memory for links to nodes. Create it on a running event loop."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.timers = Timers()
        self.network = MemoryNetwork()
        self.lost: list[BaseException] = []
        self.nursery = Nursery(self.timers, self.clock, self.lost.append)
        self.driver = TimerDriver(self.timers, self.clock)
        self.driver.start()

    def connect(self, node: Node) -> NodeClient:
        """Return a link (a connection that is opened on demand) to a node."""
        return NodeClient(node, self.network, clock=self.clock, timers=self.timers, random=Random(1), client_id="broker-1")

    async def answering(self, node: Node, answer: Answer, versions: dict[int, tuple[int, int]]) -> ScriptedNode:
        """Start a scripted node, which responds by `answer`, at the address of `node`, and return it."""
        return await ScriptedNode(self.network, node.host, node.port, answer, versions).start()

    async def pass_ms(self, ms: int) -> None:
        self.clock.advance(ms)
        await settle()

    async def outcome(self, call: asyncio.Task[Any]) -> Any:
        """Return the result of a call over a link; None while the call is pending."""
        await settle()
        return None if not call.done() else (call.exception() or call.result())
