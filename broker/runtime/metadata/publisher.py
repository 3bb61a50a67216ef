"""Applies committed metadata to this broker: the partitions it leads and follows, and the settings that they and the broker use.

Invariants:

* Metadata is committed before the directories are changed. If the broker crashes in between, its next start changes the directories to
  agree with the metadata (`topic_recovery`, or a cluster broker's first image).
* Changes are applied in the order of Kafka's `BrokerMetadataPublisher`: removed partitions, leaders, followers, coordinators, settings. If
  a topic is deleted and created again with the same name, its old partitions are removed before the new ones are created.
* Once a removal is published, requests for the partition fail. Pending requests are completed before the directory is renamed.
* If a step raises an unexpected exception, it is logged and the later steps are still taken, because the change is not published again.
* The broker begins to serve all new partitions of a topic in the same turn of the event loop, so that no client sees only some of them.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

from ottla.broker.cluster.catalog import Catalog
from ottla.broker.cluster.image import EMPTY, RECOVERING, BrokerRegistration, MetadataImage, PartitionRegistration, ResourceType, TopicImage
from ottla.broker.cluster.image_changes import ImageChanges, difference
from ottla.broker.cluster.local_changes import LocalChanges, LocalReplica, local_changes
from ottla.broker.cluster.metadata_loader import Published
from ottla.broker.cluster.metadata_records import NO_LEADER
from ottla.broker.cluster.topic_ids import ZERO_ID
from ottla.broker.cluster.topic_names import CLUSTER_METADATA
from ottla.broker.configs.broker_config import BrokerConfigs
from ottla.broker.configs.topic_config import effective_log_config, usable_overrides
from ottla.broker.core import limits
from ottla.broker.core.log_config import INT64_MAX, LogConfig
from ottla.broker.core.rejected import Rejected
from ottla.broker.core.settings import STORED_SETTINGS, BrokerSettings
from ottla.broker.core.topic_keys import TOPIC_KEYS
from ottla.broker.replication.brokers import BrokerLiveness, Brokers
from ottla.broker.replication.leadership import Registration
from ottla.broker.replication.throttle import NO_LIMIT, Throttles
from ottla.broker.runtime.replicas.flusher import Flusher
from ottla.broker.runtime.replicas.partition import Partition
from ottla.broker.runtime.replicas.partitions import Partitions
from ottla.broker.runtime.upkeep.nursery import GuardedStep, Nursery
from ottla.broker.storage.log_dir import LogDir
from ottla.broker.storage.partition_log import PartitionLog
from ottla.protocol.uuids import encode_uuid

logger = logging.getLogger(__name__)

_TOPIC_DEFAULTS = frozenset(synonym.name for key in TOPIC_KEYS.values() for synonym in key.synonyms)
"""Broker settings that are the default of a topic setting. A change of such a setting changes the configuration of open logs."""


_OF_PRODUCERS = frozenset({"producer.id.expiration.ms", "transaction.partition.verification.enable"})
"""Broker settings about producers that each open log keeps a copy of; a change of such a setting is copied to every log."""


class FetcherManager(Protocol):
    """Fetches records for the partitions that this broker follows: the interface of `ottla.broker.runtime.replicas.fetchers.Fetchers`."""

    def follow(self, partition: Partition, leader: int) -> None:
        """Fetch the partition's records from broker `leader` in the partition's current leader epoch, instead of from any earlier
        leader."""

    def forget(self, partition: Partition) -> None:
        """Stop fetching records for the partition. If no fetcher has the partition, do nothing."""


class Publisher:
    """Applies metadata images to this broker and notifies other components (Kafka's BrokerMetadataPublisher).

    The callbacks in `on_deleted` get each deleted topic. Those in `on_election` get topic, index and leader epoch of each partition that
    this broker leads in a new epoch. Those in `on_resignation` get topic, index and leader epoch of each partition that this broker follows
    now; the epoch is None if its replica was removed (as in onElection and onResignation of Kafka's coordinators). `on_quotas` is called
    when client quotas have changed, `on_settings` when settings of this broker were written, and `on_subscriptions` with the name of each
    changed client metrics subscription.

    `brokers` stores the registrations of the cluster's brokers, and `fetchers` fetches records for the partitions that this broker follows.
    A standalone node has neither.
    """

    def __init__(
        self,
        catalog: Catalog,
        broker_configs: BrokerConfigs,
        *,
        log_dir: LogDir,
        partitions: Partitions,
        flusher: Flusher,
        nursery: Nursery,
        brokers: Brokers | None = None,
        throttles: Throttles | None = None,
    ) -> None:
        self.on_deleted: list[Callable[[TopicImage], None]] = []
        self.on_election: list[Callable[[str, int, int], None]] = []
        self.on_resignation: list[Callable[[str, int, int | None], None]] = []
        self.on_quotas: list[Callable[[], None]] = []
        self.on_settings: list[Callable[[], None]] = []
        self.on_subscriptions: list[Callable[[str], None]] = []
        self.fetchers: FetcherManager | None = None
        self.shutting_down = False
        """Whether a controlled shutdown has begun. From then on a partition that has no leader, or whose ISR does not contain this broker,
        is not fetched any more."""
        self._opened = False
        self._new_configs: dict[str, LogConfig] = {}
        """The log configurations of topics whose partitions are being created, by topic name, so that all partitions of a topic share one
        object."""
        self._catalog = catalog
        self._broker_configs = broker_configs
        self._log_dir = log_dir
        self._partitions = partitions
        self._flusher = flusher
        self._nursery = nursery
        self._brokers = brokers
        self._throttles = throttles

    # --- applying metadata -------------------------------------------------------------------------------------------------------

    async def publish(self, published: Published) -> None:
        """Apply a metadata image to this broker: put it into the catalog, then apply its changes to partitions, coordinators and settings.
        Other tasks run meanwhile, so the caller must await each call before it makes the next one.
        """
        if self._opened:
            self._catalog.publish(published.image, published.changes)
            await self._publish(published.changes)
        else:
            self.open(published)

    def open(self, first: Published) -> None:
        """Apply the first metadata image: serve every partition that has a replica on this broker, with its log from the disk or a new one.
        Blocks the event loop.
        """
        self._catalog.publish(first.image, first.changes)
        self._register(first.image.brokers)
        with self._step("renaming stray directories"):
            self._mark_strays(first.image)
        self._opened = True
        self._broker_configs.refresh()
        changes = difference(EMPTY, self._catalog.image)
        local = local_changes(changes, self._settings.node_id)
        configs = self._new_configs = {}
        by_overrides: dict[frozenset[tuple[str, str]], LogConfig] = {}
        for replica in [*local.leaders, *local.followers]:
            name = replica.topic.name
            if name not in configs:
                configs[name] = self._log_config_at_start(name, by_overrides)
            log = self._log_dir.logs.get((name, replica.index))
            if log is not None:
                with self._step("configuring the log of %s-%d", name, replica.index):
                    self._configure_at_start(log, configs[name])
        self._throttle(self._catalog.configured_resources(ResourceType.TOPIC))
        self._serve([*local.leaders, *local.followers])
        self._notify_coordinators(local)

    async def _publish(self, changes: ImageChanges) -> None:
        self._register(changes.brokers)
        self._new_configs = {}
        local = local_changes(changes, self._settings.node_id)
        if local.removed:
            with self._step("removing replicas"):
                await self._remove(local.removed)
        for change in changes.topics.values():
            if change.before is None and change.after is not None:
                logger.info("created topic %s with %d partition(s)", change.after.name, len(change.after.partitions))
        replicas = [*local.leaders, *local.followers]
        with self._step("making logs"):
            await self._make_logs(replicas)
        known = [replica for replica in replicas if self._is_served(replica)]
        self._serve([replica for replica in replicas if not self._is_served(replica)])
        for at in range(0, len(known), limits.ELECTIONS_AT_ONCE):
            self._serve(known[at : at + limits.ELECTIONS_AT_ONCE])
            await asyncio.sleep(0)
        self._notify_coordinators(local)
        self._notify_of_deleted(changes)
        if changes.configs:
            with self._step("changing settings"):
                self._configured(changes)
        if str(self._settings.node_id) in changes.brokers_set:
            self._call_hooks(self.on_settings)
        if changes.client_quotas:
            self._call_hooks(self.on_quotas)
        if self.on_subscriptions:
            for kind, name in changes.configs:
                if kind == ResourceType.CLIENT_METRICS:
                    self._call_hooks(self.on_subscriptions, name)

    def _step(self, name: str, *args: object) -> GuardedStep:
        """Return a context manager for one step of applying metadata. An exception in the step is logged, not raised, so that the later
        steps are taken (as in Kafka's BrokerMetadataPublisher); only Rejected and a failed fsync are raised.
        """
        return self._nursery.step(name, *args, passing=Rejected)

    def _call_hooks(self, hooks: Iterable[Callable[..., None]], *news: object) -> None:
        for hook in hooks:
            with self._step("notifying components of a change"):
                hook(*news)

    # --- brokers and coordinators ------------------------------------------------------------------------------------------------

    def _register(self, registrations: Mapping[int, BrokerRegistration | None]) -> None:
        if self._brokers is None:
            return
        for node, broker in registrations.items():
            if broker is None:
                self._brokers.liveness.pop(node, None)
            else:
                self._brokers.liveness[node] = BrokerLiveness(broker.epoch, broker.fenced, broker.in_controlled_shutdown)

    def _notify_coordinators(self, local: LocalChanges) -> None:
        for replica in local.removed:
            self._call_hooks(self.on_resignation, replica.topic.name, replica.index, None)
        for replica in local.elected:
            self._call_hooks(self.on_election, replica.topic.name, replica.index, replica.partition.leader_epoch)
        for replica in local.followers:
            self._call_hooks(self.on_resignation, replica.topic.name, replica.index, replica.partition.leader_epoch)

    def _notify_of_deleted(self, changes: ImageChanges) -> None:
        for change in changes.topics.values():
            if change.before is not None and change.after is None:
                self._call_hooks(self.on_deleted, change.before)
                logger.info("deleted topic %s", change.before.name)

    # --- replicas ----------------------------------------------------------------------------------------------------------------

    def _is_served(self, replica: LocalReplica) -> bool:
        served = self._partitions.by_name(replica.topic.name)
        return served is not None and replica.index in served.partitions

    def _serve(self, replicas: Iterable[LocalReplica]) -> None:
        """Make the partitions of `replicas` leaders or followers on this broker. A partition whose log cannot be created or written is
        offline until a restart.
        """
        for replica in replicas:
            name = replica.topic.name
            try:
                with self._step("leading or following %s-%d", name, replica.index):
                    self._lead_or_follow(replica)
            except Rejected as error:
                logger.error("%s-%d is offline: %s", name, replica.index, error)
                self._partitions.add_offline(name, replica.topic.topic_id, replica.index)

    def _lead_or_follow(self, replica: LocalReplica) -> None:
        partition = self._partition(replica)
        if partition is None:
            return
        if replica.partition.leader == self._settings.node_id:
            self._lead(partition, replica.partition)
        else:
            self._follow(partition, replica.partition)

    def _lead(self, partition: Partition, registered: PartitionRegistration) -> None:
        if self.fetchers is not None:
            self.fetchers.forget(partition)
        partition.lead(_registration(registered))

    def _follow(self, partition: Partition, registered: PartitionRegistration) -> None:
        begins = partition.follow(_registration(registered))
        if self.fetchers is None:
            return
        stays_behind = self.shutting_down and self._settings.node_id not in registered.isr
        if registered.leader == NO_LEADER or stays_behind:
            self.fetchers.forget(partition)
        elif begins:
            self.fetchers.follow(partition, registered.leader)

    def _partition(self, replica: LocalReplica) -> Partition | None:
        """Return the partition of `replica`, and serve it from now on if it is new. Return None if it is offline. Raises Rejected if its
        log cannot be created or written.
        """
        name, topic_id, index = replica.topic.name, replica.topic.topic_id, replica.index
        served = self._partitions.by_name(name)
        if served is not None and index in served.partitions:
            return served.partitions[index]
        if served is not None and index in served.offline:
            return None
        if (name, index) in self._log_dir.failed:
            self._partitions.add_offline(name, topic_id, index)
            return None
        return self._partitions.add(self._log_of(replica))

    def _log_of(self, replica: LocalReplica) -> PartitionLog:
        topic = replica.topic
        log = self._log_dir.logs.get((topic.name, replica.index))
        if log is None:
            config = self._new_configs.get(topic.name)
            if config is None:
                config = self._new_configs[topic.name] = self._log_config(topic.name)
            log = self._log_dir.create_log(topic.name, replica.index, topic.topic_id, config)
            self._set_producer_settings(log)
        if replica.partition.leader == self._settings.node_id:
            # Recorded before the first append, as Kafka's leader does: OffsetsForLeaderEpoch needs it even for an empty log.
            log.become_leader(replica.partition.leader_epoch)
        return log

    async def _make_logs(self, replicas: Iterable[LocalReplica]) -> None:
        """Create missing logs, LOGS_AT_ONCE per turn of the event loop, because 10,000 logs take a second. Stop at a disk error."""
        made = 0
        for replica in replicas:
            if self._is_known(replica):
                continue
            try:
                self._log_of(replica)
            except Rejected:
                return  # `_serve` gets the same error and reports it
            made += 1
            if made % limits.LOGS_AT_ONCE == 0:
                await asyncio.sleep(0)

    def _is_known(self, replica: LocalReplica) -> bool:
        """Return whether this broker has a log directory for the replica, or knows that the replica is offline."""
        key = (replica.topic.name, replica.index)
        served = self._partitions.by_name(replica.topic.name)
        return key in self._log_dir.logs or key in self._log_dir.failed or (served is not None and replica.index in served.offline)

    async def _remove(self, replicas: Sequence[LocalReplica]) -> None:
        for replica in replicas:
            partition = self._partitions.remove(replica.topic.name, replica.index)
            if partition is not None and self.fetchers is not None:
                self.fetchers.forget(partition)
        for replica in replicas:
            self._remove_directory(replica.topic.name, replica.index)
        # After a power loss, an old directory or checkpoint entry could be taken for that of a new topic with the same name.
        await self._flusher.run(self._log_dir.removal_checkpoint())

    def _remove_directory(self, name: str, index: int) -> None:
        if (name, index) not in self._log_dir.logs and (name, index) not in self._log_dir.failed:
            return
        try:
            self._log_dir.delete_log(name, index)
        except Rejected as error:
            # The partition is not served any more; the next start finds that the directory belongs to no topic and renames it.
            logger.error("the directory of the removed partition %s-%d could not be renamed for deletion: %s", name, index, error)

    # --- logs found at the start -------------------------------------------------------------------------------------------------

    def _mark_strays(self, image: MetadataImage) -> None:
        """Add `-stray` to the name of each partition directory on the disk if the metadata has no replica of that partition on this broker
        (`LogManager.isStrayReplica`, which also skips the metadata log).
        """
        for (name, index), log in list(self._log_dir.logs.items()):
            topic = image.topics.get(log.topic_id)
            partition = None if topic is None else topic.partitions.get(index)
            if name == CLUSTER_METADATA or (partition is not None and self._settings.node_id in partition.replicas):
                continue
            text = "without one" if log.topic_id == ZERO_ID else encode_uuid(log.topic_id)
            logger.warning("renaming %s-%d as stray: this broker has no replica of such a partition of topic id %s", name, index, text)
            self._log_dir.mark_stray(name, index)
        if self._log_dir.needs_removal_checkpoint:
            self._log_dir.removal_checkpoint()()

    def _log_config_at_start(self, name: str, known: dict[frozenset[tuple[str, str]], LogConfig]) -> LogConfig:
        """Return a topic's log configuration, and warn of overrides that are not valid. `known` maps the overrides of a topic to their
        configuration, and is filled here, so that topics with the same overrides (most have none) share one object."""
        overrides = self._catalog.configs(ResourceType.TOPIC, name)
        for key in overrides.keys() - usable_overrides(overrides, self._settings).keys():
            logger.warning("topic %s: %s=%s is not a valid setting and is ignored", name, key, overrides[key])
        found = frozenset(overrides.items())
        if found not in known:
            known[found] = self._log_config(name)
        return known[found]

    def _configure_at_start(self, log: PartitionLog, config: LogConfig) -> None:
        """Apply the topic's and the broker's settings to a log that was found on disk at the start of the broker."""
        log.config = config
        self._set_producer_settings(log)
        log.expire_producers(self._nursery.clock.now_ms())  # not at the log's opening: the metadata may override the expiration time
        if config.flush_messages != INT64_MAX and log.recovery_point < log.log_end_offset:
            log.flush()  # with flush.messages, consumers must see only records on disk, also after a crash

    # --- settings ----------------------------------------------------------------------------------------------------------------

    @property
    def _settings(self) -> BrokerSettings:
        return self._broker_configs.settings

    def _log_config(self, name: str) -> LogConfig:
        return effective_log_config(self._catalog.configs(ResourceType.TOPIC, name), self._settings)

    def _set_producer_settings(self, log: PartitionLog) -> None:
        log.producer_expiration_ms = self._settings.producer_id_expiration_ms
        log.verifies_transactions = self._settings.transaction_partition_verification_enable

    def _configured(self, changes: ImageChanges) -> None:
        changed = self._broker_configs.refresh()
        self._throttle(name for kind, name in changes.configs if kind == ResourceType.TOPIC)
        if changed & _OF_PRODUCERS:
            for partition in self._partitions:
                self._set_producer_settings(partition.log)
        if changed & _TOPIC_DEFAULTS:
            self._reconfigure(topic.name for topic in self._catalog.topics())
        else:
            self._reconfigure(name for kind, name in changes.configs if kind == ResourceType.TOPIC)

    def _throttle(self, topics: Iterable[str]) -> None:
        """Set the replication quotas: the rates from the dynamic settings of this broker or of all brokers, and the throttled replicas from
        the settings of `topics` (Kafka's BrokerConfigHandler, TopicConfigHandler).
        """
        if self._throttles is None:
            return
        node, topics = self._settings.node_id, list(topics)
        for side, throttle in self._throttles._asdict().items():
            rate = self._broker_configs.dynamic_value(STORED_SETTINGS[f"{side}.replication.throttled.rate"])
            throttle.rate = rate if isinstance(rate, int) else NO_LIMIT
            for topic in topics:
                replicas = self._catalog.configs(ResourceType.TOPIC, topic).get(f"{side}.replication.throttled.replicas", "")
                throttle.cover(topic, [each.strip() for each in replicas.split(",") if each.strip()], node)

    def _reconfigure(self, names: Iterable[str]) -> None:
        for name in names:
            served = self._partitions.by_name(name)
            if served is not None:
                config = self._log_config(name)
                for partition in served.partitions.values():
                    partition.reconfigure(config)


def _registration(partition: PartitionRegistration) -> Registration:
    return Registration(
        leader=partition.leader,
        replicas=partition.replicas,
        isr=partition.isr,
        leader_epoch=partition.leader_epoch,
        partition_epoch=partition.partition_epoch,
        adding=partition.adding_replicas,
        removing=partition.removing_replicas,
        recovering=partition.leader_recovery_state == RECOVERING,
    )
