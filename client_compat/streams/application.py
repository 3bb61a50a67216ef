"""The stream application of client_compat/clients/streams as a process, built once and restarted with its state directory."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass, field
from pathlib import Path

from client_compat.matrix.clients import JAVA, Language
from client_compat.support.java import JVM_OPTIONS

MAIN_CLASS = "ottla.streams.Counts"
PROTOCOLS = ("classic", "streams")
CLOSE_TIMEOUT_S = 90.0
"""How long, in seconds, the application may take to end. This is longer than the application's own timeout for its threads."""
LOG_TAIL_CHARS = 3_000
LOG_OPTIONS = tuple(
    f"-Dorg.slf4j.simpleLogger.{name}"
    for name in (
        "defaultLogLevel=warn",
        "showDateTime=true",
        "dateTimeFormat=HH:mm:ss.SSS",
        "log.org.apache.kafka.clients.NetworkClient=error",
    )
)
"""JVM options that configure slf4j-simple: log warnings, except those about connections that break when the broker ends."""
STREAMS = Language(
    "streams",
    JAVA.tools,
    JAVA.hint,
    lambda out: [["mvn", "-q", "-B", f"-Dcompat.out={out}", "compile"]],
)


class StreamsFailed(RuntimeError):
    """Raised when the application, the broker or a client has failed. The message says which, and ends with its log."""


@dataclass(slots=True)
class Application:
    """The Kafka Streams application as a process. Its state directory and its log (`application.log`) are in `directory`. The program has
    to be built before `start`.

    `protocol` is the application's group protocol, `classic` or `streams`.
    """

    bootstrap: str
    directory: Path
    protocol: str = "classic"
    starts: int = 0
    _process: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    def start(self) -> None:
        """Start the process without waiting for it. Raises FileNotFoundError if it was never built."""
        classpath = f"{STREAMS.out / 'classes'}:{(STREAMS.out / 'classpath').read_text().strip()}"
        options = [option for option in JVM_OPTIONS if "simpleLogger" not in option]
        argv = ["java", *options, *LOG_OPTIONS, "-cp", classpath, MAIN_CLASS, self.bootstrap, str(self.directory / "state"), self.protocol]
        with self.log.open("ab") as sink:
            self._process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=sink, stderr=subprocess.STDOUT)
        self.starts += 1

    def close(self) -> None:
        """Close the application and wait for its exit. Raises `StreamsFailed` on a timeout or an exit code other than 0."""
        process = self._process
        assert process is not None, "close follows start"
        assert process.stdin is not None, "start makes it a pipe"
        process.stdin.close()
        try:
            code = process.wait(CLOSE_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            raise StreamsFailed(f"the application did not close within {CLOSE_TIMEOUT_S:.0f} s:\n{self.log_tail()}") from None
        if code != 0:
            raise StreamsFailed(f"the application closed with exit code {code}:\n{self.log_tail()}")

    def check_alive(self) -> None:
        """Raise `StreamsFailed` if the application has ended by itself."""
        if self._process is not None and (code := self._process.poll()) is not None:
            raise StreamsFailed(f"the application ended by itself with exit code {code}:\n{self.log_tail()}")

    def kill(self) -> None:
        """Kill the application with SIGKILL if it is running."""
        process = self._process
        if process is not None and process.poll() is None:
            assert process.stdin is not None, "start makes it a pipe"
            process.stdin.close()
            process.kill()
            process.wait()

    @property
    def log(self) -> Path:
        return self.directory / "application.log"

    def log_tail(self) -> str:
        return self.log.read_text(errors="replace")[-LOG_TAIL_CHARS:]
