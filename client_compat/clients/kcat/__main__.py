"""Run kcat as a client program of the compatibility matrix; requests arrive on standard input, as specified in CONTROL.md."""

from __future__ import annotations

import asyncio
import re
import sys

from client_compat.clients.control import Program
from client_compat.clients.kcat.admin import Admin
from client_compat.clients.kcat.command import failure, kcat
from client_compat.clients.kcat.consumer import Consumer
from client_compat.clients.kcat.producer import Producer


def version() -> str:
    """Return the versions of kcat and its librdkafka from `kcat -V`."""
    output = kcat("-V").stdout.decode()
    own, lib = re.search(r"Version (\S+)", output), re.search(r"librdkafka (\S+)", output)
    return f"{own[1] if own else '?'} (librdkafka {lib[1] if lib else '?'})"


if __name__ == "__main__":
    asyncio.run(Program("kcat", version(), Producer, Consumer, Admin, failure, runtime="C").run(sys.stdin, sys.stdout))
