"""Compare Ottla with Apache Kafka by requests that describe and alter the configurations of topics, brokers and groups, with valid and
invalid changes."""

from __future__ import annotations

from itertools import count
from typing import Any

from client_compat.differential.probe import Probe
from client_compat.differential.scenarios.common import create, until
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.messages import k33_alter_configs as k33
from ottla.protocol.messages import k44_incremental_alter_configs as k44
from ottla.protocol.messages.k19_create_topics import CreatableTopic, CreateTopicsRequest
from ottla.protocol.messages.k32_describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from ottla.protocol.messages.k74_list_config_resources import ListConfigResourcesRequest
from ottla.protocol.schema import Message

TOPIC, BROKER, LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = range(4)
TURNS = count(1)
"""A counter for `then`, which sets a setting to a new value each time and waits until the broker reports this value."""


def then(probe: Probe, label: str, request: Message, version: int | None = None) -> Any:
    """Send a request once the broker has applied all earlier changes, and return the response. Apache Kafka's brokers apply metadata
    asynchronously, in log order.
    """
    value = str(45_000 + next(TURNS))
    kind, name, key = (GROUP, "last-change", "consumer.session.timeout.ms") if not probe.older else (TOPIC, "last-change", "retention.ms")
    if not probe.knows(ApiKey.DESCRIBE_QUORUM):  # with ZooKeeper, only the settings of brokers are described as they were applied
        kind, name, key = BROKER, "1", "max.connections.per.ip"
    elif probe.older:  # its groups may have no settings
        probe.ask_unrecorded(CreateTopicsRequest([CreatableTopic(name, 1, 1)]), 7)
    last = k44.AlterConfigsResource(kind, name, [k44.AlterableConfig(key, SET, value)])
    probe.ask_unrecorded(k44.IncrementalAlterConfigsRequest([last]), 1)
    look = DescribeConfigsRequest([DescribeConfigsResource(kind, name, [key])])
    for _ in until("the last change is heard of"):
        (found,) = probe.ask_unrecorded(look, 4).results
        if found.configs and found.configs[0].value == value:
            break
    return probe.ask(label, request, version)


def describing(probe: Probe) -> None:
    """Describe all settings and some settings of a topic, and settings of unknown resources."""
    create(probe, "conf", configs={"segment.bytes": "1048576"})
    for version in probe.range(ApiKey.DESCRIBE_CONFIGS):
        topic = DescribeConfigsResource(TOPIC, "conf", None)
        probe.ask("all of a topic", DescribeConfigsRequest([topic]), version)
        probe.ask("all of a topic, with synonyms", DescribeConfigsRequest([topic], True), version)
        for label, resource in {
            "two": DescribeConfigsResource(TOPIC, "conf", ["segment.bytes", "retention.ms"]),
            "an unknown key": DescribeConfigsResource(TOPIC, "conf", ["no.such"]),
            "no keys": DescribeConfigsResource(TOPIC, "conf", []),
            "unknown topic": DescribeConfigsResource(TOPIC, "nowhere", None),
            "illegal topic": DescribeConfigsResource(TOPIC, "a b", None),
            "no topic": DescribeConfigsResource(TOPIC, "", None),
            "unknown broker": DescribeConfigsResource(BROKER, "77", None),
            "broker that is no number": DescribeConfigsResource(BROKER, "one", None),
            "all brokers": DescribeConfigsResource(BROKER, "", None),
            "some of the broker's": DescribeConfigsResource(BROKER, "1", ["node.id", "log.retention.ms", "log.retention.hours", "no.such"]),
            "unknown type": DescribeConfigsResource(77, "x", None),
            "type 0": DescribeConfigsResource(0, "x", None),
            "a group": DescribeConfigsResource(GROUP, "g", None),
            "no group": DescribeConfigsResource(GROUP, "", None),
            "client metrics": DescribeConfigsResource(CLIENT_METRICS, "m", None),
        }.items():
            probe.ask(label, DescribeConfigsRequest([resource], True), version)
    with_text = DescribeConfigsResource(TOPIC, "conf", ["retention.ms"])
    probe.ask("documentation", DescribeConfigsRequest([with_text], False, True))
    probe.ask("a resource twice", DescribeConfigsRequest([with_text, with_text]))


