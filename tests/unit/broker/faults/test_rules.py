from __future__ import annotations

import pytest

from broker.faults.rules import Faults, FaultSyntax, parse_rule
from protocol.api_keys import ApiKey


def test_without_rules_faults_are_not_active() -> None:
    assert not Faults().active


def test_the_same_seed_drops_the_same_responses() -> None:
    def run(seed: int) -> list[bool]:
        faults = Faults([parse_rule(f"drop-ack:api=Produce,share=0.3,seed={seed}")])
        return [faults.drops_response(ApiKey.PRODUCE) for _ in range(200)]

    assert run(7) == run(7)
    assert run(7) != run(8)
    assert 30 < sum(run(7)) < 90


def test_other_apis_are_left_alone_and_not_counted() -> None:
    faults = Faults([parse_rule("drop-ack:api=init_producer_id,share=1")])
    assert not faults.drops_response(ApiKey.PRODUCE)
    assert faults.drops_response(ApiKey.INIT_PRODUCER_ID)
    assert faults.report() == ["drop-ack of INIT_PRODUCER_ID: 1 of 1 responses dropped"]


def test_every_rule_counts_a_request_that_several_hit() -> None:
    faults = Faults([parse_rule("drop-ack:share=1"), parse_rule("drop-ack:share=1,seed=2")])
    assert faults.drops_response(ApiKey.PRODUCE)
    assert [rule.dropped for rule in faults.rules] == [1, 1]


@pytest.mark.parametrize(
    "text", ["lose", "drop-ack:api=Nothing", "drop-ack:share=2", "drop-ack:share=x", "drop-ack:seed=1.5", "drop-ack:shares=1"]
)
def test_a_rule_that_cannot_be_read_says_what_is_expected(text: str) -> None:
    with pytest.raises(FaultSyntax):
        parse_rule(text)
