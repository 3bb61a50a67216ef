"""The pytest plugin (entry point `ottla`): brokers, clusters and gateways as fixtures, each in the test process on threads of its own.

Rules:
- The broker is imported only when a test requests a fixture.
- Fixtures share nothing, so tests run in any order and under pytest-xdist.
- The data directory of a failed test is kept and named in its report.

```python
@pytest.mark.ottla(settings={"num.partitions": "3"})
def test_orders_are_written_once(ottla_broker, ottla_topic, ottla_faults):
    ottla_faults.add("drop-ack:api=Produce,times=1")
    send_orders(ottla_broker.bootstrap, ottla_topic)
    ottla_faults.assert_consumed()
    ottla_broker.assert_exactly_once()
```
"""

from __future__ import annotations

import inspect
import re
import shutil
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:  # every test run of a project that has Ottla imports this module
    from ottla.broker.storage.marks import Mark
    from ottla.broker.testing.acl_control import AclControl
    from ottla.broker.testing.cluster import InProcessCluster
    from ottla.broker.testing.controls import ClockControl, FaultControl, TopicControl
    from ottla.broker.testing.in_process import InProcessBroker
    from ottla.broker.testing.in_process_gateway import InProcessGateway

MARKER = "ottla"
_FAILED = pytest.StashKey[bool]()
_TOPIC_CHARACTERS = re.compile(r"[^a-zA-Z0-9._-]+")
_TOPIC_LENGTH_MAX = 200


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker `ottla` with pytest."""
    says = "configures this test's ottla_broker, its ottla_cluster (brokers=3, settings, faults), or its ottla_gateway (to, faults)"
    config.addinivalue_line("markers", f"{MARKER}(settings={{}}, faults=[], tls=False, users={{}}, like=None): {says}")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """If a phase of the test has failed, store this in the test item, so that its fixtures keep their data directories when they are torn
    down."""
    report = yield
    if report.failed:
        item.stash[_FAILED] = True
    return report


@pytest.fixture
def ottla_broker_factory(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[..., InProcessBroker]]:
    """Returns a function that starts a broker and returns it: `ottla_broker_factory(settings={…}, faults=[…])`. The function's arguments
    are those of `InProcessBroker`. The broker records what clients send and receive, and is stopped after the test. A data directory that
    the test passed as `data_dir` is not removed."""
    from ottla.broker.testing.in_process import InProcessBroker, UnsyncedFiles  # noqa: PLC0415 # only for tests with a broker

    with ExitStack() as stack:

        def start(**options: Any) -> InProcessBroker:
            own = options.get("data_dir") is None
            if own:
                options["data_dir"] = tmp_path_factory.mktemp("ottla") / "data"
            broker = InProcessBroker(**options).record()
            if own:
                broker.files = UnsyncedFiles()
            broker.start()
            stack.callback(_clear, request, "broker", broker.data_dir, own=own)
            stack.callback(broker.stop)
            return broker

        yield start


def _clear(request: pytest.FixtureRequest, what: str, data_dir: Path, *, own: bool) -> None:
    if request.node.stash.get(_FAILED, False):
        request.node.add_report_section("teardown", "ottla", f"the {what}'s data is kept in {data_dir}")
    elif own:
        shutil.rmtree(data_dir, ignore_errors=True)


def _marked(request: pytest.FixtureRequest, kind: type) -> dict[str, Any]:
    marker = request.node.get_closest_marker(MARKER)
    if marker is not None and marker.args:
        raise pytest.UsageError(f"@pytest.mark.{MARKER} takes keyword arguments only: settings={{…}}, faults=[…]")
    options: dict[str, Any] = {} if marker is None else marker.kwargs
    taken = inspect.signature(kind).parameters
    for name in options:
        if name not in taken:
            raise pytest.UsageError(f"@pytest.mark.{MARKER}: {request.fixturename} has no argument {name}; it has {', '.join(taken)}")
    return options


@pytest.fixture
def ottla_broker(request: pytest.FixtureRequest, ottla_broker_factory: Callable[..., InProcessBroker]) -> InProcessBroker:
    """A broker for this test, which records what clients send and receive. The test's marker `ottla` configures the broker."""
    from ottla.broker.testing.in_process import InProcessBroker  # noqa: PLC0415 # only for tests with a broker

    return ottla_broker_factory(**_marked(request, InProcessBroker))


@pytest.fixture
def ottla_cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[InProcessCluster]:
    """A cluster for this test, which records what clients send and receive. The test's marker `ottla` configures it; by default it has
    three brokers (`brokers=5`: five). A data directory that the marker names (`data_dir=…`) is not removed."""
    from ottla.broker.testing.cluster import InProcessCluster  # noqa: PLC0415 # only for tests with a cluster

    options = _marked(request, InProcessCluster)
    own = options.get("data_dir") is None
    if own:
        options = {**options, "data_dir": tmp_path_factory.mktemp("ottla") / "data"}
    cluster = InProcessCluster(**options).record()
    try:
        yield cluster.start()
    finally:
        cluster.kill_all()
        _clear(request, "cluster", cluster.data_dir, own=own)


