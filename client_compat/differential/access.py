"""Compare authorization: both brokers get the same random ACLs and the same random requests from an ordinary user.

Rules:
- The ACLs are in force at both brokers before the first request is sent.
- Every change that a request made is undone before the next request, so that both brokers have the same state for each request.
- Everything follows from a seed.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from client_compat.differential.access_requests import FIRST_PARTITIONS, MAKERS, OF_NOBODY, TOPICS, Draw, Side
from client_compat.differential.probe import Probe, Versions
from client_compat.differential.run import SHARED, Report, common_versions, compare
from client_compat.differential.scenarios.common import batch as batch_of
from client_compat.differential.scenarios.common import create, produce, until, wait_until_coordinated
from client_compat.differential.token_rights import ROOT, USERS, TokenRights
from client_compat.kafka.reference import NODE_ID, ReferenceBroker
from client_compat.kafka.reference import SETTINGS as KAFKA_SETTINGS
from client_compat.support.brokers import HOST, BrokerProcess
from client_compat.support.ports import free_port
from ottla.protocol.client import Client
from ottla.protocol.messages.k08_offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from ottla.protocol.messages.k17_sasl_handshake import SaslHandshakeRequest
from ottla.protocol.messages.k29_describe_acls import DescribeAclsRequest
from ottla.protocol.messages.k30_create_acls import AclCreation, CreateAclsRequest
from ottla.protocol.messages.k31_delete_acls import DeleteAclsFilter, DeleteAclsRequest
from ottla.protocol.messages.k36_sasl_authenticate import SaslAuthenticateRequest

SEED = 20261122
ASKS_OF_EACH = 10
ANY = 1
LITERAL, PREFIXED = 3, 4
DENY, ALLOW = 2, 3
ALL = 2
TOPIC, GROUP, CLUSTER, TRANSACTIONAL_ID = 2, 3, 4, 5
USER, PASSWORD = "ann", "pass word"
PASSWORDS = dict.fromkeys((*USERS, ROOT), PASSWORD)
_MODULES = "org.apache.kafka.common.security"
_PLAIN = " ".join(f'user_{name}="{password}"' for name, password in PASSWORDS.items())
SETTINGS: Mapping[str, str] = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": f"User:ANONYMOUS;User:{ROOT}",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
    "listener.name.secure.plain.sasl.jaas.config": f"{_MODULES}.plain.PlainLoginModule required {_PLAIN};",
    "listener.name.secure.scram-sha-256.sasl.jaas.config": f"{_MODULES}.scram.ScramLoginModule required;",
    "delegation.token.secret.key": "of all nodes",
}
NAMES: Mapping[int, Sequence[tuple[str, int]]] = {
    TOPIC: [("*", LITERAL), ("a", PREFIXED), ("a1", LITERAL), ("a2", LITERAL), ("b1", LITERAL), ("nope", PREFIXED), ("__", PREFIXED)],
    GROUP: [("*", LITERAL), ("g", PREFIXED), ("g1", LITERAL), ("g2", LITERAL)],
    CLUSTER: [("kafka-cluster", LITERAL), ("kafka-cluster", LITERAL), ("kafka", PREFIXED)],
    TRANSACTIONAL_ID: [("*", LITERAL), ("x", PREFIXED), ("x1", LITERAL)],
}
OPERATIONS: Mapping[int, Sequence[int]] = {
    TOPIC: (ALL, 3, 3, 4, 4, 5, 6, 7, 8, 8, 10, 11),
    GROUP: (ALL, 3, 3, 6, 8, 8, 10, 11),
    CLUSTER: (ALL, 5, 6, 7, 8, 9, 10, 11, 12),
    TRANSACTIONAL_ID: (ALL, 4, 4, 8),
}


def random_acls(random: Random) -> list[AclCreation]:
    """Return up to eight random ACLs. Often one of them allows nearly everything, so that the others act as exceptions to it."""
    acls = {}
    if random.random() < 0.3:
        kind = random.choice((TOPIC, GROUP, CLUSTER, TRANSACTIONAL_ID))
        name = "kafka-cluster" if kind == CLUSTER else "*"
        acls[kind, name, LITERAL] = AclCreation(kind, name, LITERAL, f"User:{USER}", "*", ALL, ALLOW)
    for number in range(random.randint(0, 8)):
        kind = random.choice((TOPIC, TOPIC, TOPIC, GROUP, GROUP, CLUSTER, CLUSTER, TRANSACTIONAL_ID))
        name, pattern = random.choice(NAMES[kind])
        if kind == CLUSTER:
            name, pattern = "kafka-cluster", random.choice((LITERAL, LITERAL, PREFIXED))
        principal = random.choice((f"User:{USER}", f"User:{USER}", "User:*", "User:bob"))
        host = random.choice(("*", "*", HOST, "10.0.0.1"))
        permission = random.choice((ALLOW, ALLOW, ALLOW, DENY))
        acls[kind, name, number] = AclCreation(kind, name, pattern, principal, host, random.choice(OPERATIONS[kind]), permission)
    return list({repr(acl): acl for acl in acls.values()}.values())


class UserProbe(Probe):
    """A probe (a client that records responses) whose connections authenticate with SASL/PLAIN."""

    def connection(self, name: str = "main") -> Client:
        known = name in self._connections
        client = Probe.connection(self, name)
        if not known:
            client.call(SaslHandshakeRequest("PLAIN"), 1)
            answer = client.call(SaslAuthenticateRequest(f"\0{USER}\0{PASSWORD}".encode()), 1)
            assert answer.error_code == 0, answer
        return client


@dataclass(slots=True)
class Judged:
    """One of the two brokers under comparison: connections of an administrator (`admin`) and of an ordinary user (`user`), and the topic
    ids of this broker."""

    admin: Probe
    user: UserProbe
    side: Side = field(default_factory=Side)

    def prepare(self) -> None:
        """Create the topics of the comparison, write records to them, and commit offsets of two groups."""
        wait_until_coordinated(self.admin)
        for name, partitions in FIRST_PARTITIONS.items():
            self.side.ids[name] = create(self.admin, name, partitions)
            self.user.names.learn(self.side.ids[name], f"id of {name}")
            produce(self.admin, "first", name, batch_of(b"1", b"2"))
        for name, topic_id in OF_NOBODY.items():
            self.user.names.learn(topic_id, f"nobody's id for {name}")
        self.commit_offsets()

    def commit_offsets(self) -> None:
        """Commit offsets of both test groups in both test topics."""
        for group in ("g1", "g2"):
            topics = [OffsetCommitRequestTopic(name, partitions=[OffsetCommitRequestPartition(0, 1, -1, "")]) for name in ("a1", "b1")]
            self.admin.ask_unrecorded(OffsetCommitRequest(group, topics=topics), 8)

    def rule_by(self, acls: Sequence[AclCreation]) -> None:
        """Replace all ACLs by `acls` and wait until the broker enforces them."""
        anything = DeleteAclsFilter(ANY, None, ANY, None, None, ANY, ANY)
        self.admin.ask_unrecorded(DeleteAclsRequest([anything]), 3)
        results = self.admin.ask_unrecorded(CreateAclsRequest(list(acls)), 3).results
        assert not any(result.error_code for result in results), results
        wanted = {_key(acl) for acl in acls}
        for _ in until("the ACLs are in force"):
            found = self.admin.ask_unrecorded(DescribeAclsRequest(ANY, None, ANY, None, None, ANY, ANY), 3)
            have = {
                (each.resource_type, each.resource_name, each.pattern_type, acl.principal, acl.host, acl.operation, acl.permission_type)
                for each in found.resources
                for acl in each.acls
            }
            if have == wanted:
                return

    def put_back(self, draw: Draw, answer: Any) -> None:
        """Undo the changes that the random request `draw` made at this broker; `answer` is the broker's response to it. Do nothing if the
        request made no changes."""
        if draw.changes is not None and answer is not None:
            draw.changes(self.admin, self.side, answer)
            for name in TOPICS:
                self.user.names.learn(self.side.ids[name], f"id of {name}")


def _key(acl: AclCreation) -> tuple[object, ...]:
    return acl.resource_type, acl.resource_name, acl.resource_pattern_type, acl.principal, acl.host, acl.operation, acl.permission_type


OF_MAP = "PLAINTEXT:PLAINTEXT,SECURE:SASL_PLAINTEXT"


def secured_kafka(directory: Path) -> tuple[ReferenceBroker, int]:
    """Format a node of Apache Kafka with an authorizer; return it with the port of its listener for users. Raises KafkaMissing or
    BrokerFailed.
    """
    port, settings = free_port(), dict(SETTINGS)
    reference = ReferenceBroker(directory, settings)
    listeners = f"PLAINTEXT://{reference.bootstrap},SECURE://{HOST}:{port},CONTROLLER://{HOST}:{reference.controller_port}"
    settings |= {
        "listeners": listeners,
        "advertised.listeners": listeners,
        "listener.security.protocol.map": f"CONTROLLER:PLAINTEXT,{OF_MAP}",
    }
    reference.format(options=("--feature", "eligible.leader.replicas.version=0"))
    return reference, port


def differential_of_access(
    directory: Path, pairs: int = 2_000, seed: int = SEED, *, on_case: Callable[[int, Report], None] | None = None
) -> Report:
    """Compare the authorization of both brokers with `pairs` pairs of an ACL set and a request; return the differences. Raises KafkaMissing
    or BrokerFailed."""
    reference, kafkas_port = secured_kafka(directory / "kafka-acls")
    own_port, own_secure_port = free_port(), free_port()
    own_settings = {
        **SETTINGS,
        **{name: KAFKA_SETTINGS[name] for name in SHARED},
        "node.id": str(NODE_ID),
        "listeners": f"PLAINTEXT://{HOST}:{own_port},SECURE://{HOST}:{own_secure_port}",
        "listener.security.protocol.map": OF_MAP,
    }
    options = [f"--set={name}={value}" for name, value in own_settings.items()]
    argv = [sys.executable, "-m", "ottla", "serve", "--data-dir", str(directory / "ottla-acls"), *options]
    report = Report(reference.version)
    with reference, BrokerProcess(argv, own_port, directory / "ottla-acls.log"):
        ask_all(report, ((reference.port, kafkas_port), (own_port, own_secure_port)), pairs, seed, on_case)
    return report


def ask_all(
    report: Report,
    sides: tuple[tuple[int, int], tuple[int, int]],
    pairs: int,
    seed: int = SEED,
    on_case: Callable[[int, Report], None] | None = None,
) -> None:
    """Send both brokers the same random ACLs and requests, and add the differences of the responses to the report. `sides` has the brokers'
    ports, first Apache Kafka's and then the other broker's: the port of the plaintext listener, and that of the listener for users.
    """
    versions = common_versions(*(plain for plain, _ in sides))
    kafka, ours = (_judged(plain, secure, versions) for plain, secure in sides)
    for judged in (kafka, ours):
        judged.prepare()
    _Comparison(kafka, ours, report).ask_all(pairs, seed, on_case)
    kafkas, mine = (
        TokenRights(secure, PASSWORDS, judged.rule_by).run(seed) for (_, secure), judged in zip(sides, (kafka, ours), strict=True)
    )
    report.answers += len(kafkas)
    report.differences += compare("access to tokens", kafkas, mine)
    for judged in (kafka, ours):
        judged.user.close()
        judged.admin.close()
    report.scenarios += ["access", "access to tokens"]


def _judged(port: int, secure_port: int, versions: Versions) -> Judged:
    return Judged(Probe(HOST, port, versions), UserProbe(HOST, secure_port, versions))


@dataclass(slots=True)
class _Comparison:
    """Both brokers under comparison, and the report that collects the differences of their responses."""

    kafka: Judged
    ours: Judged
    report: Report

    def ask_all(self, pairs: int, seed: int, on_case: Callable[[int, Report], None] | None) -> None:
        for case in range((pairs + ASKS_OF_EACH - 1) // ASKS_OF_EACH):
            self._ask(Random(f"{seed}/{case}"), f"seed {seed}, case {case}")
            self.report.answers += len(self.kafka.user.seen)
            self.report.denials += sum("AUTHORIZATION_FAILED" in str(seen.response) for seen in self.kafka.user.seen)
            self.report.differences += compare(f"access {case}", self.kafka.user.seen, self.ours.user.seen)
            if on_case is not None:
                on_case(case, self.report)

    def _ask(self, random: Random, label: str) -> None:
        acls, both = random_acls(random), (self.kafka, self.ours)
        for judged in both:
            judged.rule_by(acls)
            judged.user.seen.clear()
        for number in range(ASKS_OF_EACH):
            draw = random.choice(MAKERS)(random, self.kafka.user.versions)
            if draw is not None:
                for judged in both:
                    judged.put_back(draw, judged.user.ask(f"{label}, request {number}", draw.request(judged.side), draw.version))
