"""Experiments that articles report about exactly-once: with real clients, each turns out as docs/exactly-once.md says."""

from __future__ import annotations

from pathlib import Path

from client_compat.claims.run import CLAIMS, run_claims
from client_compat.kafka.cluster import ALL_KAFKA, Kind

BESIDE_KAFKA = (12, 29, 30)
"""Claims about several brokers that are also run on Apache Kafka: what is kept and lost when a leader dies."""


def test_every_claim_has_its_documented_outcome(tmp_path: Path) -> None:
    results = list(run_claims(list(CLAIMS.values()), tmp_path, java=False, on_claim=lambda claim: None))
    surprises = {result.claim.number: (result.got, result.happened, result.evidence) for result in results if result.surprise}
    assert not surprises
    assert sorted(result.claim.number for result in results) == list(range(1, 40))
    skipped = {result.claim.number for result in results if result.got == "skipped"}
    assert skipped == {24, 25}  # about the Java client


def test_claims_about_several_brokers_also_hold_for_apache_kafka(tmp_path: Path) -> None:
    chosen = [CLAIMS[number] for number in BESIDE_KAFKA]
    results = list(run_claims(chosen, tmp_path, java=False, on_claim=lambda claim: None, kinds=ALL_KAFKA, controller=Kind.KAFKA))
    surprises = {result.claim.number: (result.got, result.happened, result.evidence) for result in results if result.surprise}
    assert not surprises
    assert {result.got for result in results} in ({"held"}, {"skipped"}), results
