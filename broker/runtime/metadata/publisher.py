"""What committed metadata means for this broker: which partitions it leads and follows, and what they and the broker run with.

Rules that hold here:

* The metadata log is always ahead of the directories: a crash at any point leaves a topic whole or gone (`topic_recovery`, or the first
  image of a cluster's member, settles the rest at a start).
* What is removed goes first, then what this broker leads, then what it follows, then coordinators, then settings (Kafka's
  `BrokerMetadataPublisher`): a name that is created again must find its old partitions gone.
* A removed partition is served no longer from the moment its removal is known; who waits for it is woken before its directory moves.
* A bug that one step meets is told with its trace, and the steps after it are taken all the same: the log will not say again what it said.
* The new partitions of a topic are served all at once: who counts them must find either none or all.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

from ottla.broker.cluster.image import EMPTY, RECOVERING, ResourceType
from ottla.broker.cluster.image_changes import difference
from ottla.broker.cluster.local_changes import LocalChanges, LocalReplica, local_changes
from ottla.broker.cluster.metadata_records import NO_LEADER
from ottla.broker.cluster.topic_ids import ZERO_ID, id_text
from ottla.broker.cluster.topic_names import CLUSTER_METADATA
from ottla.broker.configs.topic_config import effective_log_config, usable_overrides
from ottla.broker.core import limits
from ottla.broker.core.log_config import INT64_MAX
from ottla.broker.core.rejected import Rejected
from ottla.broker.core.topic_keys import TOPIC_KEYS
from ottla.broker.replication.brokers import BrokerStanding
from ottla.broker.replication.leadership import Registration
from ottla.broker.replication.throttle import NO_LIMIT
from ottla.broker.storage.errors import FsyncFailed

if TYPE_CHECKING:
    from ottla.broker.cluster.catalog import Catalog
    from ottla.broker.cluster.image import BrokerRegistration, MetadataImage, PartitionRegistration, TopicImage
    from ottla.broker.cluster.image_changes import ImageChanges
    from ottla.broker.cluster.metadata_loader import Published
    from ottla.broker.configs.broker_config import BrokerConfigs
    from ottla.broker.core.clock import Clock
    from ottla.broker.core.log_config import LogConfig
    from ottla.broker.core.settings import BrokerSettings
    from ottla.broker.replication.brokers import Brokers
    from ottla.broker.replication.throttle import Throttles
    from ottla.broker.runtime.replicas.flusher import Flusher
    from ottla.broker.runtime.replicas.partition import Partition
    from ottla.broker.runtime.replicas.partitions import Partitions
    from ottla.broker.storage.log_dir import LogDir
    from ottla.broker.storage.partition_log import PartitionLog

logger = logging.getLogger(__name__)

_TOPIC_DEFAULTS = frozenset(synonym.name for key in TOPIC_KEYS.values() for synonym in key.synonyms)
"""Broker settings that are a topic key's default: when one changes, open logs have to hear of it."""


_OF_PRODUCERS = frozenset({"producer.id.expiration.ms", "transaction.partition.verification.enable"})
"""Broker settings that open logs keep themselves."""


class FetcherManager(Protocol):
    """Who fetches for the partitions that this broker follows."""

    def follow(self, partition: Partition, leader: int) -> None:
        """Fetch from this broker, in the leader epoch that the partition has now; from nowhere else."""

    def forget(self, partition: Partition) -> None:
        """Fetch no more for the partition, if that is done at all."""


