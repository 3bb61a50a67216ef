"""Random logs of several concurrent producers: either legal throughout, or with planted anomalies.

Invariants:
- A seed always gives the same log.
- A step's offset is known when the step is added, so the expected finding of a planted anomaly can name it.
- A producer with a planted anomaly writes nothing more, so that no other anomaly hides it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

from ottla.spark_jobs.corpus.case import Case, Expected
from ottla.spark_jobs.corpus.writer import T0, PartitionWriter

PARTITIONS = 2
STEPS = 60
SEEDS = 6


@dataclass
class Producer:
    """An idempotent producer, or a transactional producer with transactions of version 2 (KIP-890)."""

    pid: int
    transactional: bool
    epoch: int = 0
    sequences: list[int] = field(default_factory=lambda: [0] * PARTITIONS)
    seen: list[int] = field(default_factory=lambda: [-1] * PARTITIONS)
    """For each partition, the newest epoch of the producer's batches and markers in it; -1 if there is none."""
    touched: dict[int, int] = field(default_factory=dict)
    """The partitions of the open transaction, each with the transaction's first offset in it."""

    def next_epoch(self) -> None:
        """Increase the producer's epoch; its sequences start at 0 again."""
        self.epoch += 1
        self.sequences = [0] * PARTITIONS


class Script:
    """The steps that write a random log, and the findings that the audit must report for it. A step appends one batch or marker, or starts
    a new segment."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.steps: list[tuple[int, str, dict[str, Any]]] = []
        self.expected: list[Expected] = []
        self.ends = [0] * PARTITIONS
        self.leader_epoch = 0
        self.producers = [Producer(pid, pid % 2 == 1) for pid in range(4)]

    def write(self, root: Path) -> None:
        """Run the steps: write the log's partitions to the directory `root`."""
        logs = [PartitionWriter(root, "t", index) for index in range(PARTITIONS)]
        for partition, name, arguments in self.steps:
            getattr(logs[partition], name)(**arguments)

    def step(self, partition: int, name: str, offsets: int, /, **arguments: Any) -> int:
        """Add a step to the script: a call of the method `name` of the partition's `PartitionWriter`, which appends `offsets` offsets.
        Return the first of these offsets."""
        offset = self.ends[partition]
        self.steps.append((partition, name, {**arguments, "at": T0 + 1000 * len(self.steps)}))
        self.ends[partition] += offsets
        return offset

    def found(self, rule: str, kind: str, partition: int, offset: int, severity: str = "violation") -> None:
        """Add a finding at an offset to the findings that the audit must report."""
        self.expected.append((rule, severity, kind, f"t-{partition}@{offset}"))

    def send(self, producer: Producer, partition: int, **changes: Any) -> int:
        """Add a step that appends a batch of the producer, and return the batch's base offset. The batch continues the producer's epoch and
        sequences in the partition, unless `changes` has other arguments for `PartitionWriter.data`."""
        count = self.random.randint(1, 4)
        arguments = {
            "pid": producer.pid, "epoch": producer.epoch, "seq": producer.sequences[partition], "transactional": producer.transactional,
            "leader_epoch": self.leader_epoch, **changes,
        }  # fmt: skip
        offset = self.step(partition, "data", count, count=count, **arguments)
        if arguments["epoch"] == producer.epoch:
            producer.sequences[partition] = arguments["seq"] + count
            producer.seen[partition] = producer.epoch
        if arguments["transactional"]:
            producer.touched.setdefault(partition, offset)
        return offset

    def end(self, producer: Producer, *outcomes: bool, coordinator_epoch: int = 0) -> dict[int, int]:
        """Add the markers that end the producer's open transaction in all its partitions. `outcomes` (True: commit): one value for all
        partitions, or one for each. Return the marker's offset in each partition."""
        offsets = {}
        for at, partition in enumerate(producer.touched):
            committed = outcomes[at % len(outcomes)]
            marker = {"pid": producer.pid, "epoch": producer.epoch + 1, "committed": committed, "coordinator_epoch": coordinator_epoch}
            offsets[partition] = self.step(partition, "marker", 1, **marker, leader_epoch=self.leader_epoch)
            producer.seen[partition] = producer.epoch + 1
        producer.touched = {}
        producer.next_epoch()
        return offsets

    def retire(self, producer: Producer) -> None:
        """Replace the producer by a new one with another id. The old one writes nothing more, so that no later batch hides its planted
        anomaly."""
        self.producers[self.producers.index(producer)] = Producer(len(self.steps) + 100, producer.transactional)

    def live(self) -> None:
        """Add one random legal step to the script, such as a batch of a random producer or the end of a transaction."""
        producer = self.random.choice(self.producers)
        partition = self.random.randrange(PARTITIONS)
        chance = self.random.random()
        if chance < 0.05:
            self.steps.append((partition, "roll", {}))
        elif chance < 0.1:
            self.leader_epoch += 1
        elif chance < 0.2:
            self.step(partition, "data", 3, count=3, leader_epoch=self.leader_epoch)
        elif producer.transactional and producer.touched and chance < 0.5:
            self.end(producer, chance < 0.4)
        elif not producer.transactional and chance < 0.3:
            producer.next_epoch()
        else:
            self.send(producer, partition)

    def finish(self) -> None:
        """Add the markers that end all open transactions."""
        for producer in self.producers:
            if producer.touched:
                self.end(producer, True)


def _idempotent(script: Script) -> Producer:
    return next(producer for producer in script.producers if not producer.transactional)


