"""A gateway in this process, on its own thread and event loop, in front of any cluster.

```python
with InProcessGateway(to="localhost:9092") as gateway:
    gateway.faults.add("drop-ack:api=Produce,topic=orders,times=1")
    produce_something(gateway.bootstrap)
    gateway.faults.assert_consumed()
```
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

from ottla.broker.core.clock import MovableClock
from ottla.broker.faults.engine import Faults
from ottla.broker.faults.rules import NEEDS_A_BROKER, parse_rule
from ottla.broker.gateway.address_book import Address
from ottla.broker.net.gateway import Gateway, GatewaySettings
from ottla.broker.testing.broker_thread import NodeThread
from ottla.broker.testing.controls import ClockControl, FaultControl
from ottla.broker.testing.in_process import several

_HOST = "127.0.0.1"


class InProcessGateway(NodeThread[Gateway]):
    """A gateway to the cluster whose bootstrap servers are `to`. Use as a context manager, or call `start` and `stop`.

    `faults` is a rule of `ottla gateway --fault`, or several. `port` 0 chooses free ports. `settings` replaces `to` and `port`, for
    instance for TLS.
    """

    def __init__(self, to: str = "", *, faults: str | Sequence[str] = (), port: int = 0, settings: GatewaySettings | None = None) -> None:
        super().__init__(Path(), "gateway")
        self.script = Faults((parse_rule(rule) for rule in several(faults)), refused=NEEDS_A_BROKER)
        self.faults = FaultControl(self, self.script)
        self._clock = MovableClock()
        self.clock = ClockControl(self, self._clock)
        self.settings = settings or GatewaySettings([_address(item) for item in to.split(",")], _HOST, port)

    @property
    def bootstrap(self) -> str:
        """The bootstrap server. Raises RuntimeError before the start."""
        if not self.running:
            raise RuntimeError("the gateway has no port yet: start it first")
        return f"{_HOST}:{self.node.ports[0]}"

    def start(self) -> InProcessGateway:
        """Start the gateway unless it runs. Raises OSError if its port is in use."""
        if self.running:
            return self
        self.start_loop()
        try:
            self.call_async(self._start())
        except BaseException:
            self.end_loop()
            raise
        self.running = True
        return self

    def stop(self) -> None:
        """Close all connections and ports."""
        if self.running:
            self.call_async(self.node.stop())
            self.end_loop()

    async def _start(self) -> None:
        self.node = Gateway(self.settings, self.script, self._clock)
        await self.node.start()

    def __enter__(self) -> InProcessGateway:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()


def _address(text: str) -> Address:
    host, _, port = text.rpartition(":")
    return Address(host.strip("[]"), int(port))
