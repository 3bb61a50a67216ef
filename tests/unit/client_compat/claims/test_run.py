from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, KafkaException

from client_compat.claims import run
from client_compat.claims.claim import CheckResult, Claim
from client_compat.claims.environment import ClaimEnvironment
from client_compat.matrix.brokers import Skipped
from client_compat.matrix.pool import Pool
from client_compat.support.admin_port import AdminPort
from client_compat.support.brokers import ottla
from client_compat.support.stage import Stage


@pytest.fixture
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ClaimEnvironment:
    """An environment whose broker never runs, for checks that do not contact it."""
    monkeypatch.setattr(AdminPort, "reset", lambda self: None)
    return ClaimEnvironment(Stage(ottla(tmp_path / "data", port=1), AdminPort(1), print), tmp_path, Pool(tmp_path), "no mvn here")


def finding(*, held: bool) -> Callable[[ClaimEnvironment], CheckResult]:
    return lambda environment: CheckResult(held, "so it went", ["offset 0"])


def nothing_here(environment: ClaimEnvironment) -> CheckResult:
    raise Skipped("no mvn here")


def broken(environment: ClaimEnvironment) -> CheckResult:
    raise TimeoutError("nothing came")


def refused(environment: ClaimEnvironment) -> CheckResult:
    raise KafkaException(KafkaError(KafkaError.NOT_COORDINATOR))


@pytest.mark.parametrize(
    ("claim", "got", "surprise"),
    [
        (Claim(1, "right", True, finding(held=True)), "held", False),
        (Claim(2, "right, but refuted", True, finding(held=False)), "refuted", True),
        (Claim(3, "wrong", False, finding(held=False)), "refuted", False),
        (Claim(4, "wrong, but held", False, finding(held=True)), "held", True),
        (Claim(5, "breaks down", False, broken), "failed", True),
        (Claim(5, "breaks down in the client", False, refused), "failed", True),
        (Claim(6, "about Java", True, finding(held=False), java=True), "skipped", False),
        (Claim(7, "needs what is not here", True, nothing_here), "skipped", False),
    ],
)
def test_only_an_unexpected_claim_outcome_is_a_surprise(
    nowhere: ClaimEnvironment, monkeypatch: pytest.MonkeyPatch, claim: Claim, got: str, surprise: bool
) -> None:
    class FakeEnvironment:
        def __enter__(self) -> ClaimEnvironment:
            return nowhere

        def __exit__(self, *_: object) -> None: ...

    monkeypatch.setattr(run, "environment", lambda directory, kinds, controller, java: FakeEnvironment())
    (result,) = run.run_claims([claim], nowhere.directory, java=False, on_claim=lambda claim: None)
    assert (result.got, result.surprise) == (got, surprise)


def test_claims_are_numbered_from_1_to_39() -> None:
    assert list(run.CLAIMS) == list(range(1, 40))
