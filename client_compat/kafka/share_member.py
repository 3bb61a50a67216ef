"""Java's share consumer as a process that answers commands (`ShareMember.java`)."""

from __future__ import annotations

import signal
import subprocess
from types import TracebackType

from client_compat.kafka.compiled import compiled
from client_compat.kafka.jars import default_version
from client_compat.kafka.reference import java_command

STOP_TIMEOUT_S = 60.0


class ShareMember:
    """A member of a share group. Raises `KafkaMissing` without Kafka's jars or a JDK."""

    def __init__(self, bootstrap: str, group: str, topic: str, *, acknowledgement: str = "explicit", **settings: str) -> None:
        given = [f"{name.replace('_', '.')}={value}" for name, value in settings.items()]
        quiet = {"org.slf4j.simpleLogger.defaultLogLevel": "error"}
        classes = compiled("ShareMember")
        argv = java_command(
            default_version(), "ShareMember", bootstrap, group, topic, acknowledgement, *given, properties=quiet, classes=classes
        )
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
