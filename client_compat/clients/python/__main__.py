"""Run the Python client selected by `--client` as a program of the compatibility matrix; requests arrive on standard input, as specified in
CONTROL.md."""

from __future__ import annotations

import argparse
import asyncio
import importlib
import sys

from client_compat.clients.control import Program

PROGRAMS = {"aiokafka": "with_aiokafka", "confluent-kafka": "with_confluent", "kafka-python": "with_kafka_python"}


def main() -> None:
    parser = argparse.ArgumentParser(description="One of the Python clients, driven by JSON lines.")
    parser.add_argument("--client", choices=sorted(PROGRAMS), required=True)
    name = parser.parse_args().client
    program: Program = importlib.import_module(f"client_compat.clients.python.{PROGRAMS[name]}").program()
    asyncio.run(program.run(sys.stdin, sys.stdout))


if __name__ == "__main__":
    main()
