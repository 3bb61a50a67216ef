"""The components of share groups on a broker, built together: the share coordinator, the persister, the groups and the share partitions."""

from __future__ import annotations

from dataclasses import dataclass

from ottla.broker.core.settings import BrokerSettings
from ottla.broker.runtime.coordination.end_offsets import EndOffsets
from ottla.broker.runtime.coordination.group_service import GroupService
from ottla.broker.runtime.coordination.share_group_service import ShareGroupService
from ottla.broker.runtime.coordination.share_persister import SharePersister
from ottla.broker.runtime.coordination.share_state_service import ShareStateService
from ottla.broker.runtime.metadata.parts import MetadataParts
from ottla.broker.runtime.share.dead_letter_queues import DeadLetterQueues
from ottla.broker.runtime.share.group_settings import GroupSettings
from ottla.broker.runtime.share.share_fetch import ShareFetches
from ottla.broker.runtime.share.share_partitions import SharePartitionManager
from ottla.broker.runtime.upkeep.nursery import Nursery
from ottla.broker.runtime.upkeep.turns import Turns


@dataclass(frozen=True, slots=True)
class ShareServices:
    """The components of share groups on a broker. `state` is the share coordinator, `groups` are the share groups that this broker
    coordinates, and `partitions` are the share partitions of partitions that this broker leads.
    """

    state: ShareStateService
    persister: SharePersister
    groups: ShareGroupService
    partitions: SharePartitionManager
    fetches: ShareFetches
    dead_letters: DeadLetterQueues

    async def load(self) -> None:
        """Start to load the share state that this broker coordinates. Return when it is loaded, or after a short time; the loading then
        continues (`ShareStateService.load`).
        """
        await self.state.load()

    def stop(self) -> None:
        """Complete pending share fetches, and stop all work of share groups. After the next start, leaders and coordinators continue from
        the log.
        """
        self.fetches.release_all()
        self.partitions.stop()
        self.state.stop()


def share_services(
    metadata: MetadataParts, settings: BrokerSettings, nursery: Nursery, *, groups: GroupService, turns: Turns
) -> ShareServices:
    """Build the components of share groups, register them for metadata changes, and return them."""
    catalog, partitions, publisher = metadata.catalog, metadata.partitions, metadata.publisher
    clock, timers = nursery.clock, nursery.timers
    peers = None if metadata.other_brokers is None else metadata.other_brokers.share_peers()
    state = ShareStateService(settings, nursery, partitions, create_topic=metadata.topics.ensure, catalog=catalog)
    persister = SharePersister(state, catalog, settings.node_id, nursery, peers)
    settings_of = GroupSettings(catalog, metadata.broker_configs)
    queues = DeadLetterQueues(
        partitions,
        catalog,
        metadata.topics,
        metadata.broker_configs,
        nursery,
        settings_of=settings_of,
        peers=None if metadata.other_brokers is None else metadata.other_brokers.share_peers(),
    )
    led = SharePartitionManager(
        partitions,
        persister,
        clock,
        timers,
        settings_of=settings_of,
        max_sessions=settings.group_share_max_share_sessions,
        write_dead_letters=queues.write,
        nursery=nursery,
    )
    state.shards.follow(publisher)
    publisher.on_deleted.append(lambda topic: state.forget_topic(topic.topic_id))
    publisher.on_resignation.append(led.on_resignation)
    end_offsets = EndOffsets(partitions, catalog, settings.node_id, peers)
    group_service = ShareGroupService(groups, persister, end_offsets, nursery)
    return ShareServices(state, persister, group_service, led, ShareFetches(led, timers, turns), queues)
