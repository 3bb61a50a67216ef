"""Claims (common statements) about retries: lost acknowledgements, order, duplicates. In docs/exactly-once.md: 1, 2, 3, 6, 7, 14."""

from __future__ import annotations

from client_compat.claims.claim import CheckResult, claim
from client_compat.claims.environment import ClaimEnvironment
from client_compat.clients.options import ProducerOptions
from client_compat.known_bugs import reordering
from client_compat.matrix.facades import Record
from client_compat.support.log_text import describe

VALUE = "order 7"


def lose_ack(environment: ClaimEnvironment, client: str, **options: object) -> tuple[list[str], str, list[str]]:
    """Send one record while a fault rule drops the first Produce response, so that the client has to retry. `options` are settings of the
    client's producer. Return the stored values, the result that the client reports, and a description of the log."""
    topic = environment.topic()
    rule = environment.stage.admin.add(f"drop-ack:api=Produce,topic={topic},times=1,name={topic}")
    given: ProducerOptions = {**options}  # type: ignore[typeddict-item]  # the callers' keywords are those of ProducerOptions
    producer = environment.client(client).producer(**given)
    (sent,) = producer.send(topic, [Record(VALUE.encode(), partition=0)])
    producer.close()
    environment.stage.admin.wait_hit(rule)
    outcome = f"offset {sent.offset}" if sent.error is None else str(sent.error.code)
    return environment.stage.stored(topic), outcome, [describe(batch) for batch in environment.truth.batches(topic)]


@claim(1, "A retry after a lost ack is stored once when idempotence is on")
def stored_once(environment: ClaimEnvironment) -> CheckResult:
    runs = {name: lose_ack(environment, name, idempotent=True, acks="all") for name in environment.names}
    held = all(stored == [VALUE] and outcome == "offset 0" for stored, outcome, _ in runs.values())
    evidence = [f"{name}: told {outcome}; {'; '.join(log)}" for name, (_, outcome, log) in runs.items()]
    return CheckResult(held, "the ack was lost, the retry was answered with the original offset 0, the log has it once", evidence)


@claim(2, "With idempotence off the same lost ack stores it twice")
def stored_twice(environment: ClaimEnvironment) -> CheckResult:
    runs = {name: lose_ack(environment, name, idempotent=False, acks="all") for name in environment.names}
    held = all(stored == [VALUE, VALUE] for stored, _, _ in runs.values())
    evidence = [f"{name}: told {outcome}; {'; '.join(log)}" for name, (_, outcome, log) in runs.items()]
    return CheckResult(held, "stored at offset 0, and by the retry at offset 1", evidence)


@claim(3, "With idempotence off and several requests in flight, a failed first batch lands behind its successors; with it on, order holds")
def order(environment: ClaimEnvironment) -> CheckResult:
    held = reordering.reorders(environment.stage)
    return CheckResult(held, "off: 0 2 3 4 1; on: 0 1 2 3 4, sent again in a new epoch", [line.strip() for line in environment.stage.lines])


@claim(6, "The broker accepts any sequence greater than the highest and silently drops the rest", right=False)
def any_greater_sequence(environment: ClaimEnvironment) -> CheckResult:
    topic, producer = environment.topic(), environment.new_producer_id()
    writes = [
        ("sequence 0", 0, 1),
        ("sequence 1", 1, 1),
        ("sequence 3, one too far", 3, 1),
        ("sequence 1 again", 1, 1),
        ("0 and 1 in one", 0, 2),
    ]
    answers = {what: environment.raw(topic, "x", producer, 0, sequence, count=count) for what, sequence, count in writes}
    evidence = [f"{what}: {error}" + (f", offset {offset}" if error == "NONE" else "") for what, (error, offset) in answers.items()]
    greater_taken = answers["sequence 3, one too far"][0] == "NONE"
    happened = "a gap is OUT_OF_ORDER_SEQUENCE_NUMBER, an exact repetition is answered with its offset, an overlap is an error"
    known = ["NONE", "NONE", "OUT_OF_ORDER_SEQUENCE_NUMBER", "NONE", "OUT_OF_ORDER_SEQUENCE_NUMBER"]
    return CheckResult(greater_taken or [error for error, _ in answers.values()] != known, happened, evidence)


@claim(7, "The broker keeps five batches per producer and partition, fixed")
def five_batches(environment: ClaimEnvironment) -> CheckResult:
    topic, producer = environment.topic(), environment.new_producer_id()
    for sequence in range(6):
        environment.raw(topic, str(sequence), producer, 0, sequence)
    running = [environment.raw(topic, str(sequence), producer, 0, sequence) for sequence in range(6)]
    environment.restart()
    restarted = [environment.raw(topic, str(sequence), producer, 0, sequence) for sequence in range(6)]
    held = [error == "NONE" for error, _ in running] == [False, *[True] * 5]
    newest = [*[False] * 5, True]  # Apache Kafka's snapshot has no more; Ottla searches the log
    held = held and [error == "NONE" for error, _ in restarted] in (newest, [False, *[True] * 5])
    held = held and len(environment.truth.records(topic)) == 6
    evidence = [
        f"{when}, sequences 0 to 5 repeated: " + ", ".join(f"offset {offset}" if error == "NONE" else error for error, offset in answers)
        for when, answers in (("running", running), ("after a clean restart", restarted))
    ]
    return CheckResult(
        held, "of six batches the last five are answered as repetitions; after a restart Apache Kafka knows only the newest", evidence
    )


@claim(14, "Equal contents sent twice on purpose are stored twice")
def sent_on_purpose(environment: ClaimEnvironment) -> CheckResult:
    evidence, held = [], True
    for name in environment.names:
        topic = environment.topic()
        producer = environment.client(name).producer(idempotent=True, acks="all")
        producer.send_ok(topic, [Record(VALUE.encode(), partition=0)] * 2, mode="sync")
        producer.close()
        held = held and environment.stage.stored(topic) == [VALUE, VALUE]
        evidence.append(f"{name}: {'; '.join(describe(batch) for batch in environment.truth.batches(topic))}")
    return CheckResult(held, "two sends have two sequences: both are stored, whatever is in them", evidence)
