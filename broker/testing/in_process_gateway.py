"""A gateway (a Kafka proxy that injects faults) in this process, on its own thread and event loop, in front of any cluster.

```python
with InProcessGateway(to="localhost:9092").record() as gateway:
    gateway.faults.add("drop-ack:api=Produce,topic=orders,times=1")
    produce_something(gateway.bootstrap)
    gateway.faults.assert_consumed()
    gateway.assert_exactly_once("orders")
```
"""

from __future__ import annotations

import os
from collections.abc import Hashable, Iterable, Sequence
from pathlib import Path
from types import TracebackType

from ottla.broker.core.clock import MovableClock
from ottla.broker.faults.engine import Faults
from ottla.broker.faults.rules import NEEDS_A_BROKER, parse_rule
from ottla.broker.gateway.address_book import Address
from ottla.broker.net.gateway import Gateway, GatewaySettings
from ottla.broker.testing.anomalies import Identity
from ottla.broker.testing.broker_thread import InProcessNode
from ottla.broker.testing.controls import ClockControl, FaultControl
from ottla.broker.testing.history import History
from ottla.broker.testing.in_process import several

_HOST = "127.0.0.1"


class InProcessGateway(InProcessNode[Gateway]):
    """A gateway (a Kafka proxy that injects faults) in this process, in front of the cluster whose bootstrap servers are `to`. Use it as a
    context manager, or call `start` and `stop`.

    `faults` is a fault rule, in the syntax of `ottla gateway --fault`, or several. `port` is the first port, 0 for any free ones.
    `command_config` is a file with client security settings: the gateway takes its TLS settings to connect to the cluster, and
    `assert_exactly_once` reads the cluster's logs with them. If `settings` is given, the gateway uses it in place of all settings that
    would follow from `to`, `port` and `command_config`.
    """

    def __init__(
        self,
        to: str = "",
        *,
        faults: str | Sequence[str] = (),
        port: int = 0,
        command_config: str | os.PathLike[str] | None = None,
        settings: GatewaySettings | None = None,
    ) -> None:
        super().__init__(Path(), "gateway")
        self.script = Faults((parse_rule(rule) for rule in several(faults)), refused=NEEDS_A_BROKER)
        self.faults = FaultControl(self, self.script)
        self.history = History(self._topic_name)
        """What clients have sent and received through the gateway since `record` was called."""
        self._recording = False
        self._clock = MovableClock()
        self.clock = ClockControl(self, self._clock)
        self._to, self._port, self._settings = to, port, settings
        self._command_config = None if command_config is None else Path(command_config)

    @property
    def bootstrap(self) -> str:
        """The gateway's address for clients, `host:port`. Raises RuntimeError if the gateway does not run."""
        if not self.running:
            raise RuntimeError("the gateway has no port yet: start it first")
        return f"{_HOST}:{self.node.ports[0]}"

    @property
    def port(self) -> int:
        """The port of the gateway's bootstrap address. The gateway has a further port for each broker of the cluster. Raises RuntimeError
        if the gateway does not run."""
        return int(self.bootstrap.rpartition(":")[2])

    @property
    def is_up(self) -> bool:
        """Whether the gateway runs and is not paused."""
        return self.running and not self.paused

    def record(self) -> InProcessGateway:
        """From now on, record what clients send and receive through the gateway, for `assert_exactly_once`. Return this gateway. While it
        records, the gateway answers the requests of a connection one after the other."""
        if not self._recording:
            self._recording = True
            self.script.observe(self.history)
        return self

    def assert_exactly_once(
        self,
        topics: str | Iterable[str] | None = None,
        *,
        expected: Iterable[Hashable] | None = None,
        by: str | Identity = "value",
        audit: bool = True,
    ) -> None:
        """Compare what clients sent and received through the gateway with the cluster's logs. The arguments are those of
        `InProcessBroker.assert_exactly_once`. The gateway reads the logs over its own connections to the cluster, up to the high watermark.

        By default, `topics` are those that clients wrote or read through the gateway. Raises NotExactlyOnce with an explanation; OSError if
        the cluster cannot be read; RuntimeError if nothing was recorded, or if no client used the gateway and neither `topics` nor
        `expected` is given; KeyError, TypeError and ValueError for invalid arguments.
        """
        from ottla.broker.testing.wire_verdict import WireSource, assert_exactly_once  # noqa: PLC0415 # only for tests that judge

        if not self._recording:
            raise RuntimeError("nothing was recorded: call record() before the clients begin")
        source = WireSource(self._to, self._command_config)
        assert_exactly_once(source, self.history, topics, expected=expected, by=by, audit=audit)

    async def _start(self) -> None:
        self.node = Gateway(self._settings or self._settings_of_arguments(), self.script, self._clock)
        await self.node.start()

    def _settings_of_arguments(self) -> GatewaySettings:
        from ottla.broker.testing.wire_verdict import WireSource  # noqa: PLC0415 # brings the audit's client along

        there = WireSource(self._to, self._command_config).address()
        tls = there.security.tls() if there.security.encrypted else None
        return GatewaySettings([Address(*each) for each in there.servers], _HOST, self._port, cluster_tls=tls)

    def _topic_name(self, topic_id: bytes) -> str | None:
        return self.node.book.topic_name(topic_id)

    def __enter__(self) -> InProcessGateway:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()