class Publisher:
    """`on_deleted` hear of each topic that is there no longer; `on_elected` and `on_resigned` of each partition, by topic, index and leader
    epoch, that this broker leads in a new one, or does not lead; there the epoch is None where it has no replica any more. `on_quotas` are
    told that quotas have changed, `on_settings` that settings of this very broker were written, `on_subscriptions` of each subscription to
    clients' metrics that has changed, by its name.

    `brokers` are told of every registration; `fetchers` of what is to be fetched. A broker without others has neither.
    """

    def __init__(
        self,
        catalog: Catalog,
        broker_configs: BrokerConfigs,
        *,
        log_dir: LogDir,
        partitions: Partitions,
        flusher: Flusher,
        clock: Clock,
        brokers: Brokers | None = None,
        throttles: Throttles | None = None,
    ) -> None:
        self.on_deleted: list[Callable[[TopicImage], None]] = []
        self.on_elected: list[Callable[[str, int, int], None]] = []
        self.on_resigned: list[Callable[[str, int, int | None], None]] = []
        self.on_quotas: list[Callable[[], None]] = []
        self.on_settings: list[Callable[[], None]] = []
        self.on_subscriptions: list[Callable[[str], None]] = []
        self.fetchers: FetcherManager | None = None
        self.shutting_down = False
        """A controlled shutdown has begun: nothing is fetched for partitions without leader, nor where this replica is out of sync."""
        self._opened = False
        self._new_configs: dict[str, LogConfig] = {}
        """Of topics whose partitions are being made: one for all of them."""
        self._catalog = catalog
        self._broker_configs = broker_configs
        self._log_dir = log_dir
        self._partitions = partitions
        self._flusher = flusher
        self._clock = clock
        self._brokers = brokers
        self._throttles = throttles

    # --- what is called ----------------------------------------------------------------------------------------------------------

    async def take(self, published: Published) -> None:
        """What a member of a cluster read from the metadata log: the catalog has it from now on, and it is carried out. One at a time."""
        self._catalog.publish(published.image, published.changes)
        if self._opened:
            await self.publish(published.changes)
        else:
            self._register(published.image.brokers)
            with _step("setting strays aside"):
                self._set_aside_strays(published.image)
            self.open()

    def open(self) -> None:
        """Carries out the first image: serves every partition that has a replica here, from its log where one was found. Blocks.

        Directories that belong to none of them are set aside before this.
        """
        self._opened = True
        self._broker_configs.refresh()
        changes = difference(EMPTY, self._catalog.image)
        local = local_changes(changes, self._settings.node_id)
        configs = self._new_configs = {}
        for replica in [*local.leaders, *local.followers]:
            name = replica.topic.name
            if name not in configs:
                configs[name] = self._log_config_at_start(name)
            log = self._log_dir.logs.get((name, replica.index))
            if log is not None:
                with _step(f"taking over the log of {name}-{replica.index}"):
                    self._take_over(log, configs[name])
        self._throttle(self._catalog.configured_resources(ResourceType.TOPIC))
        self._serve([*local.leaders, *local.followers])
        self._tell_coordinators(local)

    async def publish(self, changes: ImageChanges) -> dict[str, Rejected]:
        """Carries out what was committed and applied. The topics of which the disk refused a partition, with the first refusal.

        Others have their turns meanwhile; whoever calls sees to it that the next change waits.
        """
        self._register(changes.brokers)
        self._new_configs = {}
        local = local_changes(changes, self._settings.node_id)
        if local.removed:
            with _step("removing replicas"):
                await self._remove(local.removed)
        for change in changes.topics.values():
            if change.before is None and change.after is not None:
                logger.info("created topic %s with %d partition(s)", change.after.name, len(change.after.partitions))
        replicas = [*local.leaders, *local.followers]
        with _step("making logs"):
            await self._make_logs(replicas)
        known = [replica for replica in replicas if self._is_served(replica)]
        refused = self._serve([replica for replica in replicas if not self._is_served(replica)])
        for at in range(0, len(known), limits.ELECTIONS_AT_ONCE):
            refused = self._serve(known[at : at + limits.ELECTIONS_AT_ONCE]) | refused
            await asyncio.sleep(0)
        self._tell_coordinators(local)
        self._tell_of_deleted(changes)
        if changes.configs:
            with _step("changing settings"):
                self._configured(changes)
        if str(self._settings.node_id) in changes.brokers_set:
            _tell(self.on_settings)
        if changes.client_quotas:
            _tell(self.on_quotas)
        if self.on_subscriptions:
            for kind, name in changes.configs:
                if kind == ResourceType.CLIENT_METRICS:
                    _tell(self.on_subscriptions, name)
        return refused

    # --- brokers and coordinators ------------------------------------------------------------------------------------------------

    def _register(self, registrations: Mapping[int, BrokerRegistration | None]) -> None:
        if self._brokers is None:
            return
        for node, broker in registrations.items():
            if broker is None:
                self._brokers.standings.pop(node, None)
            else:
                self._brokers.standings[node] = BrokerStanding(broker.epoch, broker.fenced, broker.in_controlled_shutdown)

    def _tell_coordinators(self, local: LocalChanges) -> None:
        for replica in local.removed:
            _tell(self.on_resigned, replica.topic.name, replica.index, None)
        for replica in local.elected:
            _tell(self.on_elected, replica.topic.name, replica.index, replica.partition.leader_epoch)
        for replica in local.followers:
            _tell(self.on_resigned, replica.topic.name, replica.index, replica.partition.leader_epoch)

    def _tell_of_deleted(self, changes: ImageChanges) -> None:
        for change in changes.topics.values():
            if change.before is not None and change.after is None:
                _tell(self.on_deleted, change.before)
                logger.info("deleted topic %s", change.before.name)

    # --- replicas ----------------------------------------------------------------------------------------------------------------

    def _is_served(self, replica: LocalReplica) -> bool:
        served = self._partitions.by_name(replica.topic.name)
        return served is not None and replica.index in served.partitions

    def _serve(self, replicas: Iterable[LocalReplica]) -> dict[str, Rejected]:
        """Leads and follows. The topics of which the disk refused a partition, which stays offline until a start can make it."""
        refused: dict[str, Rejected] = {}
        for replica in replicas:
            name = replica.topic.name
            try:
                with _step(f"leading or following {name}-{replica.index}"):
                    self._lead_or_follow(replica)
            except Rejected as error:
                logger.error("%s-%d is offline: %s", name, replica.index, error)
                self._partitions.add_offline(name, replica.topic.topic_id, replica.index)
                refused.setdefault(name, error)
        return refused

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
        """The partition, served from now on; None for one that is offline. Raises Rejected where the disk refuses it."""
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
            # Noted before the first append, as Kafka's leader does: who asks where the epoch of an empty log ends is told.
            log.become_leader(replica.partition.leader_epoch)
        return log

    async def _make_logs(self, replicas: Iterable[LocalReplica]) -> None:
        """Makes logs a few at a time, so that the loop serves others meanwhile: ten thousand of them take a second."""
        made = 0
        for replica in replicas:
            if self._is_known(replica):
                continue
            try:
                self._log_of(replica)
            except Rejected:
                return  # `_serve` will meet it again, and tell
            made += 1
            if made % limits.LOGS_AT_ONCE == 0:
                await asyncio.sleep(0)

    def _is_known(self, replica: LocalReplica) -> bool:
        """Whether there is a directory, or a reason for which there is none."""
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
        # A name that a power loss brought back, or an offset in a checkpoint, could be taken for that of a new topic of the same name.
        await self._flusher.run(self._log_dir.removal_checkpoint())

    def _remove_directory(self, name: str, index: int) -> None:
        if (name, index) not in self._log_dir.logs and (name, index) not in self._log_dir.failed:
            return
        try:
            self._log_dir.delete_log(name, index)
        except Rejected as error:
            # It is gone all the same: the next start finds that no topic has it, and settles what is left.
            logger.error("the directory of %s-%d, which was removed, stays: %s", name, index, error)

    # --- what was found at the start ---------------------------------------------------------------------------------------------

    def _set_aside_strays(self, image: MetadataImage) -> None:
        """Renames the directories of partitions that have no replica here (Kafka's `LogManager.isStrayReplica`,
        which never looks at the metadata log's)."""
        for (name, index), log in list(self._log_dir.logs.items()):
            topic = image.topics.get(log.topic_id)
            partition = None if topic is None else topic.partitions.get(index)
            if name == CLUSTER_METADATA or (partition is not None and self._settings.node_id in partition.replicas):
                continue
            text = "without one" if log.topic_id == ZERO_ID else id_text(log.topic_id)
            logger.warning("setting %s-%d aside as stray: this broker has no replica of such a partition of topic id %s", name, index, text)
            self._log_dir.mark_stray(name, index)
        self._log_dir.removal_checkpoint()()

    def _log_config_at_start(self, name: str) -> LogConfig:
        overrides = self._catalog.configs(ResourceType.TOPIC, name)
        for key in overrides.keys() - usable_overrides(overrides).keys():
            logger.warning("topic %s: %s=%s means nothing here and is ignored", name, key, overrides[key])
        return self._log_config(name)

    def _take_over(self, log: PartitionLog, config: LogConfig) -> None:
        """A log that was found at the start goes on with the settings that are in force."""
        log.config = config
        self._set_producer_settings(log)
        log.expire_producers(self._clock.now_ms())  # not before: the setting may be one that was changed while the broker ran
        if config.flush_messages != INT64_MAX and log.recovery_point < log.log_end_offset:
            log.flush()  # what is readable is on disk, also what was written just before a crash

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
        """KAFKA TopicConfigHandler, BrokerConfigHandler: the rates are only ever set on running brokers, on one or on all."""
        if self._throttles is None:
            return
        node, topics = self._settings.node_id, list(topics)
        rates = {**self._catalog.configs(ResourceType.BROKER, ""), **self._catalog.configs(ResourceType.BROKER, str(node))}
        for side, throttle in self._throttles._asdict().items():
            throttle.rate = int(rates.get(f"{side}.replication.throttled.rate", NO_LIMIT))
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


@contextmanager
def _step(what: str) -> Iterator[None]:
    """A refusal is the caller's to tell; a disk that cannot be trusted ends the process. Source: KAFKA BrokerMetadataPublisher."""
    try:
        yield
    except (Rejected, FsyncFailed):
        raise
    except Exception:
        logger.exception("Bug while %s, as metadata says; the rest of it is carried out", what)


def _tell(hooks: Iterable[Callable[..., None]], *news: object) -> None:
    for hook in hooks:
        with _step("telling of what changed"):
            hook(*news)


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
