"""The metadata of a standalone node: a controller and a broker in one process, connected by function calls.

The controller makes decisions and writes the metadata log, as in a cluster. The broker applies the committed records before the response
is sent, so a client can use a created topic at once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from random import Random

from ottla.broker.cluster.catalog import Catalog
from ottla.broker.cluster.features import SUPPORTED, TRANSACTION_VERSION, Features, finalized, supported
from ottla.broker.cluster.metadata_records import Endpoint, FeatureLevelRecord, FeatureRange, MetadataRecord, RegisterBrokerRecord
from ottla.broker.configs.broker_config import BrokerConfigs
from ottla.broker.controller.standalone import register_standalone
from ottla.broker.controller.state import ControllerState
from ottla.broker.core.effects import Effects
from ottla.broker.core.rejected import Rejected
from ottla.broker.core.settings import BrokerSettings
from ottla.broker.runtime.metadata.local_topics import LocalTopics
from ottla.broker.runtime.metadata.publisher import Publisher
from ottla.broker.runtime.metadata.topic_recovery import first_records, settle_directories
from ottla.broker.runtime.quorum.local_metadata import LocalMetadata
from ottla.broker.runtime.quorum.quorum_controller import QuorumController
from ottla.broker.runtime.quorum.sole_voter import ReadMetadata
from ottla.broker.runtime.replicas.flusher import Flusher
from ottla.broker.runtime.replicas.partitions import Partitions
from ottla.broker.runtime.upkeep.nursery import Nursery
from ottla.broker.storage.errors import LogDirRefused
from ottla.broker.storage.log_dir import LogDir
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.uuids import random_uuid


class StandaloneMetadata:
    """The metadata of a standalone node. The constructor opens the metadata log and begins to serve every partition. It blocks; call it on
    the event loop, before connections are accepted.

    `listeners` are the broker's listeners with their advertised addresses. `on_failure` is called with the error that must end the process.
    `read` is the content of the metadata log, if it was read in advance. Raises ProtocolError for an invalid metadata record, LogDirRefused
    if the directory cannot be used as it is.
    """

    def __init__(
        self,
        log_dir: LogDir,
        settings: BrokerSettings,
        *,
        nursery: Nursery,
        flusher: Flusher,
        partitions: Partitions,
        random: Random,
        listeners: Sequence[Endpoint],
        on_failure: Callable[[BaseException], None],
        read: ReadMetadata | None = None,
    ) -> None:
        self.catalog = Catalog()
        """The metadata that this node's broker has applied; the controller may already have decided newer changes."""
        self._settings = settings
        try:
            self.controller = controller = QuorumController(
                settings, log_dir, [], nursery=nursery, flusher=flusher, random=random, on_failure=on_failure, read=read
            )
            broker_epoch = self._begin(log_dir, listeners, random)
            settle_directories(log_dir, controller.voter)
            self.broker_configs = BrokerConfigs(settings, self.catalog)
            self.publisher = Publisher(
                self.catalog, self.broker_configs, log_dir=log_dir, partitions=partitions, flusher=flusher, nursery=nursery
            )
            self.publisher.open(controller.newest)
        except Rejected as error:
            raise LogDirRefused(f"{log_dir.path}: {error}") from error
        self._local = LocalMetadata(controller, self.publisher.publish, nursery, controller.newest.provenance.offset)
        controller.active.published = self.published
        self.topics = LocalTopics(controller.active, self.catalog, settings, broker_epoch, published=self.published, nursery=nursery)
        self._local.start()
        controller.start_upkeep()
        nursery.at_close(self._stop, self.broker_configs.loggers.reset)

    def _begin(self, log_dir: LogDir, listeners: Sequence[Endpoint], random: Random) -> int:
        """Become the controller, register this broker and make it the leader of its partitions. One sync of the metadata log commits the
        records of all these steps. Return the broker epoch of the registration.
        """
        controller, voter = self.controller, self.controller.voter
        controller.open(first_records(log_dir, self._settings, random.randbytes))
        _check_levels(voter.image.features, self._settings)
        controller.active.begin(partial(_settle_transaction_version, settings=self._settings))
        me = RegisterBrokerRecord(
            broker_id=self._settings.node_id,
            incarnation_id=random_uuid(random.randbytes),
            broker_epoch=voter.end_offset,
            end_points=list(listeners),
            features=[FeatureRange(name, low, high) for name, (low, high) in supported(self._settings.release_behaviour).items()],
            rack=self._settings.broker_rack,
            fenced=False,
            log_dirs=[log_dir.meta.directory_id],
        )
        found = {*log_dir.logs, *log_dir.failed}
        broker_epoch = controller.active.begin(partial(register_standalone, me=me, clean=log_dir.was_clean, found=found))
        voter.sync()
        return broker_epoch

    def features(self) -> Features:
        """Return the supported and finalized features of this node, for ApiVersions responses."""
        levels, offered = finalized(self.catalog.features), supported(self._settings.release_behaviour)
        in_force = {name: level for name, level in levels.items() if name in offered}
        return Features(offered, in_force, self.controller.newest.provenance.offset)

    async def published(self) -> None:
        """Wait until the broker has applied all metadata that is committed now."""
        await self._local.up_to_date()

    async def _stop(self) -> None:
        """Wait until all decisions that the controller has made are committed, and the broker has applied them. Then undo the changes of
        logger levels that clients have made.
        """
        await self.controller.voter.commit()
        await self.published()
        self.broker_configs.loggers.reset()


def _check_levels(levels: Mapping[str, int], settings: BrokerSettings) -> None:
    """Raise Rejected(INVALID_UPDATE_VERSION) if one of these feature levels is higher than the levels of the Kafka release that this node
    imitates (`release_behaviour`).
    """
    problems = list(settings.release_behaviour.above(levels))
    if problems:
        advice = "be like a later release (--like), or use another directory"
        raise Rejected(ErrorCode.INVALID_UPDATE_VERSION, f"{'; '.join(problems)}: {advice}")


def _settle_transaction_version(state: ControllerState, settings: BrokerSettings) -> Effects[MetadataRecord, None]:
    """Make the node's setting transaction.version and the finalized feature level in the metadata log agree.

    If the setting was given explicitly and differs, return a record that finalizes its level. If it was not given, set it to the log's
    level (0 if the log has none).
    """
    stored = state.image.features.get(TRANSACTION_VERSION, 0)
    if TRANSACTION_VERSION not in settings.explicit:
        settings.transaction_version = min(stored, SUPPORTED[TRANSACTION_VERSION][1])
    elif settings.transaction_version != stored:
        return Effects([FeatureLevelRecord(TRANSACTION_VERSION, settings.transaction_version)], None)
    return Effects([], None)
