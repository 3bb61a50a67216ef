"""Tries claims (statements about exactly-once) one after the other on one broker, and notes whether each held."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from confluent_kafka import KafkaException

from client_compat.claims import identity, in_sync, partitioning, replication, retries, settings, transactions, uses
from client_compat.claims.claim import REGISTRY, Claim
from client_compat.claims.environment import ClaimEnvironment, environment
from client_compat.kafka.cluster import ALL_OTTLA, Kind
from client_compat.matrix.brokers import Skipped
from client_compat.matrix.clients import BuildFailed
from client_compat.matrix.control import ClientError, ProgramFailed
from client_compat.matrix.truth import TruthFailed
from client_compat.support.brokers import BrokerFailed
from client_compat.support.workers import RunFailed

THEMES = (retries, identity, settings, transactions, partitioning, uses, replication, in_sync)
CLAIMS = dict(sorted(REGISTRY.items()))
FAILURES = (BrokerFailed, ClientError, KafkaException, ProgramFailed, BuildFailed, TruthFailed, RunFailed, OSError, ValueError)
"""Exceptions that end the check of a claim early. The claim's result is then `failed`, with the exception's text."""


@dataclass(frozen=True, slots=True)
class ClaimResult:
    """The result of trying a claim (a statement about exactly-once). `got` is "held", "refuted", "skipped" or "failed"."""

    claim: Claim
    got: str
    happened: str
    evidence: list[str] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def surprise(self) -> bool:
        return self.got not in {self.claim.expected, "skipped"}


def run_claims(
    chosen: Sequence[Claim],
    directory: Path,
    *,
    java: bool,
    on_claim: Callable[[Claim], None],
    kinds: Sequence[Kind] = ALL_OTTLA,
    controller: Kind = Kind.OTTLA,
) -> Iterator[ClaimResult]:
    """Try the `chosen` claims (statements about exactly-once) one after the other, and yield each claim's result. Without `java`, claims
    about the Java client are skipped, and the other claims are tried without it. `kinds` and `controller` are the programs of the cluster's
    brokers and controller; the cluster is started only for claims that need one."""
    with environment(directory, kinds, controller, java=java) as where:
        for claim in chosen:
            on_claim(claim)
            began = time.perf_counter()
            got, happened, evidence = _run(claim, where)
            yield ClaimResult(claim, got, happened, evidence, time.perf_counter() - began)


def _run(claim: Claim, where: ClaimEnvironment) -> tuple[str, str, list[str]]:
    if claim.java and where.java_missing:
        return "skipped", f"it is about the Java client: {where.java_missing}", []
    where.stage.lines.clear()
    try:
        finding = claim.check(where)
    except Skipped as missing:
        return "skipped", str(missing), []
    except FAILURES as error:
        return "failed", f"{type(error).__name__}: {error}", list(where.stage.lines)
    finally:
        where.stage.admin.reset()
    return ("held" if finding.held else "refuted"), finding.happened, finding.evidence
