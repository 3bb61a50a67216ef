"""Compare Ottla's cluster with Apache Kafka's by the configurations of topics, of single brokers (also described through another broker),
of all brokers, and of loggers."""

from __future__ import annotations

from itertools import count

from client_compat.differential.cluster_scenarios.common import create
from client_compat.differential.nodes import Nodes
from client_compat.differential.scenarios.common import until
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.messages import k33_alter_configs as k33
from ottla.protocol.messages import k44_incremental_alter_configs as k44
from ottla.protocol.messages.k32_describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from ottla.protocol.messages.k74_list_config_resources import ListConfigResourcesRequest

TOPIC, BROKER, LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = range(4)
TIMEOUT = "consumer.session.timeout.ms"
_TURNS = count(1)


def _wait_until_applied(nodes: Nodes) -> None:
    """Wait until every broker has applied all earlier changes. Brokers apply the controller's changes in log order."""
    value = str(45_000 + next(_TURNS))
    nodes.at(1).ask_unrecorded(change(GROUP, "last-change", TIMEOUT, value), 1)
    look = DescribeConfigsRequest([DescribeConfigsResource(GROUP, "last-change", [TIMEOUT])])
    for node_id in nodes.living:
        for _ in until(f"{node_id} heard of the last change"):
            if nodes.at(node_id).ask_unrecorded(look, 4).results[0].configs[0].value == value:
                break


def change(kind: int, name: str, key: str, value: str | None, how: int = SET) -> k44.IncrementalAlterConfigsRequest:
    """Return an IncrementalAlterConfigs request that changes one setting of one resource. `kind` is the resource type, `how` the operation
    (SET by default)."""
    return k44.IncrementalAlterConfigsRequest([k44.AlterConfigsResource(kind, name, [k44.AlterableConfig(key, how, value)])])


def look(kind: int, name: str, *keys: str) -> DescribeConfigsRequest:
    """Return a DescribeConfigs request for one resource, with synonyms. `kind` is the resource type; `keys` are the settings to describe
    (none given: all)."""
    return DescribeConfigsRequest([DescribeConfigsResource(kind, name, list(keys) or None)], True)


def of_topics(nodes: Nodes) -> None:
    """Change topic settings through one broker and describe them through each."""
    create(nodes, "configured", configs={"segment.bytes": "1048576"})
    nodes.everywhere("all of a topic", look(TOPIC, "configured"))
    for label, request in {
        "set": change(TOPIC, "configured", "retention.ms", "123456"),
        "a bad value": change(TOPIC, "configured", "retention.ms", "long"),
        "an unknown key": change(TOPIC, "configured", "no.such", "1"),
        "an unknown topic": change(TOPIC, "nowhere", "retention.ms", "1"),
        "append": change(TOPIC, "configured", "cleanup.policy", "compact", APPEND),
        "append to what is no list": change(TOPIC, "configured", "retention.ms", "1", APPEND),
        "more in sync than there are": change(TOPIC, "configured", "min.insync.replicas", "4"),
        "delete": change(TOPIC, "configured", "segment.bytes", None, DELETE),
    }.items():
        for version in nodes.range(ApiKey.INCREMENTAL_ALTER_CONFIGS):
            nodes.ask(2, label, request, version)
        _wait_until_applied(nodes)
        nodes.everywhere(
            f"after {label}", look(TOPIC, "configured", "retention.ms", "cleanup.policy", "segment.bytes", "min.insync.replicas")
        )
    whole = k33.AlterConfigsRequest([k33.AlterConfigsResource(TOPIC, "configured", [k33.AlterableConfig("retention.ms", "99")])])
    for version in nodes.range(ApiKey.ALTER_CONFIGS):
        nodes.ask(3, "all at once", whole, version)
    _wait_until_applied(nodes)
    nodes.everywhere("after all at once", look(TOPIC, "configured", "retention.ms", "cleanup.policy"))
    nodes.everywhere("resources with configurations", ListConfigResourcesRequest([TOPIC, BROKER]))


def of_brokers(nodes: Nodes) -> None:
    """Describe and alter broker settings. Only the broker itself serves its own settings; each broker serves the cluster-wide defaults."""
    keys = ("log.retention.ms", "message.max.bytes", "log.cleaner.threads", "min.insync.replicas", "node.id", "broker.rack")
    for version in nodes.range(ApiKey.DESCRIBE_CONFIGS):
        for name in ("1", "2", "", "9", "101", "one"):
            nodes.everywhere(f"broker {name!r}", look(BROKER, name, *keys), version)
    nodes.ask(2, "all of a broker", look(BROKER, "2"))
    for label, request in {
        "one broker's": change(BROKER, "2", "message.max.bytes", "2000000"),
        "every broker's": change(BROKER, "", "message.max.bytes", "3000000"),
        "what only a broker may have": change(BROKER, "", "listeners", "PLAINTEXT://:0"),
        "what no broker may change": change(BROKER, "2", "node.id", "7"),
        "what a broker has not": change(BROKER, "2", "no.such", "7"),
        "a bad value": change(BROKER, "2", "message.max.bytes", "-2"),
        "a bad value for all": change(BROKER, "", "message.max.bytes", "-2"),
        "an unknown broker's": change(BROKER, "9", "message.max.bytes", "2000000"),
        "no broker's": change(BROKER, "one", "message.max.bytes", "2000000"),
        "fewer in sync everywhere": change(BROKER, "", "min.insync.replicas", "1"),
        "in sync for one broker": change(BROKER, "1", "min.insync.replicas", "1"),
        "as many in sync as before": change(BROKER, "", "min.insync.replicas", "2"),
        "none in sync everywhere": change(BROKER, "", "min.insync.replicas", None, DELETE),
        "one broker's again": change(BROKER, "2", "message.max.bytes", None, DELETE),
        "every broker's again": change(BROKER, "", "message.max.bytes", None, DELETE),
    }.items():
        for through in (1, 2):
            nodes.ask(through, label, request)
            _wait_until_applied(nodes)
        for name in ("1", "2", ""):
            nodes.ask(int(name or 3), f"after {label}, broker {name!r}", look(BROKER, name, "message.max.bytes", "min.insync.replicas"))
    nodes.everywhere("resources with configurations", ListConfigResourcesRequest([BROKER]))


def of_loggers(nodes: Nodes) -> None:
    """Describe and alter loggers through every broker. A broker accepts this only for its own loggers."""
    for name in ("1", "2", "", "9", "one"):
        nodes.everywhere(f"loggers of {name!r}", look(LOGGER, name, "no.such.logger"))
        nodes.everywhere(f"a level of {name!r}", change(LOGGER, name, "no.such.logger", "DEBUG"))
        nodes.everywhere(f"a bad level of {name!r}", change(LOGGER, name, "root", "LOUD"))
    for request in (change(LOGGER, "1", "root", None, DELETE), change(LOGGER, "1", "root", "DEBUG", APPEND)):
        nodes.everywhere("root", request)
    several = k44.IncrementalAlterConfigsRequest(
        [*change(LOGGER, "1", "no.such.logger", "DEBUG").resources, *change(TOPIC, "nowhere", "retention.ms", "1").resources]
    )
    nodes.everywhere("a logger and a topic", several)
