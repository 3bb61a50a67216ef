"""Apache Kafka's own authorizer in a Java process (`client_compat/kafka/AclJudge.java`), and random cases for it from a seed."""

from __future__ import annotations

import json
import re
import subprocess
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import astuple
from pathlib import Path
from random import Random
from typing import NamedTuple

from client_compat.kafka.jars import jars, java
from ottla.broker.cluster.metadata_records import AccessControlEntryRecord
from ottla.broker.core.acl import EVERYBODY, WILDCARD, Operation, Pattern, Permission, Resource

SOURCE = Path(__file__).parents[2] / "client_compat" / "kafka" / "AclJudge.java"
OPTIONS = (
    "-Xmx256m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Dfile.encoding=UTF-8",
    "-Dsun.stdout.encoding=UTF-8",
    "-Dstdout.encoding=UTF-8",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=off",
    "-Dorg.slf4j.simpleLogger.log.kafka.authorizer.logger=trace",
    "-Dorg.slf4j.simpleLogger.logFile=System.out",
    "-Dorg.slf4j.simpleLogger.showThreadName=false",
    "-Dorg.slf4j.simpleLogger.showLogName=false",
)
TIMEOUT_S = 60
PRINCIPALS = ("User:ann", "User:bob", "User:CN=ann,OU=x:y", "Group:ann", "User:Ann", EVERYBODY)
HOSTS = ("127.0.0.1", "10.0.0.1", "0:0:0:0:0:0:0:1", WILDCARD)
NAMES = ("a", "ab", "abc", "abd", "b", "ba", "kafka-cluster", "a.b", "A", "é", "éa", WILDCARD, "*a", "zz")
"""The resource names in the random cases. None of them sorts before `*`, because with an ACL for `!a`, Kafka loops for ever when it checks
`!b` (StandardAuthorizerData.checkSection)."""
OPERATIONS = tuple(operation for operation in Operation if operation is not Operation.ANY)
RESOURCES = tuple(resource for resource in Resource if resource is not Resource.ANY)
_AUDIT = re.compile(r"\bPrincipal = ")


class AclQuery(NamedTuple):
    """A question to the authorizer: may the principal do this? `name` None asks about any resource of the type."""

    principal: str
    host: str
    operation: int
    resource: int
    name: str | None


class AclCase(NamedTuple):
    """An authorizer's configuration and ACLs, and the questions for it."""

    super_users: Sequence[str]
    is_open: bool
    acls: Sequence[AccessControlEntryRecord]
    queries: Sequence[AclQuery]


def random_acl_case(random: Random, acls: int, queries: int) -> AclCase:
    """Make a random case with few names, principals and operations, so that often several ACLs match a question."""
    operations = random.sample(OPERATIONS, random.randint(2, len(OPERATIONS)))
    resources = random.sample(RESOURCES, random.randint(1, 3))

    def acl(number: int) -> AccessControlEntryRecord:
        return AccessControlEntryRecord(
            id=number.to_bytes(16, "big"),
            resource_type=random.choice(resources),
            resource_name=random.choice(NAMES),
            pattern_type=random.choice((Pattern.LITERAL, Pattern.PREFIXED)),
            principal=random.choice(PRINCIPALS),
            host=random.choice(HOSTS),
            operation=random.choice(operations),
            permission_type=random.choice((Permission.ALLOW, Permission.ALLOW, Permission.DENY)),
        )

    def query() -> AclQuery:
        name = None if random.random() < 0.1 else random.choice((*NAMES, "abcd", "bab", "x", ""))
        resource, operation = random.choice(resources), random.choice(OPERATIONS[1:])
        return AclQuery(random.choice(PRINCIPALS[:-1]), random.choice(HOSTS[:-1]), operation, resource, name)

    is_open, super_users = random.random() < 0.3, ["User:bob"] if random.random() < 0.2 else []
    several = {astuple(each)[1:]: each for each in map(acl, range(random.randint(0, acls)))}  # equal ACLs cannot exist twice
    return AclCase(super_users, is_open, list(several.values()), [query() for _ in range(queries)])


class Judgement(NamedTuple):
    """Kafka's verdict, and the name of the rule in its authorizer log; the rule is None for a question about any resource of a type."""

    allowed: bool
    rule: str | None


def kafkas_judgements(cases: Iterable[AclCase]) -> list[list[Judgement]]:
    """Return Kafka's verdict for every question. Raises `KafkaMissing`."""
    listed = list(cases)
    orders = "".join(json.dumps(_order(case)) + "\n" for case in listed)
    with tempfile.TemporaryDirectory() as directory:
        argv = [java(), *OPTIONS, "-cp", f"{jars()}/*", str(SOURCE)]
        done = subprocess.run(
            argv, input=orders, capture_output=True, text=True, encoding="utf-8", timeout=TIMEOUT_S, check=False, cwd=directory
        )
    assert done.returncode == 0, done.stderr
    lines = iter(done.stdout.splitlines())
    return [_judgements(case, lines) for case in listed]


def _judgements(case: AclCase, lines: Iterable[str]) -> list[Judgement]:
    audit: list[str] = []
    for line in lines:
        if not _AUDIT.search(line):
            answers = json.loads(line)
            break
        audit.append(line[line.index("Principal = ") :])
    rules = iter(audit)
    matched = [next(rules).partition(" based on rule ")[2] for _ in case.queries]
    return [
        Judgement(answer, None if query.name is None else rule) for query, answer, rule in zip(case.queries, answers, matched, strict=True)
    ]


def _order(case: AclCase) -> dict[str, object]:
    acls = [
        [
            acl.resource_type,
            acl.resource_name,
            acl.pattern_type,
            acl.principal,
            acl.host,
            acl.operation,
            acl.permission_type,
        ]
        for acl in case.acls
    ]
    return {"super": ";".join(case.super_users), "open": case.is_open, "acls": acls, "asks": [list(query) for query in case.queries]}
