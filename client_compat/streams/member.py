"""A Kafka Streams process that is a member of a streams group and answers commands. The Java program is `ottla.streams.Member` of
client_compat/clients/streams."""

from __future__ import annotations

import subprocess
from pathlib import Path
from types import TracebackType

from client_compat.streams.application import STREAMS, StreamsFailed
from client_compat.support.java import JVM_OPTIONS

MAIN_CLASS = "ottla.streams.Member"
CLOSE_TIMEOUT_S = 90.0


class StreamsMember:
    """One Kafka Streams process, started by the constructor; the program has to be built before. Its state and log are in `directory`."""

    def __init__(self, bootstrap: str, application_id: str, directory: Path, topology: str, prefix: str, **settings: str) -> None:
        classpath = f"{STREAMS.out / 'classes'}:{(STREAMS.out / 'classpath').read_text().strip()}"
        options = [option for option in JVM_OPTIONS if "simpleLogger" not in option]
        directory.mkdir(parents=True, exist_ok=True)
        self.log = directory / "member.log"
        given = [f"{name.replace('_', '.')}={value}" for name, value in settings.items()]
        argv = ["java", *options, "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-cp", classpath, MAIN_CLASS]
        argv += [bootstrap, application_id, str(directory / "state"), topology, prefix, *given]
        with self.log.open("ab") as sink:
            self._process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=sink, text=True)

    def send_command(self, command: str) -> str:
        """Send a command to the process, and return its one-line response. Raises `StreamsFailed` if the process has ended."""
        assert self._process.stdin is not None, "it has a pipe"
        assert self._process.stdout is not None, "it has a pipe"
        self._process.stdin.write(f"{command}\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            raise StreamsFailed(f"the member ended by itself:\n{self.log.read_text(errors='replace')[-3_000:]}")
        return answer.strip()

    def close(self) -> None:
        """Let the process leave the group, and wait for its end. Raises `StreamsFailed` after a timeout or an exit code other than 0."""
        assert self._process.stdin is not None, "it has a pipe"
        self._process.stdin.close()
        try:
            code = self._process.wait(CLOSE_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            code = None
        if code != 0:
            raise StreamsFailed(f"the member did not close (exit code {code}):\n{self.log.read_text(errors='replace')[-3_000:]}")
        self._end()

    def kill(self) -> None:
        """Send SIGKILL to the process, and wait for its end."""
        self._process.kill()
        self._end()

    def _end(self) -> None:
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None, "it has a pipe"
            pipe.close()

    def __enter__(self) -> StreamsMember:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._process.poll() is None:
            self.kill()