def _transactional(script: Script) -> Producer:
    """Return a transactional producer of the script. If its transaction is open, commit the transaction first."""
    producer = next(producer for producer in script.producers if producer.transactional)
    if producer.touched:
        script.end(producer, True)
    return producer


def duplicate(script: Script, partition: int) -> None:
    producer = _idempotent(script)
    sequence = producer.sequences[partition]
    script.send(producer, partition)
    count = producer.sequences[partition] - sequence
    batch = {"pid": producer.pid, "epoch": producer.epoch, "seq": sequence, "leader_epoch": script.leader_epoch}
    script.found("duplicate-sequence", "same batch twice", partition, script.step(partition, "data", count, count=count, **batch))
    script.retire(producer)


def gap(script: Script, partition: int) -> None:
    producer = _idempotent(script)
    script.send(producer, partition)
    producer.sequences[partition] += 5
    script.found("sequence-gap", "sequence gap", partition, script.send(producer, partition))
    script.retire(producer)


def late(script: Script, partition: int) -> None:
    producer = _idempotent(script)
    script.send(producer, partition)
    here = producer.sequences[partition]
    one = {"count": 1, "pid": producer.pid, "epoch": producer.epoch, "leader_epoch": script.leader_epoch}
    script.step(partition, "data", 1, seq=here + 1, **one)
    script.found("sequence-order", "arrived late", partition, script.step(partition, "data", 1, seq=here, **one))
    script.retire(producer)


def zombie(script: Script, partition: int) -> None:
    producer = _idempotent(script)
    script.send(producer, partition)
    before = producer.sequences[partition]
    producer.next_epoch()
    script.send(producer, partition)
    script.found("epochs", "epoch regress", partition, script.send(producer, partition, epoch=producer.epoch - 1, seq=before))
    script.retire(producer)


def not_at_zero(script: Script, partition: int) -> None:
    producer = _idempotent(script)
    script.send(producer, partition)
    producer.next_epoch()
    script.found("epochs", "new epoch not at 0", partition, script.send(producer, partition, seq=3))
    script.retire(producer)


def zombie_transaction(script: Script, partition: int) -> None:
    producer = _transactional(script)
    script.send(producer, partition)
    sequence = producer.sequences[partition]
    script.end(producer, True)
    offset = script.send(producer, partition, epoch=producer.epoch - 1, seq=sequence)
    script.found("zombie-batch", "behind a marker", partition, offset)
    script.found("hanging-transaction", "orphan: a newer epoch wrote", partition, offset)
    script.retire(producer)


def torn(script: Script, partition: int) -> None:
    producer = _transactional(script)
    script.send(producer, partition)
    other = script.send(producer, 1 - partition)
    script.end(producer, True, False)
    script.found("torn-transaction", "committed elsewhere, aborted here", 1 - partition, other)
    script.retire(producer)


def mixed(script: Script, partition: int) -> None:
    producer = _transactional(script)
    script.send(producer, partition)
    script.found(
        "mixed-transaction", "plain batch in an open transaction", partition, script.send(producer, partition, transactional=False)
    )
    script.end(producer, True)
    script.retire(producer)


def deposed_coordinator(script: Script, partition: int) -> None:
    producer = _transactional(script)
    script.send(producer, partition)
    script.end(producer, True, coordinator_epoch=7)
    script.send(producer, partition)
    marker = script.end(producer, False, coordinator_epoch=6)[partition]
    script.found("markers", "coordinator epoch regress", partition, marker)
    script.retire(producer)


def hole(script: Script, partition: int) -> None:
    script.ends[partition] += 4
    offset = script.step(partition, "data", 2, count=2, offset=script.ends[partition], leader_epoch=script.leader_epoch)
    script.found("offsets", "offset gap", partition, offset, "warning")


def deposed_leader(script: Script, partition: int) -> None:
    script.leader_epoch += 1
    script.step(partition, "data", 1, count=1, leader_epoch=script.leader_epoch)
    offset = script.step(partition, "data", 1, count=1, leader_epoch=script.leader_epoch - 1)
    script.found("leader-epochs", "leader epoch regress", partition, offset)


def key_twice(script: Script, partition: int) -> None:
    key = f"twice-{len(script.steps)}"
    script.step(partition, "data", 1, rows=[key], leader_epoch=script.leader_epoch)
    offset = script.step(1 - partition, "data", 1, rows=[key], leader_epoch=script.leader_epoch)
    script.found("business-key", "key seen before", 1 - partition, offset)


PLANTS: tuple[Callable[[Script, int], None], ...] = (
    duplicate, gap, late, zombie, not_at_zero, zombie_transaction, torn, mixed, deposed_coordinator, hole, deposed_leader, key_twice,
)  # fmt: skip


def script(seed: int, *, planted: bool) -> Script:
    """Return the random log of a seed. If `planted`, the log contains each kind of anomaly once, at random places and in random order;
    otherwise the log is legal."""
    made = Script(seed)
    plants = made.random.sample(PLANTS, len(PLANTS)) if planted else []
    for at in range(STEPS):
        made.live()
        if plants and at % (STEPS // len(PLANTS)) == 0:
            plants.pop()(made, made.random.randrange(PARTITIONS))
    made.finish()
    return made


def _case(seed: int, *, planted: bool) -> Case:
    made = script(seed, planted=planted)
    return Case(partial(Script.write, made), made.expected)


RANDOM_LOGS: dict[str, Case] = {f"random_{seed}": _case(seed, planted=False) for seed in range(SEEDS)} | {
    f"random_{seed}_with_all_planted": _case(seed, planted=True) for seed in range(SEEDS)
}