def broker_defaults(probe: Probe) -> None:
    """Describe all settings of a broker. Only settings that both brokers have are compared."""
    for synonyms in (False, True):
        probe.ask("all of the broker", DescribeConfigsRequest([DescribeConfigsResource(BROKER, "1", None)], synonyms), 4)


def altering(probe: Probe) -> None:
    """Alter a topic's settings with IncrementalAlterConfigs and describe them afterwards."""
    create(probe, "alter", configs={"segment.bytes": "1048576"})

    def alter(label: str, *changes: tuple[str, int, str | None], kind: int = TOPIC, name: str = "alter", dry: bool = False) -> None:
        configs = [k44.AlterableConfig(*change) for change in changes]
        request = k44.IncrementalAlterConfigsRequest([k44.AlterConfigsResource(kind, name, configs)], dry)
        for version in probe.range(ApiKey.INCREMENTAL_ALTER_CONFIGS):
            probe.ask(label, request, version)
        if kind == TOPIC and name == "alter":
            keys = sorted({change[0] for change in changes})
            then(probe, f"{label}: then", DescribeConfigsRequest([DescribeConfigsResource(TOPIC, name, keys)], True))

    alter("set", ("retention.ms", SET, "1234"))
    alter("set again", ("retention.ms", SET, "1234"))
    alter("only validated", ("retention.ms", SET, "99"), dry=True)
    alter("delete", ("retention.ms", DELETE, None))
    alter("delete what is not set", ("retention.ms", DELETE, None))
    alter("delete with a value", ("retention.ms", DELETE, "5"))
    alter("set without a value", ("retention.ms", SET, None))
    alter("set to nothing", ("retention.ms", SET, ""))
    alter("append", ("cleanup.policy", APPEND, "compact"))
    alter("append again", ("cleanup.policy", APPEND, "compact"))
    alter("subtract", ("cleanup.policy", SUBTRACT, "delete"))
    alter("subtract what is not there", ("cleanup.policy", SUBTRACT, "delete"))
    alter("subtract the last", ("cleanup.policy", SUBTRACT, "compact"))
    alter("set twice the same", ("cleanup.policy", SET, "compact,compact"))
    alter("append to a number", ("retention.ms", APPEND, "5"))
    alter("append nonsense", ("cleanup.policy", APPEND, "burn"))
    alter("unknown operation", ("retention.ms", 9, "5"))
    alter("unknown key", ("no.such", SET, "5"))
    alter("delete an unknown key", ("no.such", DELETE, None))
    alter("key twice", ("retention.ms", SET, "5"), ("retention.ms", SET, "6"))
    alter("bad value", ("retention.ms", SET, "soon"))
    alter("one good, one bad", ("retention.ms", SET, "77"), ("segment.bytes", SET, "1"))
    alter("no changes")
    alter("spaces", ("retention.ms", SET, " 55 "))


