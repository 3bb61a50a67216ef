"""The controller of a single-voter quorum: its metadata log, its state and its decisions. A standalone node's controller is one that no
other node can reach; `controller_role` adds what other nodes need: the fencing of brokers, elections and the controller's registration.

Source: Kafka's QuorumController.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property, partial
from random import Random
from typing import TYPE_CHECKING, Final

from ottla.broker.cluster.image import EMPTY
from ottla.broker.cluster.image_changes import ImageChanges, unclean_elections
from ottla.broker.cluster.metadata_loader import Provenance, Published
from ottla.broker.cluster.metadata_records import MetadataRecord
from ottla.broker.cluster.raft_records import VoterEndpoint
from ottla.broker.cluster.topic_ids import METADATA_TOPIC_ID, ZERO_ID
from ottla.broker.cluster.topic_names import CLUSTER_METADATA
from ottla.broker.controller.activation import activate
from ottla.broker.controller.state import ControllerState
from ottla.broker.core.effects import Effects
from ottla.broker.core.quorum_addresses import voters
from ottla.broker.core.settings import BrokerSettings
from ottla.broker.runtime.nodes.snapshot_generator import SnapshotPolicy
from ottla.broker.runtime.quorum.active_controller import ActiveController
from ottla.broker.runtime.quorum.sole_voter import Identity, ReadMetadata, SoleVoter
from ottla.broker.runtime.replicas.flusher import Flusher
from ottla.broker.runtime.upkeep.nursery import Nursery
from ottla.broker.storage.errors import LogDirRefused
from ottla.broker.storage.log_dir import LogDir
from ottla.broker.storage.partition_log import PartitionLog
from ottla.broker.storage.raft_log import METADATA_LOG_CONFIG, MetadataRetention

if TYPE_CHECKING:
    from ottla.broker.runtime.quorum.serving import QuorumServing

logger = logging.getLogger(__name__)

UPKEEP_MS: Final = 60_000
_METADATA_PARTITION: Final = (CLUSTER_METADATA, 0)
_NAMES_SHOWN: Final = 5


class QuorumController:
    """The controller of a single-voter quorum. `endpoints` are the controller listeners with their actual ports; a standalone node has no
    controller listener.
    """

    def __init__(
        self,
        settings: BrokerSettings,
        log_dir: LogDir,
        endpoints: Sequence[VoterEndpoint],
        *,
        nursery: Nursery,
        flusher: Flusher,
        random: Random,
        on_failure: Callable[[BaseException], None],
        read: ReadMetadata | None = None,
    ) -> None:
        self._settings, self._log_dir, self._nursery, self._flusher = settings, log_dir, nursery, flusher
        self._clock = nursery.clock
        self.newest = Published(EMPTY, Provenance(), ImageChanges())
        """The newest committed metadata image, which was passed to all `followers` (functions that get each committed image)."""
        self.followers: list[Callable[[Published], object]] = []
        me = Identity(log_dir.cluster_id, settings.node_id, log_dir.meta.directory_id, endpoints)
        self.voter = SoleVoter(
            self._metadata_log(),
            me,
            is_named=bool(voters(settings.controller_quorum_voters)),
            clock=nursery.clock,
            flusher=flusher,
            on_published=self._published,
            retention=MetadataRetention(settings.metadata_max_retention_bytes, settings.metadata_max_retention_ms),
            policy=SnapshotPolicy(settings.metadata_log_max_record_bytes_between_snapshots, settings.metadata_log_max_snapshot_interval_ms),
            read=read,
        )
        self.state = ControllerState(me.cluster_id, settings, random, [settings.node_id])
        self.active = ActiveController(self.state, self.voter, on_failure)

    def _metadata_log(self) -> PartitionLog:
        log_dir, settings = self._log_dir, self._settings
        if _METADATA_PARTITION in log_dir.failed:
            raise LogDirRefused(f"the metadata log in {log_dir.path} cannot be read: {log_dir.failed[_METADATA_PARTITION]}")
        config = replace(
            METADATA_LOG_CONFIG, segment_bytes=settings.metadata_log_segment_bytes, segment_ms=settings.metadata_log_segment_ms
        )
        log = log_dir.logs.get(_METADATA_PARTITION) or log_dir.create_log(*_METADATA_PARTITION, METADATA_TOPIC_ID, config, at_once=True)
        log.config = config
        if log.topic_id == ZERO_ID:  # kafka-storage format writes no topic id
            log_dir.assign_topic_id(log, METADATA_TOPIC_ID)
        return log

    def open(self, bootstrap: Sequence[MetadataRecord]) -> None:
        """Become the quorum's leader and activate the controller; `bootstrap` are the first records of an empty metadata log.

        The records written here are not committed before the caller syncs the log. Blocks the event loop. Raises LogDirRefused if the
        metadata log names other voters than this node or its records contradict each other, ProtocolError if it is damaged, and OSError if
        it cannot be read or written.
        """
        voter, state = self.voter, self.state
        self._nursery.at_close(voter.end, voter.end)
        voter.open()
        state.kraft_version = voter.quorum.kraft_version
        state.load(voter.image, voter.end_offset - 1, self._clock.mono_ms())
        self.active.begin(partial(activate, bootstrap=bootstrap, in_transaction=voter.in_transaction))

    @cached_property
    def serving(self) -> QuorumServing:
        """The object that answers Fetch and FetchSnapshot of the metadata log, and DescribeQuorum. It is created at the first use."""
        from ottla.broker.runtime.quorum.serving import QuorumServing  # noqa: PLC0415 # a standalone node rarely needs it

        return QuorumServing(self.voter, self._clock, self._nursery.timers)

    def _published(self, published: Published) -> None:
        self.newest = published
        _warn_of_unclean_elections(published.changes)
        for follower in self.followers:
            follower(published)

    # --- periodic work -----------------------------------------------------------------------------------------------------------

    def start_upkeep(self) -> None:
        """Start the periodic work of the controller: the upkeep of the metadata log and, if delegation tokens are enabled, the removal of
        expired tokens.
        """
        self._nursery.every("upkeep of the metadata log", UPKEEP_MS, self._look_after_log)
        if self._settings.delegation_token_secret_key:
            from ottla.broker.controller.delegation_tokens import remove_expired_tokens  # noqa: PLC0415 # few nodes use tokens

            self._repeat(
                "expiry of delegation tokens",
                self._settings.delegation_token_expiry_check_interval_ms,
                lambda state: remove_expired_tokens(state.image, self._clock.now_ms()),
            )

    def _repeat(self, name: str, interval_ms: int, decide: Callable[[ControllerState], Effects[MetadataRecord, bool]]) -> None:
        """Run a decision of the controller every `interval_ms`. While the decision's response is True, more work is left, and the decision
        is run again at once.
        """
        self._nursery.every(name, interval_ms, partial(self._while_there_is_more, decide))

    async def _while_there_is_more(self, decide: Callable[[ControllerState], Effects[MetadataRecord, bool]]) -> None:
        while await self.active.run(decide):
            pass

    async def _look_after_log(self) -> None:
        log, now_ms = self.voter.raft_log, self._clock.now_ms()
        log.clean(now_ms)
        for remove in log.due_deletions(now_ms):
            await self._flusher.run(remove)
        await self._flusher.run(self._log_dir.recovery_point_checkpoint())  # recovery after a crash begins at the recovery point


def _warn_of_unclean_elections(changes: ImageChanges) -> None:
    last_known: list[str] = []
    for topic, index, before in unclean_elections(changes):
        now = topic.partitions[index]
        if before.isr or before.elr:
            line = "Unclean election: broker %d leads %s-%d in epoch %d. Records are lost that only the ISR %s or the ELR %s had"
            logger.warning(line, now.leader, topic.name, index, now.leader_epoch, list(before.isr), list(before.elr))
        else:  # the leader is the last known one (KIP-966)
            last_known.append(f"{topic.name}-{index} (broker {now.leader})")
    if last_known:
        more = f" and {len(last_known) - _NAMES_SHOWN} more" if len(last_known) > _NAMES_SHOWN else ""
        logger.warning(
            "All replicas ended without a controlled shutdown. The last known leaders lead again: %s%s. "
            "If a leader's machine failed, records that it had not flushed are lost",
            ", ".join(last_known[:_NAMES_SHOWN]),
            more,
        )
