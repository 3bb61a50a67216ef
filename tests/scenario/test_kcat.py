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


def test_kcat_lists_the_broker_at_the_dialled_address_and_every_topic(broker: BrokerProcess) -> None:
    kcat(broker, "-P", "-t", "listed", stdin="x\n")
    listing = json.loads(kcat(broker, "-L", "-J"))
    assert [node["name"] for node in listing["brokers"]] == [broker.bootstrap]
    assert "listed" in [topic["topic"] for topic in listing["topics"]]