def altering_elsewhere(probe: Probe) -> None:
    """Send IncrementalAlterConfigs for unknown resources, for brokers and for groups, with valid and invalid settings."""
    create(probe, "alter2", configs={"segment.bytes": "1048576"})

    def alter(label: str, *changes: tuple[str, int, str | None], kind: int = TOPIC, name: str = "alter2") -> None:
        configs = [k44.AlterableConfig(*change) for change in changes]
        request = k44.IncrementalAlterConfigsRequest([k44.AlterConfigsResource(kind, name, configs)])
        for version in probe.range(ApiKey.INCREMENTAL_ALTER_CONFIGS):
            probe.ask(label, request, version)

    alter("unknown topic", ("retention.ms", SET, "5"), name="nowhere")
    alter("no topic", ("retention.ms", SET, "5"), name="")
    alter("unknown type", ("retention.ms", SET, "5"), kind=77)
    alter("type 0", ("retention.ms", SET, "5"), kind=0)
    alter("unknown broker", ("log.cleaner.threads", SET, "1"), kind=BROKER, name="77")
    alter("broker name", ("log.cleaner.threads", SET, "1"), kind=BROKER, name="one")
    alter("read-only of the broker", ("node.id", SET, "5"), kind=BROKER, name="1")
    alter("unknown of the broker", ("no.such", SET, "5"), kind=BROKER, name="1")
    alter("a default of all brokers", ("log.retention.ms", SET, "123456789"), kind=BROKER, name="")
    then(probe, "then", DescribeConfigsRequest([DescribeConfigsResource(TOPIC, "alter2", ["retention.ms", "segment.bytes"])], True))
    alter("bad default of all brokers", ("log.retention.ms", SET, "soon"), kind=BROKER, name="")
    alter("default removed", ("log.retention.ms", DELETE, None), kind=BROKER, name="")
    alter("per-broker only", ("listeners", SET, "PLAINTEXT://127.0.0.1:1"), kind=BROKER, name="")
    for name in ("no.such", "node.id", "background.threads"):
        alter(f"delete {name}", (name, DELETE, None), kind=BROKER, name="1")
        alter(f"append to {name}", (name, APPEND, "1"), kind=BROKER, name="1")
    alter("group", ("consumer.session.timeout.ms", SET, "50000"), kind=GROUP, name="g")
    alter("group, bad", ("consumer.session.timeout.ms", SET, "1"), kind=GROUP, name="g")
    alter("group, unknown", ("no.such", SET, "1"), kind=GROUP, name="g")
    alter("group without a name", ("consumer.session.timeout.ms", SET, "50000"), kind=GROUP, name="")
    twice = [k44.AlterConfigsResource(TOPIC, "alter2", [k44.AlterableConfig("retention.ms", SET, str(n))]) for n in (5, 6)]
    probe.ask("resource twice", k44.IncrementalAlterConfigsRequest(twice))


def _alter_broker(probe: Probe, label: str, key: str, value: str | None, name: str = "1") -> None:
    """Set one setting of broker `name` (empty: of all brokers), or delete it if `value` is None. Then describe the setting."""
    config = k44.AlterableConfig(key, DELETE if value is None else SET, value)
    probe.ask(label, k44.IncrementalAlterConfigsRequest([k44.AlterConfigsResource(BROKER, name, [config])]))
    then(probe, f"{label}: then", DescribeConfigsRequest([DescribeConfigsResource(BROKER, name, [key])], True))


def while_running(probe: Probe) -> None:
    """Alter broker settings while the broker runs, and describe each of them afterwards: settings that take effect, that are stored without
    effect, that belong to one listener, and that are unknown."""
    for key, values in {
        "num.io.threads": ("1", "4", "8", "9", "0", "many"),
        "background.threads": ("20", "41", "4"),
        "num.recovery.threads.per.data.dir": ("4", "9"),
        "log.cleaner.threads": ("0", "2", "3", "-1"),
        "log.cleaner.io.max.bytes.per.second": ("1000000.0", "fast"),
        "leader.replication.throttled.rate": ("1000", "-1"),
        "follower.replication.throttled.rate": ("1000",),
        "group.coordinator.cached.buffer.max.bytes": ("1000000", "1"),
        "max.connection.creation.rate": ("1000", "0"),
        "remote.log.reader.threads": ("11",),
        "follower.fetch.last.tiered.offset.enable": ("true", "maybe"),
        "log.local.retention.ms": ("1000", "-3"),
        "no.such": ("5",),
        "max.connections": ("0", "1000"),
        "max.connections.per.ip": ("0", "1000"),
        "listener.name.plaintext.max.connections": ("1000", "none", "0"),
        "log.retention.ms": ("0", "100000"),
        "log.cleanup.policy": ("compact,delete,compact", "compact"),
        "group.consumer.assignment.interval.ms": ("15001", "500"),
        "log.cleaner.io.buffer.load.factor": ("1_000",),
        "listener.name.other.ssl.keystore.location": ("/nowhere",),
        "ssl.keystore.location": ("/nowhere",),
        "process.roles": ("broker",),
        "group.share.session.timeout.ms": ("50000",),
        "log.retention.hours": ("5",),
    }.items():
        for value in values:
            _alter_broker(probe, f"{key}={value}", key, value)
        _alter_broker(probe, f"{key} removed", key, None)
    for key in ("no.such", "num.io.threads", "leader.replication.throttled.rate", "listener.name.other.ssl.keystore.location"):
        _alter_broker(probe, f"{key} of all", key, "3", name="")
        _alter_broker(probe, f"{key} of all removed", key, None, name="")


