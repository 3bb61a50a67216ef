"""Kafka's own classes and Ottla make the same image of a metadata log, however the log is split into deltas, and the same changes for the
replicas of a broker.

The committed logs and their results were made by `client_compat/kafka/MetadataImages.java`, which says how; with a JDK it judges new logs
in each run.
"""

from __future__ import annotations

import random
import shutil
import subprocess
from pathlib import Path

import pytest

from client_compat.kafka.jars import java
from ottla.broker.cluster.image import EMPTY, MetadataImage
from ottla.broker.cluster.image_changes import ImageChanges
from ottla.broker.cluster.image_delta import ImageDelta
from ottla.broker.cluster.local_changes import local_changes
from ottla.broker.cluster.record_frames import decode_record
from tests.support.apache_kafka import jars_or_skip
from tests.support.metadata_logs import as_lines

GOLDEN = Path(__file__).with_name("metadata_images.txt")
PROGRAM = Path(__file__).parents[2] / "client_compat" / "kafka" / "MetadataImages.java"


def described(changes: ImageChanges, broker: int) -> str:
    """Return the changes of a broker's replicas (removed, leaders, elected, followers) in the Java program's format."""
    local = local_changes(changes, broker)
    kinds = (local.removed, local.leaders, local.elected, local.followers)
    names = (",".join(sorted(f"{replica.topic.name}-{replica.index}" for replica in kind)) for kind in kinds)
    return f"@{broker} " + " ".join(names)


def judged(lines: list[str]) -> int:
    """Compare the images of all logs, and the changes in each delta for three brokers; return the number of compared images."""
    images: list[MetadataImage] = []
    delta = theirs = ImageDelta(EMPTY)
    changes = ImageChanges()
    for line in [*lines, "end"]:
        if line.startswith("@"):
            assert line == described(changes, int(line[1]))
            continue
        if line.startswith(" "):
            theirs.apply(decode_record(bytes.fromhex(line))[0])
            continue
        if theirs is not delta:
            assert images[-1] == theirs.finish()
            delta = theirs = ImageDelta(EMPTY)
        if line in {"apply", "image"}:
            changes = delta.changes()
        if line == "apply":
            delta = theirs = ImageDelta(delta.finish())
        elif line == "image":
            images.append(delta.finish())
            theirs = ImageDelta(EMPTY)
        elif line != "end":
            delta.apply(decode_record(bytes.fromhex(line))[0])
    return len(images)


def test_metadata_image_equals_the_image_of_kafkas_classes() -> None:
    assert judged(GOLDEN.read_text().splitlines()) == 8


def test_metadata_image_of_a_random_log_equals_the_image_of_kafkas_classes() -> None:
    classpath = f"{jars_or_skip()}/*"
    if shutil.which("javac") is None:
        pytest.skip("there is no JDK here (Debian: openjdk-17-jdk-headless)")
    seed = random.randrange(1 << 31)
    print("seed", seed)
    argv = [java(), "-Xmx256m", "-XX:+UseSerialGC", "-cp", classpath, str(PROGRAM)]
    done = subprocess.run(argv, input=as_lines(seed, 30, 150), capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert judged(done.stdout.splitlines()) == 30
