"""Kafka's authorizer and Ottla's make the same decisions for the same ACLs and questions."""

from __future__ import annotations

from random import Random

import pytest

from client_compat.kafka.jars import KafkaMissing
from ottla.broker.cluster.acl_index import AccessRequest, AclIndex, text_of
from tests.support.acl_judge import AclCase, AclQuery, Judgement, kafkas_judgements, random_acl_case

SEED = 20261122
CASES, ACLS, ASKS = 150, 60, 100


def ours(case: AclCase) -> list[Judgement]:
    index = AclIndex(case.acls)
    return [_judged(case, index, query) for query in case.queries]


def _judged(case: AclCase, index: AclIndex, query: AclQuery) -> Judgement:
    if query.principal in case.super_users:
        return Judgement(True, None if query.name is None else "SuperUser")
    verdict = index.judge(
        AccessRequest(query.principal, query.host, query.operation, query.resource, "hardcode" if query.name is None else query.name)
    )
    allowed = verdict.allowed or (case.is_open and not verdict.covered)
    if query.name is None:
        return Judgement(allowed or index.any_of_type(query.principal, query.host, query.operation, query.resource), None)
    if verdict.acl is not None:
        return Judgement(allowed, f"MatchingAcl(acl={text_of(verdict.acl)})")
    return Judgement(allowed, "DefaultAllow" if allowed else "DefaultDeny")


def test_every_acl_decision_and_its_deciding_rule_equal_kafkas() -> None:
    random = Random(SEED)
    cases = [random_acl_case(random, ACLS, ASKS) for _ in range(CASES)]
    try:
        theirs = kafkas_judgements(cases)
    except KafkaMissing as missing:
        pytest.skip(str(missing))
    wrong = [
        (query, kafkas, our)
        for case, judged in zip(cases, theirs, strict=True)
        for query, kafkas, our in zip(case.queries, judged, ours(case), strict=True)
        if kafkas != our
    ]
    assert not wrong, f"{len(wrong)} differ (seed {SEED}), the first: {wrong[0]}"
    rules = [judgement.rule or "any" for judged in theirs for judgement in judged]
    for rule in ("SuperUser", "DefaultDeny", "DefaultAllow", "any"):
        assert rule in rules
    assert sum("permissionType=DENY" in rule for rule in rules) > 100
    assert sum("permissionType=ALLOW" in rule for rule in rules) > 100
