"""Claims (common statements) about transactions: atomicity, isolation, recovery by the next instance, timeouts, cost. In
docs/exactly-once.md: 15 to 19, 21."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

from confluent_kafka import Producer

from client_compat.claims.claim import CheckResult, claim
from client_compat.claims.environment import ClaimEnvironment
from client_compat.claims.identity import CLIENT, commit, log, records, transactional
from client_compat.known_bugs.torn_transaction import wait_for_end
from client_compat.matrix.control import ClientError
from client_compat.matrix.truth import until
from client_compat.support.brokers import HOST
from client_compat.support.log_text import marker_of
from client_compat.support.stage import READ_S
from ottla.protocol.client import Client as Wire
from ottla.protocol.messages.k65_describe_transactions import DescribeTransactionsRequest
from ottla.protocol.records.control import ControlType
from ottla.protocol.schema import decode
from ottla.protocol.transaction_log import TRANSACTION_STATES, TransactionLogValue

SCAN_MS = 11_000
"""By how much the broker's clock is advanced so that the coordinator aborts expired transactions, in ms. It is longer than
transaction.abort.timed.out.transaction.cleanup.interval.ms."""
COSTS = {1: 50, 10: 20, 100: 10, 1000: 3}
"""How many transactions are measured, by the number of records in each transaction."""
STATES_KNOWN = ["PrepareCommit", "CompleteCommit"]


def state_of(environment: ClaimEnvironment, transactional_id: str) -> str:
    """Return the transactional id's state according to the coordinator."""
    with Wire(HOST, environment.stage.broker.port) as wire:
        (state,) = wire.call(DescribeTransactionsRequest([transactional_id]), 0).transaction_states
    return str(state.transaction_state)


def states_logged(environment: ClaimEnvironment, transactional_id: str) -> list[str]:
    """Return the transactional id's states in `__transaction_state`, in log order."""
    found = []
    # A key is a version, a length and the id; a value begins with its version.
    for record in environment.truth.records("__transaction_state"):
        key, value = bytes(record.key or b""), bytes(record.value or b"")
        if key[4:] == transactional_id.encode() and value:
            status = decode(TransactionLogValue, value[2:], int.from_bytes(value[:2])).transaction_status
            found.append(TRANSACTION_STATES[status])
    return found


def markers(environment: ClaimEnvironment, topic: str, partition: int = 0) -> list[str]:
    return [marker.name for batch in environment.truth.batches(topic, partition) if (marker := marker_of(batch)) is not None]


@claim(15, "A transaction makes writes to many partitions atomic, and survives the producer's restart")
def atomic(environment: ClaimEnvironment) -> CheckResult:
    topic, name = environment.topic(2), environment.name("atomic")
    with environment.victim("aiokafka") as victim:
        unfinished = victim.producer(transactional_id=name)
        unfinished.begin()
        unfinished.send_ok(topic, [*records("half"), *records("half", partition=1)])
        victim.program.kill()
    again = transactional(environment, "aiokafka", name)
    again.begin()
    again.send_ok(topic, [*records("whole"), *records("whole", partition=1)])
    again.commit()
    again.close()
    for partition in range(2):
        wait_for_end(environment.stage, topic, markers=2, partition=partition)
    seen = environment.stage.committed(topic, 2)
    evidence = [*log(environment, topic), *log(environment, topic, 1), f"read_committed: {seen}"]
    return CheckResult(seen == ["whole", "whole"], "killed by SIGKILL between its writes and its commit, then started again", evidence)


@claim(16, "Aborted records stay in the log; read_uncommitted sees them, read_committed does not; plain records are seen by both")
def aborted(environment: ClaimEnvironment) -> CheckResult:
    topic = environment.topic()
    producer = transactional(environment, CLIENT, environment.name("abort"))
    producer.begin()
    producer.send_ok(topic, records("aborted"))
    producer.abort()
    wait_for_end(environment.stage, topic, markers=1)
    commit(producer, topic, "committed")
    producer.close()
    wait_for_end(environment.stage, topic, markers=2)
    plain = environment.client(CLIENT).producer(acks="all")
    plain.send_ok(topic, records("plain"))
    plain.close()
    everything, kept = ["aborted", "committed", "plain"], ["committed", "plain"]
    evidence, held = log(environment, topic), True
    for name in environment.names:
        seen = {
            isolation: environment.read(topic, isolation, len(wanted), client=name)
            for isolation, wanted in (("read_uncommitted", everything), ("read_committed", kept))
        }
        held = held and list(seen.values()) == [everything, kept]
        evidence.append(f"{name}: " + "; ".join(f"{isolation} {values}" for isolation, values in seen.items()))
    return CheckResult(held, "the markers at offsets 1 and 3 say which is which, and take an offset each", evidence)


