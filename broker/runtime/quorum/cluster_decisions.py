"""Clients' requests about topics, settings, quotas and ACLs as decisions of the controller."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from ottla.broker.cluster.image import QuotaTarget
from ottla.broker.cluster.metadata_records import MetadataRecord
from ottla.broker.cluster.topic_ids import new_topic_id
from ottla.broker.configs.broker_config import BrokerConfigs
from ottla.broker.configs.topic_config import check_topic_configs
from ottla.broker.controller.acls import Deleted, Filter, create_acls, delete_acls
from ottla.broker.controller.alter_configs import AlterResource
from ottla.broker.controller.client_quotas import alter_client_quotas
from ottla.broker.controller.cluster_configs import alter_cluster_configs
from ottla.broker.controller.create_topics import CreatedTopic, MorePartitions, NewTopic, create_partitions, create_topics
from ottla.broker.controller.delete_topics import DeletedTopic, TopicRef, delete_topics
from ottla.broker.controller.placement import Placement
from ottla.broker.controller.state import ControllerState
from ottla.broker.core.effects import Effects
from ottla.broker.core.rejected import Rejected
from ottla.broker.runtime.quorum.active_controller import ActiveController
from ottla.protocol.messages.k30_create_acls import AclCreation
from ottla.protocol.messages.k49_alter_client_quotas import EntryData


@dataclass(frozen=True, slots=True)
class ClusterDecisions:
    """The decisions with their arguments bound. `is_forwarded`: the request came through a broker, which has made its own checks."""

    active: ActiveController
    broker_configs: BrokerConfigs
    is_forwarded: bool = False

    async def create_topics(
        self, topics: Sequence[NewTopic], *, validate_only: bool = False, charge: Callable[[int], None] = lambda _: None
    ) -> list[CreatedTopic]:
        """Create topics; one result per topic, in their order. With `validate_only` nothing is written. `charge` counts against quotas."""
        return await self.active.run(partial(_create_topics, topics=topics, charge=charge), validate_only=validate_only)

    async def delete_topics(self, refs: Sequence[TopicRef], *, charge: Callable[[int], None] = lambda _: None) -> list[DeletedTopic]:
        """Delete topics; one result per topic, in their order. `charge` counts against quotas."""
        return await self.active.run(lambda state: delete_topics(state.catalog, refs, charge))

    async def create_partitions(
        self, topics: Sequence[MorePartitions], *, validate_only: bool = False, charge: Callable[[int], None] = lambda _: None
    ) -> list[tuple[str, Rejected | None]]:
        """Add partitions to topics; the name and None, or the rejection, per topic. `charge` counts against quotas."""
        return await self.active.run(
            lambda state: create_partitions(state.catalog, topics, Placement.in_cluster(state), charge), validate_only=validate_only
        )

    async def alter_configs(self, resources: Sequence[AlterResource], *, validate_only: bool = False) -> list[Rejected | None]:
        """Change settings of topics or brokers; None, or the rejection, per resource."""
        return await self.active.run(
            partial(alter_cluster_configs, resources=resources, forwarded=self.is_forwarded), validate_only=validate_only
        )

    async def alter_client_quotas(self, entries: Sequence[EntryData], *, validate_only: bool = False) -> dict[QuotaTarget, Rejected | None]:
        """Change client quotas; None, or the rejection, per quota target."""
        return await self.active.run(lambda state: alter_client_quotas(state.image, entries), validate_only=validate_only)

    async def create_acls(self, acls: Sequence[AclCreation]) -> list[Rejected | None]:
        """Create ACLs; None, or the rejection, per ACL."""
        return await self.active.run(lambda state: create_acls(state.image, acls, state.random.randbytes))

    async def delete_acls(self, filters: Sequence[Filter]) -> list[Deleted]:
        """Delete the ACLs that match each filter; the deleted ACLs, or the rejection, per filter."""
        return await self.active.run(lambda state: delete_acls(state.image, filters))


def _create_topics(
    state: ControllerState, topics: Sequence[NewTopic], charge: Callable[[int], None]
) -> Effects[MetadataRecord, list[CreatedTopic]]:
    def check(overrides: Mapping[str, str]) -> None:
        check_topic_configs(overrides, state.settings)

    placement = Placement.in_cluster(state)
    return create_topics(state.catalog, topics, placement, check, lambda: new_topic_id(state.random.randbytes), charge=charge)
