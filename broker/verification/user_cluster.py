"""`ottla verify` on a user's own cluster: the program under test reaches the cluster through a gateway in this process, which causes the
faults.

Rules:
- Everything that a run creates (topics, groups, settings of groups) has names with a prefix of this run, and is deleted afterwards, except
  if the user wants to keep it. A program that uses another topic, group or transactional id is stopped.
- The requests of `ottla verify` itself do not pass through the gateway.
- The cluster's clock cannot be moved. Instead of letting a session expire, `ottla verify` removes the group's members by name. Instead of
  letting a transaction time out, it fences the producer (as Kafka's `AdminClient.fenceProducers` does).
"""

from __future__ import annotations

import itertools
import secrets
import time
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Final

from ottla.broker.core.clock import Clock
from ottla.broker.net.network import host_and_port
from ottla.broker.testing import wire_verdict
from ottla.broker.testing.anomalies import Identity, by_value
from ottla.broker.testing.in_process_gateway import InProcessGateway
from ottla.broker.testing.verdict import Examined
from ottla.broker.testing.wire_verdict import WireSource
from ottla.broker.verification.deployment import Deployment
from ottla.broker.verification.input_data import SHARE_SETTINGS, configure_share_group
from ottla.broker.verification.program import Program, Role
from ottla.broker.verification.remote_groups import RemoteGroups
from ottla.broker.verification.request_observer import VERIFIER_CLIENT, RequestObserver
from ottla.broker.verification.verifier_client import BY_TRANSACTION, VerifierClient
from ottla.protocol.client import Client
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k02_list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from ottla.protocol.messages.k03_metadata import MetadataRequest
from ottla.protocol.messages.k19_create_topics import CreatableTopic, CreateTopicsRequest
from ottla.protocol.messages.k20_delete_topics import DeleteTopicsRequest
from ottla.protocol.messages.k22_init_producer_id import InitProducerIdRequest
from ottla.protocol.printable import reason_of
from ottla.spark_jobs.wire.connection import connect
from ottla.spark_jobs.wire.security import connection_advice

_CREATE, _DELETE, _INIT, _LIST_OFFSETS, _METADATA = 5, 4, 4, 7, 8
_LATEST: Final = -1
_UNCOMMITTED, _COMMITTED = 0, 1
_BROKERS_DEFAULT: Final = -1
_TRANSACTION_TIMEOUT_MS: Final = 60_000
_QUIESCE_S: Final = 60.0
_PAUSE_S: Final = 0.05


@dataclass(frozen=True, slots=True)
class UserCluster:
    """The user's cluster on which `ottla verify` runs the program under test. The names of all topics and groups that it creates begin with
    `prefix`. With `keep`, they are not deleted at the end."""

    source: WireSource
    keep: bool = False
    prefix: str = field(default_factory=lambda: f"ottla-verify-{secrets.token_hex(4)}")
    _numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1), repr=False)

    def deployment(self, run: str) -> GatewayDeployment:
        """Return a deployment for one run. Its topics and groups have names that no other run uses; `run` is a part of them."""
        return GatewayDeployment(self.source, f"{self.prefix}-{next(self._numbers)}-{run}-", keep=self.keep)


