"""Sends the same sequences of orders (requests, clock advances, timers) to Apache Kafka's own controller and to Ottla's decisions, and
reports every difference.

python -m tests.support.controller_differential --seeds 200

Records are compared byte for byte in the version in which they are written, and so are the responses. The sequence of records and of
response elements is not compared where Kafka takes it from its hash tables: adjacent records of one kind are compared as a set, and so are
the elements of a response. Differences of error texts are only counted. A sequence with a difference is reduced to a short one that still
shows it, and printed.
"""

from __future__ import annotations

import argparse
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence, Set
from dataclasses import dataclass, field
from itertools import groupby
from random import Random
from typing import Any, NamedTuple

from client_compat.kafka.jars import KafkaMissing
from ottla.broker.cluster.metadata_records import (
    ClientQuotaRecord,
    ConfigRecord,
    FeatureLevelRecord,
    MetadataRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RemoveTopicRecord,
    RemoveUserScramCredentialRecord,
    UserScramCredentialRecord,
)
from ottla.broker.cluster.record_frames import decode_record, encode_record
from ottla.broker.cluster.record_versions import NotWritable, version_of
from ottla.protocol.errors import EncodeError
from ottla.protocol.messages.k62_broker_registration import BrokerRegistrationRequest
from ottla.protocol.messages.k64_unregister_broker import UnregisterBrokerRequest
from ottla.protocol.schema import Message, decode, encode
from tests.support.controller_steps import Plan, Step
from tests.support.controller_topic_steps import KINDS, plan
from tests.support.kafka_controller import Answer, KafkaController, Known, Order, Request, Start
from tests.support.ottlas_controller import OttlasController, Verdict

STEPS = 100
PRINTED_MAX = 5
LINE_MAX = 240
UNORDERED = (
    PartitionRecord,
    PartitionChangeRecord,
    ConfigRecord,
    RemoveTopicRecord,
    FeatureLevelRecord,
    ClientQuotaRecord,
    UserScramCredentialRecord,
    RemoveUserScramCredentialRecord,
)
"""Kinds of records that Kafka writes in the order of a hash table. Adjacent records of one of these kinds are compared without regard to
their order."""
MESSAGES = ("error_message",)
UNCOMPARED = ()


class Difference(NamedTuple):
    """The outcomes of one order (a request or a timer of the controller) with Kafka and with Ottla; `kind` names the order's API and the
    part that differs."""

    kind: str
    step: int
    order: Order
    theirs: object
    ours: object

    def __str__(self) -> str:
        return (
            f"{self.kind} at step {self.step}\n  asked:  {brief(self.order)}\n  Kafka:  {brief(self.theirs)}\n  Ottla:  {brief(self.ours)}"
        )


@dataclass
class Tally:
    """Totals over many sequences: sequences, orders, requests, records and responses; and the kinds of orders that Ottla does not
    support."""

    sequences: int = 0
    orders: int = 0
    requests: int = 0
    records: int = 0
    responses: int = 0
    not_judged: Counter[str] = field(default_factory=Counter)
    texts: Counter[str] = field(default_factory=Counter)
    unequal: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    print_texts: bool = False

    def __str__(self) -> str:
        lines = [
            f"sequences {self.sequences}, orders {self.orders}, requests {self.requests}",
            f"compared: records {self.records}, responses {self.responses}",
            f"unequal {sum(self.unequal.values())}",
            *(f"  {kind}: {count}" for kind, count in self.unequal.most_common()),
            f"texts of errors that differ {sum(self.texts.values())}",
            *(f"  {kind}: {count}" for kind, count in self.texts.most_common()),
        ]
        if self.faults:
            lines += ["Kafka's own faults", *(f"  {text[:200]}: {count}" for text, count in self.faults.most_common())]
        if self.not_judged:
            lines.append("not decided by Ottla: " + ", ".join(f"{name} {count}" for name, count in self.not_judged.most_common()))
        return "\n".join(lines)


def name_of(order: Order) -> str:
    """Return the name of an order (a request, a clock advance or a timer) for reports."""
    if isinstance(order, Request):
        return type(order.message).__name__.removesuffix("Request")
    return type(order).__name__ if isinstance(order, Start) else f"{type(order).__name__} {order[0]}"


