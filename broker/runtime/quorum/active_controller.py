"""The active controller of a cluster: runs its decisions one at a time and appends their records to the metadata log.

Invariants:
- Decide, append and apply happen in one turn of the event loop, so the next decision sees the result. The response waits until the records
  are on disk. A decision may use the results of records that are not on disk yet: a crash that loses those loses the decision, too.
- A decision without records also waits for the records before it, because its response may depend on them.
- Records that contradict the image are not written, because no node could read the log again. Neither are those that are too large for a
  batch. Only that decision fails.
- A failure to append ends the process; the next start replays what the log holds. Exception: a standalone node continues if nothing was
  written, for example because the disk is full.

Source: Kafka's QuorumController.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from ottla.broker.cluster.features import METADATA_VERSION
from ottla.broker.cluster.metadata_records import FeatureLevelRecord, MetadataRecord
from ottla.broker.controller.state import ControllerState
from ottla.broker.core.effects import Effects
from ottla.broker.core.rejected import Rejected
from ottla.broker.runtime.quorum.sole_voter import SoleVoter
from ottla.protocol.error_codes import ErrorCode

T = TypeVar("T")
logger = logging.getLogger(__name__)


class ActiveController:
    """Runs decisions (functions of `broker/controller` that return records and a response) against the controller's state. `on_failure` is
    called with the error that must end the process.
    """

    def __init__(self, state: ControllerState, voter: SoleVoter, on_failure: Callable[[BaseException], object]) -> None:
        self.state = state
        self.voter = voter
        self.published: Callable[[], Awaitable[None]] | None = None
        """A function that waits until the broker in the same process has applied all committed metadata. None if responses do not wait for
        a broker."""
        self._on_failure = on_failure

    def begin(self, decide: Callable[[ControllerState], Effects[MetadataRecord, T]]) -> T:
        """Run a decision during startup, before any request is served. Return its response before the decision's records are synced; the
        caller must sync the log afterwards."""
        effects = decide(self.state)
        self._carry_out(effects)
        return effects.response

    async def run(self, decide: Callable[[ControllerState], Effects[MetadataRecord, T]], *, validate_only: bool = False) -> T:
        """Run a decision and return its response when the decision's records are on disk; with `validate_only` no records are written. An
        exception of `decide` is raised, and nothing has changed then. Raises InconsistentRecord, also without a change, if the decision's
        records contradict the image.
        """
        effects = decide(self.state)
        if not validate_only:
            self._carry_out(effects)
        await self.voter.commit()
        if self.published is not None:
            await self.published()
        return effects.response

    def _carry_out(self, effects: Effects[MetadataRecord, T]) -> None:
        following = self.state.following(effects.records)
        try:
            base_offset = self.voter.append(effects.records, self._level(effects.records)) if effects.records else self.voter.end_offset
            self.state.apply(effects, base_offset, following)
        except BaseException as error:
            if isinstance(error, Rejected) and (self.voter.is_standalone or error.code is ErrorCode.RECORD_LIST_TOO_LARGE):
                raise  # nothing was written; with a full disk, for example, a standalone node continues to serve
            trace = None if isinstance(error, OSError | Rejected) else error  # a disk error needs no stack trace
            logger.critical("The controller's decision cannot be written or applied: %s", error, exc_info=trace)
            self._on_failure(error)
            raise

    def _level(self, records: Sequence[MetadataRecord]) -> int:
        """Return the level of metadata.version at which to encode `records`. In a new cluster, one of the `records` sets the level."""
        if METADATA_VERSION in self.state.image.features:
            return self.state.metadata_level
        named = (record for record in records if isinstance(record, FeatureLevelRecord) and record.name == METADATA_VERSION)
        return next(named).feature_level
