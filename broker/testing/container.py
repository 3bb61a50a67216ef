"""A broker in a Docker container for testcontainers-python, in the style of its KafkaContainer.

Rules:
- Clients reach the broker through a mapped port, which only the container engine knows, and only after the container's start. So the
  container first waits for the broker's advertised address, which the test process writes into it by `docker exec`, and then starts the
  broker. This is done at each start, because a restart may map another port.
- The container is ready when it answers ApiVersions through the mapped port.
- If the engine is local, ports are published only on loopback.

```python
with OttlaContainer("ottla").with_admin() as broker:       # docker build -t ottla .
    broker.add_fault("drop-ack:api=Produce,times=1")
    produce_something(broker.get_bootstrap_server())
```
"""

from __future__ import annotations

import json
import secrets
import time
import urllib.parse
import urllib.request
from typing import Any, Self

from testcontainers.core.config import ConnectionMode
from testcontainers.core.container import DockerContainer
from testcontainers.core.waiting_utils import WaitStrategy, WaitStrategyTarget

from ottla.broker.faults.rules import parse_rule
from ottla.protocol.client import Client
from ottla.protocol.errors import ProtocolError
from ottla.protocol.messages.k18_api_versions import ApiVersionsRequest

START_TIMEOUT_S = 60
POLL_S = 0.05
_ASK_TIMEOUT_S = 5.0
_ADDRESS_FILE = "/tmp/ottla-advertised"
_WAIT_FOR_ADDRESS = (
    f"until [ -s {_ADDRESS_FILE} ]; do sleep 0.02; done; OTTLA_ADVERTISED_LISTENERS=$(cat {_ADDRESS_FILE}); rm {_ADDRESS_FILE}; "
    'export OTTLA_ADVERTISED_LISTENERS; exec ottla-entrypoint "$@"'
)
_GIVE_ADDRESS = f'printf %s "$1" > {_ADDRESS_FILE}.part && mv {_ADDRESS_FILE}.part {_ADDRESS_FILE}'
_COUNTED = ("seen", "hits", "consumed")
_DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))
"""An HTTP client that ignores the proxy settings of the environment, because a proxy cannot reach the admin port."""


class KafkaWaitStrategy(WaitStrategy):
    """Waits until the broker in the container answers ApiVersions through the mapped port. It is not enough that the port is open, because
    the container engine itself listens on it."""

    def __init__(self, port: int) -> None:
        super().__init__()
        self._port = port
        self.with_poll_interval(POLL_S).with_startup_timeout(START_TIMEOUT_S)

    def wait_until_ready(self, container: WaitStrategyTarget) -> None:
        """Wait until the broker in the container answers. Raises TimeoutError after the start timeout (60 seconds by default), and
        RuntimeError as soon as the container has ended; both texts contain the container's log."""
        deadline = time.monotonic() + self._startup_timeout
        while True:
            container.reload()
            if container.status in {"exited", "dead"}:
                raise RuntimeError(f"the broker's container ended: {_text(container)}")
            try:
                host, port = container.get_container_host_ip(), container.get_exposed_port(self._port)
                with Client(host, port, client_id="testcontainers", timeout_s=_ASK_TIMEOUT_S) as client:
                    client.highest_version(ApiVersionsRequest)
                return
            except (OSError, ProtocolError) as error:
                if time.monotonic() > deadline:
                    text = f"the broker did not answer within {self._startup_timeout:g} s"
                    raise TimeoutError(f"{text} ({error}): {_text(container)}") from error
            time.sleep(self._poll_interval)