def differences(
    plan: Plan, kafka: KafkaController, tally: Tally, controller: Callable[[], OttlasController] = OttlasController
) -> Iterator[Difference]:
    """Run a sequence with Kafka's controller and Ottla's decisions, and yield each difference."""
    known, ottla = Known(), controller()
    tally.sequences += 1
    for number, order in orders(plan, known):
        theirs = kafka.execute(order)
        level = known.image.features.get("metadata.version", 0)
        known.learn(order, theirs)
        name = name_of(order)
        tally.orders += 1
        if theirs.faults:  # Kafka's controller failed; its later decisions mean nothing
            tally.faults.update(theirs.faults)
            return
        tally.requests += isinstance(order, Request)
        try:
            ours = ottla.execute(order, theirs)
        except Exception as error:  # noqa: BLE001 - a bug of a decision is a difference
            yield Difference(f"{name} raised", number, order, outcome(theirs), "".join(traceback.format_exception(error)))
            return
        if ours is None:
            tally.not_judged[name] += 1
            continue
        tally.records += len(theirs.records)
        found = Difference(f"{name} records", number, order, None, None)
        yield from of_records(found, theirs, ours, level or known.image.metadata_level, uncompared_topics(order, known))
        if isinstance(order, Request):
            tally.responses += 1
            yield from of_response(Difference(f"{name} response", number, order, theirs.response, ours.response), tally)
        if theirs.more != ours.more:
            yield Difference(f"{name} more", number, order, theirs.more, ours.more)


def orders(plan: Plan, known: Known) -> Iterator[tuple[int, Order]]:
    """Yield each order of a sequence of steps, with the number of its step. An order is created after the results of the earlier orders are
    known."""
    yield 0, plan.start
    for number, step in enumerate(plan.steps, 1):
        for order in KINDS[step.kind](known, Random(step.seed)):
            yield number, order


def outcome(answer: Answer) -> object:
    """Return the decoded records and the response in the result of an order."""
    return [*answer.decoded(), answer.response]


def uncompared_topics(order: Order, known: Known) -> Set[bytes]:
    """Return the ids of topics whose partition changes are not compared, because of a bug in Kafka when a broker restarts or is
    unregistered.

    Kafka's index `BrokersToElrs` is not updated when eligible leader replicas are cleared: it then names partitions that have nothing to do
    with the broker, and Kafka changes partitions of the same topic.
    """
    is_of_index = isinstance(order, Request) and isinstance(order.message, BrokerRegistrationRequest | UnregisterBrokerRequest)
    return known.cleared if is_of_index else frozenset()


def of_records(found: Difference, theirs: Answer, ours: Verdict, level: int, ignored: Set[bytes]) -> Iterator[Difference]:
    """Yield a difference if the records of Kafka and Ottla differ. Partition changes of the topics in `ignored` are not compared."""
    try:
        written = [encode_record(record, version_of(record, level)) for record in ours.records]
    except (NotWritable, EncodeError, ValueError) as error:
        yield found._replace(theirs=theirs.decoded(), ours=(error, ours.records))
        return
    if in_order(theirs.records, ignored) != in_order(written, ignored):
        yield found._replace(theirs=described(theirs.records), ours=described(written))


def in_order(frames: Sequence[bytes], ignored: Set[bytes] = frozenset()) -> list[bytes]:
    """Return the records without partition changes of the topics in `ignored`; adjacent records of an unordered kind are sorted by their
    bytes."""
    read = [(frame, decode_record(frame)[0]) for frame in frames]
    left = [(frame, record) for frame, record in read if not (isinstance(record, PartitionChangeRecord) and record.topic_id in ignored)]
    ordered: list[bytes] = []
    for kind, run in groupby(left, lambda each: type(each[1])):
        same = [frame for frame, _ in run]
        ordered += sorted(same) if issubclass(kind, UNORDERED) else same
    return ordered


def described(frames: Sequence[bytes]) -> str:
    """Format records as text, one a line."""
    records: list[tuple[MetadataRecord, int]] = [decode_record(frame) for frame in in_order(frames)]
    return "".join(f"\n    v{version} {brief(record)}" for record, version in records) or "no records"


def brief(part: object) -> str:
    """Format a struct as text: without fields at their defaults, and with short ids."""
    if isinstance(part, bytes):
        return f"#{part.hex()[-8:]}"
    if isinstance(part, list):
        return f"[{', '.join(map(brief, part))}]"
    if isinstance(part, Request):
        return f"v{part.version} {brief(part.message)}" + (f" draw={part.draw}" if part.draw else "")
    if (names := slots(part)) and not isinstance(part, tuple):
        usual = type(part)()
        fields = [f"{name}={brief(value)}" for name in names if (value := getattr(part, name)) != getattr(usual, name)]
        return f"{type(part).__name__}({', '.join(fields)})"
    return str(part)


