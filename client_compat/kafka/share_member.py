"""A share consumer as a process that answers commands: Java's (`ShareMember.java`), librdkafka's (`client_compat/clients/share_member.py`)
or franz-go's (`client_compat/clients/go/internal/share`).
"""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Final

from client_compat.kafka.compiled import compiled
from client_compat.kafka.jars import default_version
from client_compat.kafka.reference import java_command
from client_compat.matrix.clients import GO

STOP_TIMEOUT_S = 60.0


def _java(bootstrap: str, group: str, topic: str, mode: str, *settings: str) -> list[str]:
    quiet = {"org.slf4j.simpleLogger.defaultLogLevel": "error"}
    arguments = ("ShareMember", bootstrap, group, topic, mode, *settings)
    return java_command(default_version(), *arguments, properties=quiet, classes=compiled("ShareMember"))


def _librdkafka(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "client_compat.clients.share_member", *arguments]


def _franz_go(bootstrap: str, group: str, topic: str, _mode: str, *settings: str) -> list[str]:
    """franz-go has one mode: a record that was not acknowledged is accepted by the next poll."""
    assert not settings, "its settings are Go functions"
    GO.ensure_built()
    return [str(GO.out / "client"), "--share", bootstrap, group, topic]


JAVA: Final = "java"
CLIENTS: Final[Mapping[str, Callable[..., Sequence[str]]]] = {JAVA: _java, "librdkafka": _librdkafka, "franz-go": _franz_go}
"""How each client is started, with bootstrap servers, group, topic, acknowledgement mode and settings."""


class ShareMember:
    """A member of a share group. Raises `KafkaMissing` or `ToolchainMissing` for a client that cannot be had here."""

    def __init__(
        self, bootstrap: str, group: str, topic: str, *, client: str = JAVA, acknowledgement: str = "explicit", **settings: str
    ) -> None:
        given = [f"{name.replace('_', '.')}={value}" for name, value in settings.items()]
        argv = CLIENTS[client](bootstrap, group, topic, acknowledgement, *given)
        self._process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def say(self, command: str) -> str:
        """Let it carry out a command, and return its answer."""
        assert self._process.stdin is not None, "it has a pipe"
        assert self._process.stdout is not None, "it has a pipe"
        self._process.stdin.write(f"{command}\n")
        self._process.stdin.flush()
        return self._process.stdout.readline().strip()

    def close(self) -> None:
        """Let it leave the group and end."""
        self.say("close")
        self._end()

    def pause(self) -> None:
        """Stop its process, with its connections open: it sends no further request."""
        self._process.send_signal(signal.SIGSTOP)

    def kill(self) -> None:
        """End it as a crash would."""
        self._process.kill()
        self._end()

    def _end(self) -> None:
        self._process.wait(STOP_TIMEOUT_S)
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None, "it has a pipe"
            pipe.close()

    def __enter__(self) -> ShareMember:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._process.poll() is None:
            self.kill()