def of_security(probe: Probe) -> None:
    """Alter dynamic TLS and SASL settings, and settings that Kafka does not define."""
    for key, values in {
        "sasl.enabled.mechanisms": ("SCRAM-SHA-256", ""),
        "sasl.mechanism.inter.broker.protocol": ("PLAIN",),
        "sasl.kerberos.kinit.cmd": ("/bin/true",),
        "sasl.kerberos.min.time.before.relogin": ("5", "soon"),
        "sasl.kerberos.principal.to.local.rules": ("DEFAULT",),
        "sasl.kerberos.service.name": ("kafka",),
        "sasl.kerberos.ticket.renew.jitter": ("0.5", "x"),
        "sasl.kerberos.ticket.renew.window.factor": ("0.5",),
        "sasl.login.refresh.buffer.seconds": ("4000",),
        "sasl.login.refresh.min.period.seconds": ("60",),
        "sasl.login.refresh.window.factor": ("0.6",),
        "sasl.login.refresh.window.jitter": ("0.1",),
        "sasl.server.max.receive.size": ("5",),
        "ssl.client.auth": ("required", "perhaps"),
        "ssl.protocol": ("TLSv1.2", "any"),
        "ssl.cipher.suites": ("TLS_AES_128_GCM_SHA256",),
        "ssl.principal.mapping.rules": ("DEFAULT",),
        "listener.name.other.ssl.client.auth": ("required",),
        "listener.name.other.connections.max.reauth.ms": ("5",),
        "controller.mutation.x": ("5",),
        "controller.quota.window.num": ("5",),
        "share.coordinator.x": ("5",),
        "share.coordinator.threads": ("5",),
        "cordoned.log.dirs": ("/nowhere", ""),
    }.items():
        for value in values:
            _alter_broker(probe, f"{key}={value}", key, value)
        _alter_broker(probe, f"{key} removed", key, None)
        _alter_broker(probe, f"{key} of all", key, values[0], name="")
        _alter_broker(probe, f"{key} of all removed", key, None, name="")
    for kinds in ([77, TOPIC], [TOPIC, 77], [0]):
        resources = [DescribeConfigsResource(kind, "x", None) for kind in kinds]
        probe.ask(f"describe {kinds}", DescribeConfigsRequest(resources))


def of_loggers(probe: Probe) -> None:
    """Alter log levels with IncrementalAlterConfigs, and try to with AlterConfigs, which rejects loggers."""

    def alter(label: str, logger: str, op: int, level: str | None, name: str = "1") -> None:
        resource = k44.AlterConfigsResource(LOGGER, name, [k44.AlterableConfig(logger, op, level)])
        probe.ask(label, k44.IncrementalAlterConfigsRequest([resource]))

    alter("unknown logger", "no.such.logger", SET, "DEBUG")
    alter("delete of an unknown logger", "no.such.logger", DELETE, None)
    alter("no level", "root", SET, "LOUD")
    alter("level in small letters", "root", SET, "debug")
    alter("null", "root", SET, None)
    alter("delete the root's", "root", DELETE, None)
    alter("append", "root", APPEND, "DEBUG")
    alter("subtract", "root", SUBTRACT, "DEBUG")
    alter("another broker", "root", SET, "WARN", name="77")
    alter("no broker", "root", SET, "WARN", name="")
    alter("a broker that is no number", "root", SET, "WARN", name="one")
    alter("append to an unknown logger", "no.such.logger", APPEND, "DEBUG")
    legacy = k33.AlterConfigsResource(LOGGER, "1", [k33.AlterableConfig("root", "WARN")])
    probe.ask("replaced", k33.AlterConfigsRequest([legacy]))


