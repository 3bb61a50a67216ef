"""The short form of `python -m client_compat.fuzz.hostile_cluster`: every malicious response once, beside a correct client of the same
gateway."""

from __future__ import annotations

from pathlib import Path

from client_compat.fuzz.hostile_cluster import HostileRun, attack
from client_compat.fuzz.hostile_responses import HOSTILE_RESPONSES
from client_compat.fuzz.run import MEBIBYTE

SEED = 4_242


def test_cluster_with_malformed_responses_harms_neither_gateway_nor_valid_clients(tmp_path: Path) -> None:
    run = attack(tmp_path, HostileRun(SEED, rss_limit=320 * MEBIBYTE, wait_limit_s=3.0))
    assert run.counts.total() == len(HOSTILE_RESPONSES) + 1
    assert run.good, repr(run)