class OttlaContainer(DockerContainer):
    """A broker in a container, from the image that `docker build -t ottla .` makes. Containers in the same Docker network reach the broker
    on port 29092."""

    PORT = 9092
    INTERNAL_PORT = 29092
    ADMIN_PORT = 9644
    DATA = "/data"

    def __init__(self, image: str = "ottla", **kwargs: Any) -> None:
        super().__init__(image, **kwargs)
        self._options: list[str] = []
        self.admin_token = secrets.token_urlsafe()
        """The token of the admin port (an HTTP port for faults and the clock); requests send it as `Authorization: Bearer …`."""
        self._expose(self.PORT)
        self.waiting_for(KafkaWaitStrategy(self.PORT))

    def with_setting(self, name: str, value: str | int) -> Self:
        """Set a broker setting by Kafka's name: `with_setting("num.partitions", 3)`."""
        return self.with_option(f"--set={name}={value}")

    def with_option(self, *options: str) -> Self:
        """Add command-line options of `ottla serve`, the command that runs in the container."""
        self._options.extend(options)
        return self

    def with_like(self, release: str) -> Self:
        """Make the broker answer clients as an older release of Apache Kafka does: `with_like("3.7")` (docs/releases.md)."""
        return self.with_option(f"--like={release}")

    def with_fault(self, rule: str) -> Self:
        """Load a fault rule (docs/faults.md) when the broker starts, such as `drop-ack:api=Produce,times=1`. Raises FaultSyntax for an
        invalid rule."""
        parse_rule(rule)
        return self.with_option(f"--fault={rule}")

    def with_admin(self) -> Self:
        """Open the admin port, an HTTP port for faults and the clock (docs/faults.md). The methods `get_admin_url`, `add_fault` and
        `advance_clock` need it."""
        self._expose(self.ADMIN_PORT)
        self.with_env("OTTLA_ADMIN_TOKEN", self.admin_token)
        return self.with_option("--admin-host=0.0.0.0", f"--admin-port={self.ADMIN_PORT}")

    def with_marks(self) -> Self:
        """Enable `mark` (save the broker's state) and `rewind` (return to it), and open the admin port. The data directory becomes a
        subdirectory of the volume: a rewind replaces the directory, and a volume's root cannot be replaced."""
        return self.with_admin().with_option(f"--data-dir={self.DATA}/marked")

    def with_data(self, volume: str) -> Self:
        """Store the data in the named Docker volume `volume`, or in the host's directory with that path. The image's user must be able to
        write to the directory."""
        return self.with_volume_mapping(volume, self.DATA, "rw")

    def get_bootstrap_server(self) -> str:
        """Return the bootstrap server, `host:port`, for clients on this machine. It may change with a restart."""
        return self._address(self.PORT)

    def get_admin_url(self) -> str:
        """Return the URL of the admin port (an HTTP port for faults and the clock). The option `--admin` of `ottla faults` takes the part
        after `http://`."""
        return f"http://{self._address(self.ADMIN_PORT)}"

    def add_fault(self, rule: str) -> str:
        """Load a fault rule (docs/faults.md) into the running broker; return the rule's name. Raises FaultSyntax for an invalid rule,
        OSError if the broker rejects the rule or was started without `with_admin`."""
        given = {name: value for name, value in parse_rule(rule).to_json().items() if name not in _COUNTED}
        return str(self.admin("POST", "/faults", given)["name"])

    def advance_clock(self, seconds: float) -> None:
        """Advance the broker's clock by a number of seconds, and run everything that becomes due. Raises OSError if the broker was started
        without `with_admin`."""
        self.admin("POST", "/clock/advance", {"ms": round(seconds * 1000)})

    def mark(self, name: str = "") -> str:
        """Save the broker's present state, so that `rewind` can return to it. Return the name of the saved state: `name`, or a generated
        name if it is empty. Raises HTTPError if the broker rejects this, for instance without `with_marks`."""
        return str(self.admin("POST", "/marks", {"name": name})["name"])

    def rewind(self, name: str) -> None:
        """Return the broker to the state that `mark` saved under this name. Clients must connect again, to the same port. Raises HTTPError
        if the broker rejects this, for instance for an unknown name."""
        self.admin("POST", f"/marks/{urllib.parse.quote(name, safe='')}/rewind")

    def admin(self, method: str, path: str, body: Any = None) -> Any:
        """Send an HTTP request to the broker's admin port, with `body` as JSON (None: no body); return the decoded JSON response. Raises
        HTTPError for an error status."""
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {self.admin_token}"}
        request = urllib.request.Request(self.get_admin_url() + path, data, headers, method=method)
        with _DIRECT.open(request, timeout=START_TIMEOUT_S) as answer:
            text = answer.read()
        return json.loads(text) if text else None

    def start(self) -> Self:
        """Start the container and wait until the broker answers. Raises TimeoutError or RuntimeError, with the container's log."""
        self._kwargs = {**self._kwargs, "entrypoint": ["/bin/sh", "-c", _WAIT_FOR_ADDRESS, "ottla"]}
        self.with_command(["serve", *self._options])
        ready, self._wait_strategy = self._wait_strategy, None
        try:
            super().start()
        finally:
            self._wait_strategy = ready
        return self._come_up()

    def restart(self, *, kill: bool = False) -> Self:
        """Stop the container (with SIGTERM; with `kill`: SIGKILL), start it again with the same data, and wait until the broker answers.
        The mapped port may change. Raises TimeoutError or RuntimeError, with the container's log."""
        container = self.get_wrapped_container()
        if kill:
            container.kill()
            container.wait()
        else:
            container.stop()
        container.start()
        return self._come_up()

    def _come_up(self) -> Self:
        listeners = f"PLAINTEXT://{self.get_bootstrap_server()}"
        done = self.exec(["/bin/sh", "-c", _GIVE_ADDRESS, "sh", listeners])
        if done.exit_code != 0:
            raise RuntimeError(f"the container did not accept its address: {done.output.decode(errors='replace')} {_text(self)}")
        if self._wait_strategy is not None:
            self._wait_strategy.wait_until_ready(self)
        return self

    def _address(self, port: int) -> str:
        host = self.get_container_host_ip()
        return f"{f'[{host}]' if ':' in host else host}:{self.get_exposed_port(port)}"

    def _expose(self, port: int) -> None:
        client = self.get_docker_client()
        if client.get_connection_mode() == ConnectionMode.docker_host and client.host() in {"localhost", "127.0.0.1"}:
            self.ports[str(port)] = ("127.0.0.1",)  # type: ignore[assignment] # the engine's client takes an address too
        else:
            self.with_exposed_ports(port)


def _text(container: WaitStrategyTarget) -> str:
    return b"".join(container.get_logs()).decode(errors="replace")