def of_client_metrics(probe: Probe) -> None:
    """Set and delete client metrics subscriptions (KIP-714), with valid values and with values that are rejected."""

    def alter(label: str, *changes: tuple[str, int, str | None], name: str = "own-metrics") -> None:
        configs = [k44.AlterableConfig(*change) for change in changes]
        probe.ask(label, k44.IncrementalAlterConfigsRequest([k44.AlterConfigsResource(CLIENT_METRICS, name, configs)]))
        if name:
            then(probe, f"{label}: then", DescribeConfigsRequest([DescribeConfigsResource(CLIENT_METRICS, name, None)], True))

    alter("set", ("interval.ms", SET, "1000"), ("metrics", SET, "org.apache.kafka.producer.,x"), ("match", SET, "client_id=a.*"))
    alter("append", ("metrics", APPEND, "y"))
    alter("interval too short", ("interval.ms", SET, "99"))
    alter("interval too long", ("interval.ms", SET, "3600001"))
    alter("no number", ("interval.ms", SET, "often"))
    alter("metrics twice", ("metrics", SET, "a,a"))
    alter("empty metrics", ("metrics", SET, ""))
    alter("an empty one among them", ("metrics", SET, "a,,b"))
    for pattern in ("client_id", "client_id=", "client_id=a=b", "colour=red", "client_id=(", " client_id = a "):
        alter(f"pattern {pattern}", ("match", SET, pattern))
    alter("unknown", ("no.such", SET, "1"))
    alter("null", ("metrics", SET, None))
    alter("no name", ("interval.ms", SET, "1000"), name="")
    alter("delete", ("interval.ms", DELETE, None))
    alter("delete an unknown one", ("no.such", DELETE, None))
    legacy = k33.AlterConfigsResource(CLIENT_METRICS, "own-metrics", [k33.AlterableConfig("interval.ms", "2000")])
    probe.ask("replaced", k33.AlterConfigsRequest([legacy]))
    then(probe, "replaced: then", DescribeConfigsRequest([DescribeConfigsResource(CLIENT_METRICS, "own-metrics", None)], True))


def of_all_kinds_of_groups(probe: Probe) -> None:
    """Set every setting of consumer, share and streams groups to a valid value and to invalid ones."""
    for key, values in {
        "consumer.assignment.interval.ms": ("500", "-1", "15001"),
        "share.session.timeout.ms": ("50000", "44999", "60001"),
        "share.heartbeat.interval.ms": ("6000", "4999"),
        "share.record.lock.duration.ms": ("20000", "999", "14999", "60001"),
        "share.delivery.count.limit": ("3", "1", "11"),
        "share.partition.max.record.locks": ("200", "99", "4001"),
        "share.auto.offset.reset": ("earliest", "LATEST", "by_duration:PT1H", "by_duration:P", "by_duration:-PT1H", "none", ""),
        "share.isolation.level": ("read_committed", "none"),
        "share.renew.acknowledge.enable": ("false", "maybe"),
        "share.assignment.interval.ms": ("500", "15001"),
        "streams.session.timeout.ms": ("50000", "44999"),
        "streams.heartbeat.interval.ms": ("6000", "15001"),
        "streams.num.standby.replicas": ("1", "3", "-1"),
        "streams.initial.rebalance.delay.ms": ("100", "-1"),
        "streams.assignment.interval.ms": ("500", "15001"),
        "streams.rack.aware.assignment.tags": ("zone,", "zone"),
    }.items():
        for value in values:
            config = k44.AlterableConfig(key, SET, value)
            probe.ask(f"{key}={value}", k44.IncrementalAlterConfigsRequest([k44.AlterConfigsResource(GROUP, "any-kind", [config])]))
    config = k44.AlterableConfig("streams.rack.aware.assignment.tags", APPEND, "rack")
    probe.ask("append to a list", k44.IncrementalAlterConfigsRequest([k44.AlterConfigsResource(GROUP, "any-kind", [config])]))
    then(probe, "all of them", DescribeConfigsRequest([DescribeConfigsResource(GROUP, "any-kind", None)], True))