def of_response(found: Difference, tally: Tally) -> Iterator[Difference]:
    """Yield a difference if the responses of Kafka and Ottla differ; if only error texts differ, count it."""
    assert isinstance(found.order, Request)
    theirs, ours = (as_sent(response, found.order.version) for response in (found.theirs, found.ours))
    if plain(theirs, texts=False) != plain(ours, texts=False):
        yield found
    elif plain(theirs, texts=True) != plain(ours, texts=True):
        tally.texts[found.kind] += 1
        if tally.print_texts:
            print(found)


def as_sent(response: object, version: int) -> object:
    """Encode and decode a response, to get what a client reads."""
    return decode(type(response), encode(response, version), version) if isinstance(response, Message) else response


def plain(part: object, *, texts: bool) -> Any:
    """Convert a part of a response to a value that is equal for equal contents. The order of structs is ignored, and without
    `texts` error messages."""
    if isinstance(part, list):
        parts = [plain(each, texts=texts) for each in part]
        return sorted(repr(each) for each in parts) if part and is_struct(part[0]) else parts
    names = slots(part)
    return (
        {name: plain(getattr(part, name), texts=texts) for name in names if name not in (UNCOMPARED if texts else MESSAGES + UNCOMPARED)}
        if names
        else part
    )


def slots(part: object) -> list[str]:
    """Return the names of a struct's fields; none for any other value."""
    return [name for kind in type(part).__mro__ for name in getattr(kind, "__slots__", ())] if is_struct(part) else []


def is_struct(part: object) -> bool:
    """Return whether the value is a message, a record, or a struct inside one."""
    return type(part).__module__.startswith("ottla.") and not isinstance(part, tuple | int | Exception)


# --- reducing ----------------------------------------------------------------------------------------------------------------------------


def shrink_plan(plan: Plan, kafka: KafkaController, kind: str, controller: Callable[[], OttlasController] = OttlasController) -> Plan:
    """Reduce a sequence to as few steps as possible that still show a difference of this kind."""

    def still_differs(steps: Sequence[Step]) -> bool:
        return any(found.kind == kind for found in differences(plan._replace(steps=tuple(steps)), kafka, Tally(), controller))

    steps, size = list(plan.steps), len(plan.steps)
    while size:
        at = 0
        while at < len(steps):
            without = steps[:at] + steps[at + size :]
            if still_differs(without):
                steps = without
            else:
                at += size
        size //= 2
    return plan._replace(steps=tuple(steps))


def first_difference(plan: Plan, kafka: KafkaController, kind: str) -> tuple[Difference, list[Order]]:
    """Return the first difference of that kind in a sequence that has one, and all orders up to it."""
    sent = []
    known, numbers = Known(), Tally()
    for found in differences(plan, kafka, numbers):
        if found.kind == kind:
            break
    for _, order in orders(plan, known):
        sent.append(order)
        known.learn(order, kafka.execute(order))
        if len(sent) == numbers.orders:
            break
    return found, sent


def main() -> int:
    """Run the comparison of `--seeds` sequences; return 1 if there were differences."""
    parser = argparse.ArgumentParser(description="Kafka's controller and Ottla's, told the same")
    parser.add_argument("--seeds", type=int, default=20, help="how many sequences")
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=STEPS, help="steps of a sequence")
    parser.add_argument("--no-shrink", action="store_true", help="print differences as they come")
    parser.add_argument("--texts", action="store_true", help="print responses that differ in the texts of errors alone")
    given = parser.parse_args()
    tally, printed, began = Tally(print_texts=given.texts), set[str](), time.monotonic()
    try:
        with KafkaController() as kafka:
            for seed in range(given.first_seed, given.first_seed + given.seeds):
                sequence = plan(seed, given.steps)
                for found in list(differences(sequence, kafka, tally)):
                    tally.unequal[found.kind] += 1
                    if found.kind not in printed and len(printed) < PRINTED_MAX:
                        printed.add(found.kind)
                        report(sequence, kafka, found, shrink=not given.no_shrink)
    except KafkaMissing as missing:
        print(missing, file=sys.stderr)
        return 2
    print(f"{tally}\n{time.monotonic() - began:.0f} s")
    return 1 if tally.unequal else 0


def report(sequence: Plan, kafka: KafkaController, found: Difference, *, shrink: bool) -> None:
    """Print a difference; with `shrink`, also the fewest orders that lead to it."""
    print(f"--- seed {sequence.seed}, {sequence.start}")
    if shrink:
        short = shrink_plan(sequence, kafka, found.kind)
        found, sent = first_difference(short, kafka, found.kind)
        print("\n".join(f"  {brief(order)[:LINE_MAX]}" for order in sent[:-1]))
    print(found, flush=True)


if __name__ == "__main__":
    sys.exit(main())
