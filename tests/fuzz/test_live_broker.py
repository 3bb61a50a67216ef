"""The short form of `make fuzz`: a few seconds of attacks on a live broker, with and without security, beside well-behaved clients."""

from __future__ import annotations

from pathlib import Path

from client_compat.fuzz.run import MEBIBYTE, FuzzRun, fuzz

SECONDS = 6
SEED = 4_242


def test_attacks_harm_neither_the_broker_nor_its_good_clients(tmp_path: Path) -> None:
    run = FuzzRun(SEED, rss_limit=512 * MEBIBYTE, wait_limit_s=5.0)
    fuzz(tmp_path / "fuzz", SECONDS, run, on_look=lambda _: None)
    assert run.counts["frames"] > 100
    assert run.good, repr(run)


def test_attacks_through_a_gateway_harm_neither_it_nor_its_good_clients(tmp_path: Path) -> None:
    run = FuzzRun(SEED, through_gateway=True, rss_limit=128 * MEBIBYTE, wait_limit_s=5.0)
    fuzz(tmp_path / "fuzz", SECONDS, run, on_look=lambda _: None)
    assert run.counts["frames"] > 100
    assert run.good, repr(run)


def test_attacks_on_a_secured_broker_never_authenticate_and_leave_no_state(tmp_path: Path) -> None:
    run = FuzzRun(SEED, locked=True, failed_logins=200, rss_limit=512 * MEBIBYTE, wait_limit_s=5.0)
    fuzz(tmp_path / "fuzz", SECONDS, run, on_look=lambda _: None)
    assert run.good, repr(run)
    assert run.counts["failed log-ins"] >= 200
    for state in ("log-ins: token", "frames of a guest", "half handshakes"):  # how many is the machine's to say
        assert run.counts[state], state