def of_groups(probe: Probe) -> None:
    """Set and delete a group's settings, with valid values and with values that are rejected."""
    session, heartbeat = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"
    assignment = "consumer.assignment.interval.ms"

    def alter(label: str, *changes: tuple[str, int, str | None], dry: bool = False) -> None:
        configs = [k44.AlterableConfig(*change) for change in changes]
        probe.ask(label, k44.IncrementalAlterConfigsRequest([k44.AlterConfigsResource(GROUP, "own", configs)], dry))
        keys = sorted({change[0] for change in changes} | {session})
        then(probe, f"{label}: then", DescribeConfigsRequest([DescribeConfigsResource(GROUP, "own", keys)], True))

    alter("set", (session, SET, "50000"))
    alter("only validated", (session, SET, "55000"), dry=True)
    alter("both", (session, SET, "60000"), (heartbeat, SET, "15000"))
    alter("too long", (session, SET, "60001"))
    alter("too short", (heartbeat, SET, "4999"))
    alter("no number", (heartbeat, SET, "often"))
    alter("nothing", (heartbeat, SET, ""))
    alter("null", (heartbeat, SET, None))
    alter("one good, one unknown", (heartbeat, SET, "7000"), ("no.such", SET, "1"))
    alter("assigned at once", (assignment, SET, "0"))
    alter("assigned too late", (assignment, SET, "15001"))
    alter("assigned too early", (assignment, SET, "-1"))
    alter("an offload that no version has", ("consumer.assignor.offload.enable", SET, "true"))
    alter("append", (heartbeat, APPEND, "1"))
    alter("subtract", (heartbeat, SUBTRACT, "1"))
    alter("delete", (session, DELETE, None))
    alter("delete again", (session, DELETE, None))
    alter("delete an unknown one", ("no.such", DELETE, None))
    alter("twice", (session, SET, "50000"), (session, SET, "51000"))
    legacy = k33.AlterConfigsResource(GROUP, "own", [k33.AlterableConfig(session, "48000")])
    probe.ask("replaced", k33.AlterConfigsRequest([legacy]))
    then(probe, "replaced: then", DescribeConfigsRequest([DescribeConfigsResource(GROUP, "own", [session, heartbeat])], True))


def listing(probe: Probe) -> None:
    """Send ListConfigResources for each resource type. The response contains only those groups that have settings."""
    create(probe, "listed-configs")
    of_group = k44.AlterConfigsResource(GROUP, "listed-configs", [k44.AlterableConfig("consumer.session.timeout.ms", SET, "50000")])
    probe.ask("settings of a group", k44.IncrementalAlterConfigsRequest([of_group]))
    for version in probe.range(ApiKey.LIST_CONFIG_RESOURCES):
        for kinds in ([], [TOPIC], [GROUP], [BROKER, LOGGER], [CLIENT_METRICS], [TOPIC, 77], [0]):
            if version == 0 and kinds:
                continue
            answer = then(probe, f"types {kinds}", ListConfigResourcesRequest(kinds), version)
            if answer is not None:
                shown = probe.seen[-1].response
                own = ("listed-configs", "1")
                shown["config_resources"] = [one for one in shown["config_resources"] if one["resource_name"] in own]


def replacing(probe: Probe) -> None:
    """Send AlterConfigs, which replaces all settings of a topic, with valid and invalid settings; describe the topic afterwards."""
    create(probe, "replace", configs={"segment.bytes": "1048576"})
    for version in probe.range(ApiKey.ALTER_CONFIGS):
        cases: dict[str, list[tuple[str, str | None]]] = {
            "replace": [("retention.ms", "1")],
            "nothing": [],
            "bad": [("retention.ms", "soon")],
            "unknown": [("no.such", "1")],
            "null": [("retention.ms", None)],
            "twice": [("retention.ms", "1"), ("retention.ms", "2")],
        }
        for label, configs in cases.items():
            wanted = [k33.AlterableConfig(key, value) for key, value in configs]
            for name in ("replace", "nowhere"):
                resource = k33.AlterConfigsResource(TOPIC, name, wanted)
                probe.ask(f"{label} of {name}", k33.AlterConfigsRequest([resource]), version)
            keys = ["retention.ms", "segment.bytes"]
            then(probe, f"{label}: then", DescribeConfigsRequest([DescribeConfigsResource(TOPIC, "replace", keys)], True))
        probe.ask("unknown type", k33.AlterConfigsRequest([k33.AlterConfigsResource(77, "x", [])]), version)