@claim(17, "The coordinator logs a prepare, writes markers to every partition, then logs completion")
def two_phases(environment: ClaimEnvironment) -> CheckResult:
    topic, name = environment.topic(2), environment.name("phases")
    producer = transactional(environment, CLIENT, name)
    for step in ("prepared", "marked"):
        environment.stage.admin.add(f"pause:step={step},transactional_id={name},times=1,name={step}-{name}")
    producer.begin()
    producer.send_ok(topic, [*records("a"), *records("b", partition=1)])
    seen: list[tuple[str, list[list[str]]]] = []
    with ThreadPoolExecutor(1) as pool:
        committing = pool.submit(producer.commit)
        for step in ("prepared", "marked"):
            environment.stage.admin.wait_held()
            seen.append((state_of(environment, name), [markers(environment, topic, partition) for partition in range(2)]))
            environment.stage.admin.release(f"{step}-{name}")
        committing.result()
    for _ in until("the transaction is complete"):
        if state_of(environment, name) == "CompleteCommit":
            break
    producer.close()
    logged = states_logged(environment, name)
    held = seen == [("PrepareCommit", [[], []]), ("PrepareCommit", [["COMMIT"], ["COMMIT"]])] and logged[-2:] == STATES_KNOWN
    evidence = [
        f"stopped {when}: {state}, markers {found}"
        for when, (state, found) in zip(("after the prepare", "after the markers"), seen, strict=True)
    ]
    return CheckResult(
        held, "shown by stopping the coordinator between the steps", [*evidence, f"__transaction_state: {' → '.join(logged)}"]
    )


@claim(18, "initTransactions settles what the previous instance left open")
def settles(environment: ClaimEnvironment) -> CheckResult:
    opened, prepared = environment.topic(), environment.topic()
    first_id, second_id = environment.name("open"), environment.name("prepared")
    first = transactional(environment, CLIENT, first_id)
    first.begin()
    first.send_ok(opened, records("left open"))
    transactional(environment, CLIENT, first_id).close()
    wait_for_end(environment.stage, opened, markers=1)
    try:
        first.commit()
        late = "NONE"
    except ClientError as error:
        late = error.code
    rule = environment.stage.admin.add(f"pause:step=prepared,transactional_id={second_id},times=1,name={second_id}")
    second = transactional(environment, CLIENT, second_id)
    second.begin()
    second.send_ok(prepared, records("prepared"))
    with ThreadPoolExecutor(2) as pool:
        committing = pool.submit(second.commit)
        environment.stage.admin.wait_held()
        state = state_of(environment, second_id)
        successor = pool.submit(transactional, environment, "aiokafka", second_id)
        environment.stage.admin.release(rule)
        committing.result()
        successor.result().close()
    found = markers(environment, opened), markers(environment, prepared)
    held = found == (["ABORT"], ["COMMIT"]) and late != "NONE" and state == "PrepareCommit"
    evidence = [
        *log(environment, opened),
        f"the old instance's commit: {late}",
        f"the other was {state} when its successor came",
        *log(environment, prepared),
    ]
    return CheckResult(held, "what was open is aborted and its producer fenced; what was prepared to commit is committed", evidence)


@claim(19, "transaction.timeout.ms = 5 works", right=False)
def five_milliseconds(environment: ClaimEnvironment) -> CheckResult:
    evidence, held = [], False
    for name in ("aiokafka", "kafka-python"):
        topic = environment.topic()
        producer = environment.client(name).producer(transactional_id=environment.name("five"), transaction_timeout_ms=5)
        producer.begin()
        producer.send_ok(topic, records("too late"))
        environment.stage.admin.advance(SCAN_MS)
        wait_for_end(environment.stage, topic, markers=1)
        try:
            producer.commit()
            outcome = "NONE"
        except ClientError as error:
            outcome = error.code
        held = held or outcome == "NONE" or markers(environment, topic) != [ControlType.ABORT.name]
        evidence += [f"{name}: commit refused, {outcome}", *log(environment, topic)]
    happened = "it is five milliseconds: the broker's next look (every 10 s) aborts the transaction and fences its producer"
    return CheckResult(held, happened, evidence)


@claim(21, "Transactions cost more than idempotence")
def cost(environment: ClaimEnvironment) -> CheckResult:
    topic, rates, evidence = environment.topic(), {}, []
    plain = environment.stage.producer(enable_idempotence=True, linger_ms=0)
    transactions = environment.stage.producer(transactional_id=environment.name("cost"), linger_ms=0)
    transactions.init_transactions(READ_S)
    for size, rounds in COSTS.items():
        for kind, producer in (("idempotent", plain), ("transactions", transactions)):
            began = time.perf_counter()
            for _ in range(rounds):
                _write_some(producer, topic, size, in_transaction=producer is transactions)
            rates[kind, size] = rounds * size / (time.perf_counter() - began)
        without, within = rates["idempotent", size], rates["transactions", size]
        evidence.append(f"{size} at a time: {without:,.0f}/s idempotent, {within:,.0f} in transactions: {without / within:.1f} times")
    held = rates["idempotent", 1] > rates["transactions", 1]
    return CheckResult(held, "a transaction costs the same few requests whatever is in it: put many records into one", evidence)


def _write_some(producer: Producer, topic: str, size: int, *, in_transaction: bool) -> None:
    if in_transaction:
        producer.begin_transaction()
    for _ in range(size):
        producer.produce(topic, b"x" * 100, partition=0)
    producer.flush(READ_S)
    if in_transaction:
        producer.commit_transaction(READ_S)