@pytest.fixture
def ottla_gateway_to() -> str:
    """The bootstrap servers of the cluster behind the fixture `ottla_gateway`. A project overrides this fixture."""
    raise pytest.UsageError(
        'ottla_gateway needs a cluster: @pytest.mark.ottla(to="localhost:9092"), or a fixture ottla_gateway_to that returns its bootstrap '
        "servers (docs/gateway.md)"
    )


@pytest.fixture
def ottla_gateway(request: pytest.FixtureRequest) -> Iterator[InProcessGateway]:
    """A gateway (a proxy that injects faults) for this test, which records what clients send and receive. The test's marker `ottla` names
    the cluster behind it (`to="localhost:9092"`); otherwise the fixture `ottla_gateway_to` does."""
    from ottla.broker.testing.in_process_gateway import InProcessGateway  # noqa: PLC0415 # only for tests with a gateway

    options = _marked(request, InProcessGateway)
    if "to" not in options:
        options = {"to": request.getfixturevalue("ottla_gateway_to"), **options}
    with InProcessGateway(**options).record() as gateway:
        yield gateway


@pytest.fixture(scope="session")
def ottla_session_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InProcessBroker]:
    """One broker for the whole pytest session (under pytest-xdist: for each worker). Tests that share it need their own topics and
    groups."""
    from ottla.broker.testing.in_process import InProcessBroker, UnsyncedFiles  # noqa: PLC0415 # only for tests with a broker

    broker = InProcessBroker(tmp_path_factory.mktemp("ottla-session") / "data").record()
    broker.files = UnsyncedFiles()
    with broker:
        yield broker


@pytest.fixture(scope="session")
def ottla_seed() -> Callable[[InProcessBroker], object]:
    """A function that fills the broker of the fixture `ottla_seeded_broker` with data, once a session. A project overrides this fixture."""
    raise pytest.UsageError(
        "ottla_seeded_broker needs a session fixture ottla_seed, which returns a function of the broker (docs/testing.md)"
    )


@pytest.fixture(scope="session")
def ottla_seed_settings() -> dict[str, str | float]:
    """The broker settings of the fixture `ottla_seeded_broker`. A project overrides this fixture to change them."""
    return {}


@pytest.fixture(scope="session")
def _ottla_seeded(
    ottla_seed: Callable[[InProcessBroker], object],
    ottla_seed_settings: dict[str, str | float],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[InProcessBroker, Mark]]:
    from ottla.broker.testing.in_process import InProcessBroker, UnsyncedFiles  # noqa: PLC0415 # only for tests with a broker

    broker = InProcessBroker(tmp_path_factory.mktemp("ottla-seeded") / "data", ottla_seed_settings).record()
    broker.files = UnsyncedFiles()
    with broker:
        ottla_seed(broker)
        yield broker, broker.mark()


@pytest.fixture
def ottla_seeded_broker(_ottla_seeded: tuple[InProcessBroker, Mark]) -> InProcessBroker:
    """A broker with the data that the fixture `ottla_seed` has written, once a session (under pytest-xdist: once for each worker). Before
    each test, the broker is returned to that state."""
    broker, mark = _ottla_seeded
    broker.resume()
    broker.faults.reset()  # before the start, which a rule of the previous test could prevent: disk-full, for instance
    broker.rewind(mark)
    return broker


@pytest.fixture
def ottla_bootstrap(ottla_broker: InProcessBroker) -> str:
    """The bootstrap server (`host:port`) of the fixture `ottla_broker`."""
    return ottla_broker.bootstrap


@pytest.fixture
def ottla_topics(ottla_broker: InProcessBroker) -> TopicControl:
    """An object that creates topics of the fixture `ottla_broker`, and returns their names and end offsets."""
    return ottla_broker.topics


@pytest.fixture
def ottla_acls(ottla_broker: InProcessBroker) -> AclControl:
    """An object that adds and removes ACLs of the fixture `ottla_broker`. The broker's settings must name an authorizer."""
    return ottla_broker.acls


@pytest.fixture
def ottla_topic(request: pytest.FixtureRequest, ottla_broker: InProcessBroker) -> str:
    """The name of a new topic with one partition, which is named after the test."""
    name = _TOPIC_CHARACTERS.sub("-", request.node.name).strip("-") or "topic"
    return ottla_broker.topics.create(name[:_TOPIC_LENGTH_MAX])


@pytest.fixture
def ottla_faults(ottla_broker: InProcessBroker) -> FaultControl:
    """An object that loads and removes fault rules of the fixture `ottla_broker`."""
    return ottla_broker.faults


@pytest.fixture
def ottla_clock(ottla_broker: InProcessBroker) -> ClockControl:
    """An object that reads and advances the clock of the fixture `ottla_broker`."""
    return ottla_broker.clock
