"""kcat as Debian packages it, against `ottla serve`: list, produce, consume."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator

import pytest

from client_compat.support.brokers import BrokerProcess, ottla

KCAT = shutil.which("kcat") or shutil.which("kafkacat")
TIMEOUT_S = 30

pytestmark = pytest.mark.skipif(KCAT is None, reason="kcat is not installed (Debian, Ubuntu: apt-get install kcat)")


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with ottla(tmp_path_factory.mktemp("kcat") / "data") as running:
        yield running


def kcat(broker: BrokerProcess, *arguments: str, stdin: str = "") -> str:
    command = [str(KCAT), "-b", broker.bootstrap, *arguments]
    done = subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_what_kcat_produces_kcat_consumes_with_keys_and_headers(broker: BrokerProcess) -> None:
    kcat(broker, "-P", "-t", "keyed", "-K", ":", "-H", "trace=7", stdin="a:1\nb:2\n")
    taken = kcat(broker, "-C", "-t", "keyed", "-o", "beginning", "-e", "-q", "-f", "%k=%s [%h]\n")
    assert sorted(taken.splitlines()) == ["a=1 [trace=7]", "b=2 [trace=7]"]


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_each_codec_passes(broker: BrokerProcess, codec: str) -> None:
    lines = [f"{number} {'x' * 50}" for number in range(500)]
    kcat(broker, "-P", "-t", f"packed-{codec}", "-z", codec, stdin="\n".join(lines) + "\n")
    assert kcat(broker, "-C", "-t", f"packed-{codec}", "-o", "beginning", "-e", "-q").splitlines() == lines


def test_idempotent_produce_works(broker: BrokerProcess) -> None:
    kcat(broker, "-P", "-t", "once", "-X", "enable.idempotence=true", stdin="x\ny\n")
    assert kcat(broker, "-C", "-t", "once", "-o", "beginning", "-e", "-q").splitlines() == ["x", "y"]


def test_the_list_names_the_broker_by_the_address_that_was_dialled_and_every_topic(broker: BrokerProcess) -> None:
    kcat(broker, "-P", "-t", "listed", stdin="x\n")
    listing = json.loads(kcat(broker, "-L", "-J"))
    assert [node["name"] for node in listing["brokers"]] == [broker.bootstrap]
    assert "listed" in [topic["topic"] for topic in listing["topics"]]


def test_a_group_resumes_behind_what_it_committed(broker: BrokerProcess) -> None:
    kcat(broker, "-P", "-t", "shared", stdin="1\n2\n3\n")
    group = ("-G", "readers", "shared", "-q", "-X", "auto.offset.reset=earliest")
    assert kcat(broker, "-c", "2", *group).splitlines() == ["1", "2"]
    assert kcat(broker, "-c", "1", *group).splitlines() == ["3"]


def test_an_offset_is_found_by_its_timestamp(broker: BrokerProcess) -> None:
    kcat(broker, "-P", "-t", "timed", stdin="1\n2\n")
    assert kcat(broker, "-Q", "-t", "timed:0:1").split() == ["timed", "[0]", "offset", "0"]
