"""A share consumer as a process that answers commands on its standard input. The client is Java's (`ShareMember.java`), librdkafka's
(`client_compat/clients/share_member.py`) or franz-go's (`client_compat/clients/go/internal/share`)."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
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
    """Return the command that starts franz-go's share consumer. The acknowledgement mode is ignored: franz-go is always implicit, that is,
    its next poll accepts records that were not acknowledged."""
    assert not settings, "its settings are Go functions"
    GO.ensure_built()
    return [str(GO.out / "client"), "--share", bootstrap, group, topic]


JAVA: Final = "java"
CLIENTS: Final[Mapping[str, Callable[..., Sequence[str]]]] = {JAVA: _java, "librdkafka": _librdkafka, "franz-go": _franz_go}
"""For each client, a function that returns the command to start it. Its arguments are bootstrap servers, group, topic, acknowledgement mode
and settings."""


class MemberEnded(RuntimeError):
    """Raised when the member's process ended instead of answering a command."""


class ShareMember:
    """A share group member as a process, started by the constructor. Raises `KafkaMissing` or `ToolchainMissing` if its client is not
    available on this machine."""

    def __init__(
        self, bootstrap: str, group: str, topic: str, *, client: str = JAVA, acknowledgement: str = "explicit", **settings: str
    ) -> None:
        given = [f"{name.replace('_', '.')}={value}" for name, value in settings.items()]
        argv = CLIENTS[client](bootstrap, group, topic, acknowledgement, *given)
        self._client = client
        self._process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def send_command(self, command: str) -> str:
        """Send a command to the process, and return its one-line response. Raises MemberEnded if the process has ended."""
        assert self._process.stdin is not None, "it has a pipe"
        assert self._process.stdout is not None, "it has a pipe"
        answer = ""
        with suppress(BrokenPipeError):
            self._process.stdin.write(f"{command}\n")
            self._process.stdin.flush()
            answer = self._process.stdout.readline()
        if not answer:
            code = self._process.wait(STOP_TIMEOUT_S)
            raise MemberEnded(f"the {self._client} share member ended with exit code {code} instead of answering {command!r}")
        return answer.strip()

    def close(self) -> None:
        """Let the member leave the group, and wait for its process to end."""
        self.send_command("close")
        self._end()

    def pause(self) -> None:
        """Send SIGSTOP to the process: its connections stay open, and it sends no further request."""
        self._process.send_signal(signal.SIGSTOP)

    def kill(self) -> None:
        """Send SIGKILL to the process, and wait for its end."""
        self._process.kill()
        self._end()

    def _end(self) -> None:
        self._process.wait(STOP_TIMEOUT_S)
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None, "it has a pipe"
            with suppress(BrokenPipeError):  # a command that the process has not read
                pipe.close()

    def __enter__(self) -> ShareMember:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.kill()
