"""Throughput through the Java client: one process for the whole benchmark runs `Load.java` from source with Kafka's jars.

Rules:
- The program answers each command with one line. Its log goes to a file that error messages name.
- If an answer is late, the process is ended and the next command gets a new one, so that no answer is assigned to the wrong command.
"""

from __future__ import annotations

import selectors
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

from client_compat.bench.model import LoadFailed
from client_compat.kafka.jars import KafkaMissing, jars, java

SOURCE = Path(__file__).with_name("Load.java")
JVM = ("-Xmx1g", "-XX:+UseSerialGC", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn")
TIMEOUT_S = 40.0


def why_not() -> str | None:
    """Return why the Java client is not available here; None if it is."""
    if shutil.which("javac") is None:
        return "there is no JDK here (Debian: openjdk-17-jdk-headless)"
    try:
        jars()
    except KafkaMissing as missing:
        return str(missing)
    return None


@dataclass(slots=True)
class JavaLoad:
    """The process of the Java client, as a context manager. The client logs to `output`. All methods raise `LoadFailed` if the client
    reports an error, gives no answer in time, or ends."""

    output: Path
    _process: subprocess.Popen[str] | None = field(default=None, repr=False)

    def __enter__(self) -> JavaLoad:
        self._start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._end()

    def _start(self) -> subprocess.Popen[str]:
        argv = [java(), *JVM, "-cp", f"{jars()}/*", str(SOURCE)]
        with self.output.open("ab") as sink:
            self._process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=sink, text=True)
        return self._process

    def _end(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None

    def produce(self, bootstrap: str, topic: str, partitions: int, record_bytes: int, records: int) -> float:
        return self._ask("produce", bootstrap, topic, str(partitions), str(record_bytes), str(records))[0]

    def consume(self, bootstrap: str, topic: str, partitions: int, records: int) -> float:
        return self._ask("consume", bootstrap, topic, str(partitions), str(records))[0]

    def join(self, bootstrap: str, topic: str, group: str, consumers: int) -> None:
        """Start `consumers` share consumers in a share group that begins at the earliest offset, and wait until each has partitions."""
        self._ask("join", bootstrap, topic, group, str(consumers))

    def share(self, records: int) -> float:
        """Return the seconds that the share consumers (started by `join`) need to receive and acknowledge `records` records."""
        return self._ask("share", str(records))[0]

    def pace(self, bootstrap: str, topic: str, rate: int, records: int) -> tuple[float, float]:
        """Send `records` records at `rate` a second, which a share consumer started by `join` receives. Return the median and the 99th
        percentile of the seconds from a record's scheduled send to its arrival."""
        median, p99 = self._ask("pace", bootstrap, topic, str(rate), str(records))
        return median, p99

    def leave(self) -> None:
        """Close the share consumers that `join` started."""
        self._ask("leave")

    def _ask(self, *words: str) -> list[float]:
        process = self._process or self._start()
        assert process.stdin is not None, "a pipe"
        assert process.stdout is not None, "a pipe"
        process.stdin.write(" ".join(words) + "\n")
        process.stdin.flush()
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)
            answer = process.stdout.readline() if selector.select(TIMEOUT_S) else ""
        if not answer:
            self._end()
            raise LoadFailed(f"the Java client gave no answer within {TIMEOUT_S:.0f} s, or ended by itself (see {self.output})")
        verdict, _, rest = answer.strip().partition(" ")
        if verdict != "ok":
            raise LoadFailed(f"the Java client: {rest} (see {self.output})")
        return [float(number) for number in rest.split()]