class GatewayDeployment(Deployment):
    """The deployment of a run on a user's cluster, behind a gateway (a proxy that injects faults). The names of the run's topics, groups
    and transactional ids begin with `prefix`. With `keep`, the topics and groups are not deleted at the end."""

    def __init__(self, source: WireSource, prefix: str, *, keep: bool) -> None:
        self._source, self._prefix, self._keep = source, prefix, keep
        self._address = replace(source.address(), client_id=VERIFIER_CLIENT)
        self._gateway = InProcessGateway(source.bootstrap, command_config=source.command_config)
        self.fault_targets = [self._gateway]
        servers = [host_and_port(host, port) for host, port in self._address.servers]
        self.verifier_client = VerifierClient(lambda: servers, self._connect, elsewhere=True)
        self._observer = RequestObserver()
        self._groups = RemoteGroups(self.verifier_client)
        self._share_group: str | None = None
        self._clock = Clock()

    @property
    def bootstrap(self) -> str:
        return self._gateway.bootstrap

    def start(self) -> None:
        try:
            self._own_partitions()  # a listener with TLS or SASL accepts the connection, and closes it at the first request
        except OSError as error:
            advice = f". {connection_advice(error)}".removesuffix(". ")
            raise ConnectionError(f"no broker of {self._source.bootstrap} can be reached: {reason_of(error)}{advice}") from error
        self._gateway.start()

    def renamed(self, program: Program) -> Program:
        names = {name: self.own_name(getattr(program, name)) for name in ("input", "output", "group")}
        self._share_group = names["group"] if program.role is Role.SHARE_CONSUMER else None
        return replace(program, input=names["input"], output=names["output"], group=names["group"])

    def common_name(self, topic: str) -> str:
        return topic.removeprefix(self._prefix)

    def own_name(self, topic: str) -> str:
        return f"{self._prefix}{topic}"

    def foreign_name_problem(self) -> str | None:
        observer = self._observer
        used = {
            "topic": {send.topic for send in self.sends if send.topic},
            "group": set(observer.joined),
            "transactional id": observer.transactional_ids,
        }
        for kind, names in used.items():
            for name in sorted(names):
                if not name.startswith(self._prefix):
                    return (
                        f"the program uses the {kind} {name}, which may belong to somebody else in this cluster: take topics from "
                        "OTTLA_INPUT and OTTLA_OUTPUT, and begin the names of groups and transactional ids with OTTLA_GROUP"
                    )
        return None

    def create(self, topic: str, partitions: int) -> None:
        request = CreateTopicsRequest([CreatableTopic(topic, partitions, _BROKERS_DEFAULT)])
        self.verifier_client.ask(self.verifier_client.anybody, request, _CREATE, lambda answer: answer.topics[0])
        for partition in range(partitions):  # which waits for the leader
            self.end_offset(topic, partition)

    def end_offset(self, topic: str, partition: int) -> int:
        return self._offset(topic, partition, _UNCOMMITTED)

    def now_ms(self) -> int:
        return self._clock.now_ms()

    def pass_time(self, ms: int) -> None:
        raise RuntimeError(f"the cluster's clock cannot be advanced by {ms} ms")

    def expire_members(self, session_ms: int) -> None:
        self._groups.remove_members(self._observer.joined)

    def watch(self, observer: RequestObserver) -> None:
        self._observer = observer
        super().watch(observer)

    def members(self) -> int:
        return sum(len(self._groups.members(group, api)) for group, api in list(self._observer.joined.items()))

    @property
    def all_brokers_answer(self) -> bool:
        return True

    def restart_crashed(self) -> bool:
        return False

    def quiesce(self) -> None:
        self.reset()
        client = self.verifier_client
        for name in sorted(self._observer.transactional_ids):
            if not name.startswith(self._prefix):
                continue  # fencing it would abort the transaction of another program
            client.ask(client.coordinator(BY_TRANSACTION, name), InitProducerIdRequest(name, _TRANSACTION_TIMEOUT_MS), _INIT)
        until = time.monotonic() + _QUIESCE_S
        for topic, partition in self._own_partitions():
            while self._offset(topic, partition, _COMMITTED) < self._offset(topic, partition, _UNCOMMITTED):
                if time.monotonic() > until:
                    raise TimeoutError(f"a transaction in {topic}-{partition} is still open {_QUIESCE_S:.0f} s after the program")
                time.sleep(_PAUSE_S)

    def examine(
        self, topics: Iterable[str], *, expected: Iterable[Hashable] | None = None, by: Identity = by_value, audit: bool = True
    ) -> Examined:
        there = {topic for topic, _ in self._own_partitions()}.intersection(topics)
        return wire_verdict.examine(self._source, self._gateway.history, there, expected=expected, by=by, audit=audit)

    def stop(self) -> None:
        self._gateway.stop()
        try:
            if not self._keep:
                self._delete_all()
        except (OSError, RuntimeError) as error:
            left = f"topics and groups are left in the cluster; delete those whose names begin with {self._prefix}"
            raise RuntimeError(f"{left} ({reason_of(error)})") from error
        finally:
            self.verifier_client.close()

    def _delete_all(self) -> None:
        """Delete the topics, groups and settings that the run created. Raises RuntimeError if the cluster rejects that, OSError if it does
        not answer."""
        try:
            self._groups.delete({name: api for name, api in self._observer.joined.items() if name.startswith(self._prefix)})
            if self._share_group is not None:
                configure_share_group(self.verifier_client, self._share_group, dict.fromkeys(SHARE_SETTINGS))
        finally:
            self._delete_topics()

    def _delete_topics(self) -> None:
        topics = sorted({topic for topic, _ in self._own_partitions()})
        if topics:
            request = DeleteTopicsRequest(topic_names=topics, timeout_ms=30_000)
            client = self.verifier_client
            for number, _ in enumerate(topics):
                client.ask(client.anybody, request, _DELETE, _deletion(number))

    def _own_partitions(self) -> list[tuple[str, int]]:
        client = self.verifier_client
        there = client.call(client.anybody, MetadataRequest(None, allow_auto_topic_creation=False), _METADATA).topics
        return [(topic.name, each.partition_index) for topic in there if topic.name.startswith(self._prefix) for each in topic.partitions]

    def _offset(self, topic: str, partition: int, isolation: int) -> int:
        client = self.verifier_client
        topics = [ListOffsetsTopic(topic, [ListOffsetsPartition(partition, timestamp=_LATEST)])]
        request = ListOffsetsRequest(-1, isolation, topics)
        found: int = client.ask(
            client.leader(topic, partition), request, _LIST_OFFSETS, lambda answer: answer.topics[0].partitions[0]
        ).offset
        return found

    def _connect(self, host: str, port: int) -> Client:
        return connect(self._address, host, port)


def _deletion(number: int) -> Callable[[Any], Any]:
    """Return a function for `VerifierClient.ask` that selects the result number `number` of a DeleteTopics response. The function replaces
    the error UNKNOWN_TOPIC_OR_PARTITION by NONE, because the topic is then already deleted."""

    def pick(answer: Any) -> Any:
        found = answer.responses[number]
        if found.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            found.error_code = ErrorCode.NONE
        return found

    return pick
