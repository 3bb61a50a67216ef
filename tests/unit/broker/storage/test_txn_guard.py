from __future__ import annotations

from ottla.broker.storage.txn_guard import VerificationGuard


def test_a_guard_equals_only_itself() -> None:
    assert VerificationGuard(1, 0, 0, supports_epoch_bump=False) != VerificationGuard(1, 0, 0, supports_epoch_bump=False)


def test_a_later_epoch_restarts_its_sequences_and_an_older_one_is_ignored() -> None:
    guard = VerificationGuard(1, epoch=3, lowest_sequence=7, supports_epoch_bump=True)
    guard.add_waiting_batch(3, 9)
    assert guard.lowest_sequence == 7
    guard.add_waiting_batch(4, 9)
    guard.add_waiting_batch(3, 0)
    assert (guard.epoch, guard.lowest_sequence) == (4, 9)
    guard.add_waiting_batch(4, 2)
    assert guard.lowest_sequence == 2
