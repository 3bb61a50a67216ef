"""Kafka's authorizer and Ottla's make the same decisions for the same ACLs and questions."""

from __future__ import annotations

from random import Random

import pytest

from client_compat.kafka.jars import KafkaMissing
from ottla.broker.cluster.acl_index import AccessRequest, AclIndex, text_of
from tests.support.acl_judge import AclCase, Ask, Judgement, kafkas_judgements, random_acl_case

SEED = 20261122
CASES, ACLS, ASKS = 150, 60, 100


def ours(case: AclCase) -> list[Judgement]:
    index = AclIndex(case.acls)
    return [_judged(case, index, ask) for ask in case.asks]


def _judged(case: AclCase, index: AclIndex, ask: Ask) -> Judgement:
    if ask.principal in case.super_users:
        return Judgement(True, None if ask.name is None else "SuperUser")
    verdict = index.judge(AccessRequest(ask.principal, ask.host, ask.operation, ask.resource, "hardcode" if ask.name is None else ask.name))
    allowed = verdict.allowed or (case.is_open and not verdict.covered)
    if ask.name is None:
        return Judgement(allowed or index.any_of_type(ask.principal, ask.host, ask.operation, ask.resource), None)
    if verdict.acl is not None:
        return Judgement(allowed, f"MatchingAcl(acl={text_of(verdict.acl)})")
    return Judgement(allowed, "DefaultAllow" if allowed else "DefaultDeny")


def test_every_decision_and_the_rule_behind_it_are_kafkas() -> None:
    random = Random(SEED)
    cases = [random_acl_case(random, ACLS, ASKS) for _ in range(CASES)]
    try:
        theirs = kafkas_judgements(cases)
    except KafkaMissing as missing:
        pytest.skip(str(missing))
    wrong = [
        (ask, kafkas, our)
        for case, judged in zip(cases, theirs, strict=True)
        for ask, kafkas, our in zip(case.asks, judged, ours(case), strict=True)
        if kafkas != our
    ]
    assert not wrong, f"{len(wrong)} differ (seed {SEED}), the first: {wrong[0]}"
    rules = [judgement.rule or "any" for judged in theirs for judgement in judged]
    for rule in ("SuperUser", "DefaultDeny", "DefaultAllow", "any"):
        assert rule in rules
    assert sum("permissionType=DENY" in rule for rule in rules) > 100
    assert sum("permissionType=ALLOW" in rule for rule in rules) > 100
