"""For any requests in any order: only the permitted state transitions happen, fenced producers are rejected, and a replay of the log
restores the state of the run."""

from __future__ import annotations

from itertools import count

from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.broker.txns import decide
from ottla.broker.txns.coordinator import TxnCoordinator
from ottla.broker.txns.decide import Decision, Expected
from ottla.broker.txns.states import PREPARED, VALID_TRANSITIONS, TxnState
from ottla.broker.txns.transaction import EPOCH_MAX, Transaction
from ottla.broker.txns.txn_records import TxnRecord, decode_record, encode_record
from ottla.protocol.error_codes import ErrorCode

IDS = ["a", "b"]
PLACES = [("t", 0), ("t", 1), ("u", 0)]
TIMEOUT_MS = 1_000

Step = tuple[str, int, int, bool, int]
"""What, for which id, as which holder of it (counted back from the newest), a choice, and milliseconds that pass before."""

KINDS = {"init": 1, "init as holder": 1, "add": 5, "end 0": 2, "end 2": 4, "complete": 5, "timeout": 1, "expire": 1, "age": 1}
"""How often each kind of step comes: mostly transactions that run their course."""

steps = st.lists(
    st.tuples(
        st.sampled_from([kind for kind, weight in KINDS.items() for _ in range(weight)]),
        st.sampled_from([0, 0, 0, 1]),
        st.sampled_from([0, 0, 0, 0, 1, 2]),
        st.booleans(),
        st.sampled_from([0, 0, 0, 5, 600]),
    ),
    min_size=20,
    max_size=100,
)


class Coordinator:
    """The transaction state machine, its log as bytes, and every producer id and epoch that was ever returned."""

    def __init__(self, version: int) -> None:
        self.version = version
        self.machine = TxnCoordinator()
        self.log: list[tuple[bytes, bytes | None]] = []
        self.holders: dict[str, list[tuple[int, int]]] = {name: [(0, 0)] for name in IDS}
        self.producer_ids = count(1_000)
        self.now_ms = 0
        for name in IDS:
            self.carry_out(name, self.init(None, name, None))

    def write(self, name: str, after: Transaction | None) -> None:
        before = self.machine.transactions.get(name)
        if after is not None and before is not None:
            assert after.state in VALID_TRANSITIONS[before.state]
            assert (after.producer_id, after.producer_epoch) >= (before.producer_id, before.producer_epoch), "an epoch went back"
        assert after is None or 0 <= after.producer_epoch <= EPOCH_MAX
        record = TxnRecord(name, after)
        self.log.append(encode_record(record, self.version))
        self.machine.apply(record, len(self.log) - 1)

    def carry_out(self, name: str, decision: Decision) -> None:
        if decision.write is not None:
            self.write(name, decision.write)
        if decision.error is ErrorCode.NONE and decision.producer_id >= 0:
            holder = decision.producer_id, decision.producer_epoch
            assert decision.producer_epoch < EPOCH_MAX, "the coordinator's own epoch was given away"
            if holder not in self.holders[name]:
                self.holders[name].append(holder)

    def step(self, step: Step) -> None:
        what, which, back, choice, passed = step
        name = IDS[which]
        self.now_ms += passed
        stored = self.machine.transactions.get(name)
        held = self.holders[name][-1 - min(back, len(self.holders[name]) - 1)]
        if what.startswith("init"):
            self.carry_out(name, self.init(stored, name, Expected(*held) if what != "init" else None))
        elif what == "add":
            self.carry_out(
                name,
                decide.add_partitions(
                    stored, name, *held, frozenset(PLACES[: 1 + choice]), client_version=self.version, now_ms=self.now_ms
                ),
            )
        elif what.startswith("end"):
            self.carry_out(name, self.end(stored, name, held, choice, int(what[-1])))
        elif what == "complete" and stored is not None and stored.state in PREPARED:
            self.write(name, stored.completed(self.now_ms))
        elif what == "timeout":
            for txn in self.machine.timed_out(self.now_ms):
                self.write(txn.transactional_id, decide.fence_and_abort(txn, self.version, self.new_id, self.now_ms))
        elif what == "expire":
            for record in list(self.machine.expired(self.now_ms, 2_000)):
                self.write(record.transactional_id, None)
        elif what == "age" and stored is not None and stored.state is TxnState.EMPTY and stored.producer_epoch < 32_000:
            self.write(name, stored._replace(producer_epoch=32_764))  # as if it had lived long
            self.holders[name].append((stored.producer_id, 32_764))

    def new_id(self) -> int:
        return next(self.producer_ids)

    def init(self, stored: Transaction | None, name: str, expected: Expected | None) -> Decision:
        return decide.init_producer_id(
            stored,
            name,
            expected,
            timeout_ms=TIMEOUT_MS,
            timeout_ms_max=TIMEOUT_MS,
            server_version=self.version,
            new_producer_id=self.new_id,
            now_ms=self.now_ms,
        )

    def end(self, stored: Transaction | None, name: str, held: tuple[int, int], commit: bool, version: int) -> Decision:
        return decide.end_txn(stored, name, *held, commit=commit, client_version=version, new_producer_id=self.new_id, now_ms=self.now_ms)


