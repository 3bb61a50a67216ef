"""Random quotas and random usage: throttle times equal those of Kafka's own classes.

The committed ones were made by `client_compat/kafka/QuotaRates.java`, which says how; with a JDK, new ones are made in each run.
"""

from __future__ import annotations

import random
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from client_compat.kafka.jars import java
from ottla.broker.cluster.image import QuotaTarget
from ottla.broker.core.rejected import Rejected
from ottla.broker.quotas.quotas import Quotas
from ottla.broker.quotas.rates import Windows
from tests.support.apache_kafka import jars_or_skip

ROOT = Path(__file__).parents[2]
PROGRAM = ROOT / "client_compat" / "kafka" / "QuotaRates.java"
NEW_LINES = 800
"""Less than an hour's: who is silent for so long is forgotten, which Kafka leaves to a thread that does not run there."""
LINES = (ROOT / "tests" / "golden" / "quotas.txt").read_text().splitlines()


class Replay:
    """Executes the lines of the Java program with Ottla's quotas."""

    def __init__(self, windows: Windows) -> None:
        self.quotas = Quotas(windows, windows)
        self.limits: dict[QuotaTarget, dict[str, float]] = {}

    def set(self, kind: str, user: str, client: str, limit: str) -> None:
        parts = {"user": user, "client-id": client}
        target = frozenset((part, None if name == "*" else name) for part, name in parts.items() if name != "-")
        values = self.limits.setdefault(target, {})
        if limit == "-":
            values.pop(kind, None)
        else:
            values[kind] = float(limit)
        self.quotas.change(self.limits)

    def use(self, kind: str, user: str, client: str, amount: float, now_ms: int) -> int:
        """Charge a use to its quota; return the throttle time in ms."""
        if kind != "controller_mutation_rate":
            quota = self.quotas.produce if kind == "producer_byte_rate" else self.quotas.request
            return quota.record(user, client, amount, now_ms)
        if not self.quotas.mutation:
            return 0
        mutations = self.quotas.mutation.of_request(user, client, strict=True, mono_ms=lambda: now_ms)
        try:
            mutations.charge(amount)
        except Rejected:
            return mutations.wait_ms()
        return 0


def check(lines: Sequence[str], windows: Windows) -> int:
    """Compare the throttle time of each use with Kafka's; return how many uses were throttled."""
    replay, throttled = Replay(windows), 0
    for number, line in enumerate(lines):
        what, kind, user, client, value, *rest = line.split()
        if what == "quota":
            replay.set(kind, user, client, value)
            continue
        now_ms, expected = map(int, rest)
        assert replay.use(kind, user, client, float(value), now_ms) == expected, f"line {number + 1}: {line}"
        throttled += expected > 0
    return throttled


def test_throttle_times_equal_recorded_results_of_kafkas_classes() -> None:
    assert check(LINES, Windows(11, 1_000)) > len(LINES) // 10


@pytest.mark.parametrize(("number", "seconds"), [(11, 1), (2, 3), (1, 1)])
def test_throttle_times_equal_results_of_kafkas_classes_for_random_requests(number: int, seconds: int) -> None:
    classpath = f"{jars_or_skip()}/*"
    if shutil.which("javac") is None:
        pytest.skip("there is no JDK here (Debian: openjdk-17-jdk-headless)")
    seed = random.randrange(1 << 31)
    print("seed", seed)
    command = [java(), "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", classpath, str(PROGRAM)]
    made = subprocess.run([*command, str(seed), str(NEW_LINES), str(number), str(seconds)], capture_output=True, timeout=120, check=True)
    assert check(made.stdout.decode().splitlines(), Windows(number, seconds * 1_000)) > 0
