"""The active controller of a cluster: its decisions one after the other, its log, and what it does by itself.

Rules that hold inside:
- Decide, append, carry out, all in one turn of the loop: the next decision sees it. The answer waits until the log has it on disk. So
  decisions are never taken on what could be lost, for only the whole process can lose it.
- A decision without records waits for those before it: its answer may rest on them.
- What cannot be appended ends the process, and so does what was appended and cannot be carried out: the next start reads what is there.

Source: KAFKA QuorumController.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from ottla.broker.cluster.features import METADATA_VERSION
from ottla.broker.cluster.metadata_records import FeatureLevelRecord, MetadataRecord
from ottla.broker.core.rejected import Rejected

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ottla.broker.controller.state import ControllerState
    from ottla.broker.core.effects import Effects
    from ottla.broker.runtime.quorum.sole_voter import SoleVoter

T = TypeVar("T")
logger = logging.getLogger(__name__)


class ActiveController:
    """`on_failure` is told why the process has to end."""

    def __init__(self, state: ControllerState, voter: SoleVoter, on_failure: Callable[[BaseException], object]) -> None:
        self.state = state
        self.voter = voter
        self._on_failure = on_failure

    async def run(self, decide: Callable[[ControllerState], Effects[MetadataRecord, T]], *, validate_only: bool = False) -> T:
        """The answer of a decision, when what it decided is on disk. Raises what `decide` raises; then nothing has changed."""
        effects = decide(self.state)
        if not validate_only:
            self._carry_out(effects)
        await self.voter.committed()
        return effects.response

    def _carry_out(self, effects: Effects[MetadataRecord, T]) -> None:
        try:
            base_offset = self.voter.append(effects.records, self._level(effects.records)) if effects.records else self.voter.end_offset
            self.state.carry_out(effects, base_offset)
        except BaseException as error:
            trace = None if isinstance(error, OSError | Rejected) else error  # what the disk refuses is no bug
            logger.critical("What was decided cannot be carried out: %s", error, exc_info=trace)
            self._on_failure(error)
            raise

    def _level(self, records: Sequence[MetadataRecord]) -> int:
        """At which metadata.version they are written: the first records of a cluster say it themselves."""
        if METADATA_VERSION in self.state.image.features:
            return self.state.metadata_level
        named = (record for record in records if isinstance(record, FeatureLevelRecord) and record.name == METADATA_VERSION)
        return next(named).feature_level
