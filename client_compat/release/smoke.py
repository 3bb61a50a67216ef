"""Tests an installed Ottla with the interpreter of its environment: `python -I smoke.py`.

The program imports only Ottla, its dependencies and the standard library, because the environment contains nothing else. It prints a line
of JSON with the version and the names of the modules that are compiled C extensions. Any error ends the program with a traceback.
"""

from __future__ import annotations

import asyncio
import importlib
import importlib.metadata
import json
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.machinery import ExtensionFileLoader
from pathlib import Path

WALKERS = ("walk", "batch_walk")
FACES = ("ottla.testing", "ottla.audit", "ottla.protocol")
COMMAND = Path(sys.executable).with_name("ottla")
VALUES = [f"record {number}".encode() for number in range(500)]
GREETING = re.compile(r"Ottla is listening on (?P<address>\S+)")
START_S, STOP_S = 180, 60


def main() -> None:
    """Run all checks of the installed package, and print a line of JSON. Raises an exception if a check fails."""
    version = importlib.metadata.version("ottla")
    output = _output(str(COMMAND), "--version").strip()
    assert output == f"ottla {version}", output
    tops = {Path(file).parts[0] for file in importlib.metadata.files("ottla") or () if Path(file).parts[0] != ".."}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"ottla"}, tops
    for face in FACES:
        importlib.import_module(face)
    _in_process()
    with tempfile.TemporaryDirectory(prefix="ottla-smoke-") as work, _served(Path(work)) as bootstrap:
        asyncio.run(_there_and_back(bootstrap))
        lines = _output(str(COMMAND), "consume", "smoke", "--from-beginning", "--exit-at-end", "-b", bootstrap).splitlines()
        assert sorted(lines) == sorted(value.decode() for value in VALUES), lines[:3]
    print(json.dumps({"version": version, "compiled": [name for name in WALKERS if _is_compiled(name)]}))


def _output(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, timeout=START_S, check=True).stdout


def _is_compiled(name: str) -> bool:
    spec = importlib.import_module(f"ottla.protocol.records.{name}").__spec__
    return spec is not None and isinstance(spec.loader, ExtensionFileLoader)


def _in_process() -> None:
    """Test the broker of `ottla.testing`, which runs in this process: create a topic and list it. `ottla.testing` is imported inside this
    function, so that this file can be imported without Ottla."""
    with importlib.import_module("ottla.testing").InProcessBroker() as broker:
        broker.topics.create("here")
        assert broker.topics.names() == ["here"]


@contextmanager
def _served(work: Path) -> Iterator[str]:
    """Run a broker with the installed command and yield its address. The broker has to exit with 0 after SIGTERM."""
    argv = [str(COMMAND), "serve", "--port", "0", "--data-dir", str(work / "data"), "--log-level", "warning"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as broker:
        assert broker.stdout is not None
        try:
            greeting = GREETING.match(broker.stdout.readline())  # empty if the broker did not start; stderr then has the reason
            assert greeting is not None, broker.wait(STOP_S)
            yield greeting["address"]
        finally:
            broker.send_signal(signal.SIGTERM)
            ended = broker.wait(STOP_S)
        assert ended == 0, ended


async def _there_and_back(bootstrap: str) -> None:
    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer  # noqa: PLC0415 # as above

    async with AIOKafkaProducer(bootstrap_servers=bootstrap, enable_idempotence=True, compression_type="zstd") as producer:
        sent = [await producer.send("smoke", value) for value in VALUES]
        await asyncio.gather(*sent)
    async with AIOKafkaConsumer("smoke", bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        got: list[bytes] = []
        async with asyncio.timeout(START_S):
            while len(got) < len(VALUES):
                batches = await consumer.getmany(timeout_ms=1_000)
                got += [record.value for records in batches.values() for record in records]
    assert sorted(got) == sorted(VALUES), len(got)


if __name__ == "__main__":
    main()