def persisted(txn: Transaction) -> Transaction:
    """Return the transaction without the fields that are kept in memory only."""
    rotated = txn.prev_producer_id if txn.prev_producer_id != txn.producer_id else -1
    return txn._replace(last_producer_epoch=-1, prev_producer_id=rotated)


@settings(max_examples=80)
@given(steps, st.sampled_from([1, 2]))
def test_replayed_transaction_log_gives_the_live_state(history: list[Step], version: int) -> None:
    live = Coordinator(version)
    for step in history:
        live.step(step)
    replayed = TxnCoordinator()
    for offset, (key, value) in enumerate(live.log):
        record = decode_record(key, value)
        assert record is not None
        replayed.apply(record, offset)
    assert replayed.transactions == {name: persisted(txn) for name, txn in live.machine.transactions.items()}
    late = live.now_ms + 10 * TIMEOUT_MS
    assert {txn.transactional_id for txn in replayed.timed_out(late)} == {txn.transactional_id for txn in live.machine.timed_out(late)}


@settings(max_examples=80)
@given(steps, st.sampled_from([0, 1, 2]))
def test_only_the_last_initialised_producer_can_use_the_transactional_id(history: list[Step], version: int) -> None:
    environment = Coordinator(version)
    for step in history:
        environment.step(step)
    for name in IDS:
        stored = environment.machine.transactions.get(name)
        while stored is None or stored.state in PREPARED or (taken := environment.init(stored, name, None)).error is not ErrorCode.NONE:
            if stored is not None and stored.state in PREPARED:
                environment.write(name, stored.completed(environment.now_ms))
            else:
                environment.carry_out(name, environment.init(stored, name, None))
            stored = environment.machine.transactions.get(name)
        zombies = list(environment.holders[name])
        environment.carry_out(name, taken)
        fresh = environment.machine.transactions[name]
        for zombie in zombies:
            assert zombie != (taken.producer_id, taken.producer_epoch), "an identity was handed out twice"
            refused = decide.add_partitions(fresh, name, *zombie, frozenset(PLACES), client_version=version, now_ms=environment.now_ms)
            assert refused.error in {ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_ID_MAPPING}
            for commit in (True, False):
                assert environment.end(fresh, name, zombie, commit, version).error is not ErrorCode.NONE


@settings(max_examples=80)
@given(steps)
def test_in_version_2_no_two_transactions_have_the_same_epoch(history: list[Step]) -> None:
    """This property of transaction version 2 (KIP-890) lets the coordinator and the partitions recognise a late EndTxn or marker."""
    environment = Coordinator(2)
    opened: set[tuple[str, int, int]] = set()
    for step in history:
        before = dict(environment.machine.transactions)
        if step[0] == "end 0":
            continue
        environment.step(step)
        for name, txn in environment.machine.transactions.items():
            was = before.get(name)
            if txn.state is TxnState.ONGOING and (was is None or was.state is not TxnState.ONGOING):
                epoch = (name, txn.producer_id, txn.producer_epoch)
                assert epoch not in opened
                opened.add(epoch)
