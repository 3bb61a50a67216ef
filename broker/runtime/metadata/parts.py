"""The components of a broker that handle the cluster's metadata. They are built first; the other components of the broker need them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from ottla.broker.cluster.catalog import Catalog
from ottla.broker.cluster.features import Features
from ottla.broker.configs.broker_config import BrokerConfigs
from ottla.broker.runtime.metadata.cluster_view import ClusterView
from ottla.broker.runtime.metadata.publisher import Publisher
from ottla.broker.runtime.metadata.topic_making import TopicMaker
from ottla.broker.runtime.replicas.partitions import Partitions

if TYPE_CHECKING:
    from ottla.broker.runtime.coordination.other_brokers import OtherBrokers
    from ottla.broker.runtime.nodes.envelopes import EnvelopeForwarding


class MetadataParts(NamedTuple):
    """The broker's components that handle metadata. `forwarding` sends clients' requests to the controller, and `other_brokers` sends
    requests to other brokers; both are None on a standalone node.

    `features` returns the supported and finalized features.
    """

    catalog: Catalog
    broker_configs: BrokerConfigs
    partitions: Partitions
    publisher: Publisher
    topics: TopicMaker
    view: ClusterView
    features: Callable[[], Features]
    forwarding: EnvelopeForwarding | None = None
    other_brokers: OtherBrokers | None = None
