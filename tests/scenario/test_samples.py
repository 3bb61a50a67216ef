"""The programs of client_compat/samples under `ottla verify`: the correct ones hold, and each wrong one breaks the guarantee that its
mistake concerns.

`make verify-samples` runs all of them through all scenarios. Here, every correct program runs two scenarios, and every mistake once, each
with another client than the one before.
"""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from itertools import product
from typing import Any

import pytest

from client_compat.samples.mistakes import MISTAKES, Mistake, Role, names
from client_compat.samples.programs import CLIENTS, JAVA, command_of
from client_compat.samples.programs import READERS_AND_WRITERS as ROLES
from tests.support.apache_kafka import jars_or_skip

CLIENTS_OF_ALL_ROLES = [client for client, roles in CLIENTS.items() if set(ROLES) <= set(roles)]
RECORDS = 120
LIMIT_S = 300


def verify(client: str, role: Role, scenarios: list[str], mistake: str | None = None) -> dict[str, dict[str, Any]]:
    """Return the results of `ottla verify` by scenario."""
    program = command_of(client, role)
    options = ["--role", role, "--records", str(RECORDS), "--timeout", "60", "--json"]
    options += [word for scenario in scenarios for word in ("--scenario", scenario)]
    if role.endswith("consumer"):
        options += ["--result", shlex.join([*program, "--result"])]
    wrong = ["--mistake", mistake] if mistake else []
    done = subprocess.run(
        [sys.executable, "-m", "ottla", "verify", *options, "--", *program, *wrong],
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert done.stdout, done.stderr
    report = json.loads(done.stdout)
    assert report["could_not_judge"] is None
    return {each["name"]: each for each in report["scenarios"]}


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("client", CLIENTS_OF_ALL_ROLES)
def test_correct_sample_holds_under_lost_acks_and_a_crash(client: str, role: Role) -> None:
    report = verify(client, role, ["lost-ack", "crash-restart"])
    assert {name: (each["standing"], each["breaches"]) for name, each in report.items()} == {
        name: ("held", []) for name in ("calm", "lost-ack", "crash-restart")
    }


@pytest.mark.parametrize(("client", "role"), [("confluent-kafka", "producer"), ("aiokafka", "stream"), ("kafka-python", "consumer")])
def test_correct_sample_holds_under_a_killed_leader_and_a_zombie_leader(client: str, role: Role) -> None:
    report = verify(client, role, ["leader-killed-before-ack", "zombie-leader"])
    assert {name: (each["standing"], each["breaches"]) for name, each in report.items()} == {
        name: ("held", []) for name in ("calm", "leader-killed-before-ack", "zombie-leader")
    }


@pytest.mark.parametrize(
    ("mistake", "client"),
    [
        (mistake, CLIENTS_OF_ALL_ROLES[number % len(CLIENTS_OF_ALL_ROLES)] if mistake.role in ROLES else "confluent-kafka")
        for number, mistake in enumerate(MISTAKES)
    ],
    ids=[mistake.name for mistake in MISTAKES],
)
def test_sample_mistake_breaks_the_listed_guarantee_in_the_listed_scenario(mistake: Mistake, client: str) -> None:
    report = verify(client, mistake.role, ["lost-ack" if mistake.scenario == "calm" else mistake.scenario], mistake.name)
    assert mistake.breaks in {breach["guarantee"] for breach in report[mistake.scenario]["breaches"]}


@pytest.mark.parametrize(
    ("client", "names"),
    [
        ("confluent-kafka", ["crash-restart", "lock-timeout", "leader-killed-before-ack"]),
        (JAVA, ["poison-record", "leader-moved"]),
    ],
)
def test_correct_share_group_sample_holds_in_its_scenarios(client: str, names: list[str]) -> None:
    if client == JAVA:
        jars_or_skip()
    report = verify(client, "share-consumer", names)
    assert {name: (each["standing"], each["breaches"]) for name, each in report.items()} == {
        name: ("held", []) for name in ("calm", *names)
    }


@pytest.mark.parametrize(("client", "role"), [*product(CLIENTS_OF_ALL_ROLES, ROLES), ("confluent-kafka", "share-consumer")])
def test_sample_offers_exactly_the_mistakes_of_its_role(client: str, role: Role) -> None:
    output = subprocess.run([*command_of(client, role), "--help"], capture_output=True, text=True, timeout=LIMIT_S, check=True).stdout
    assert {mistake.name for mistake in MISTAKES if mistake.name in output} == set(names(role))
