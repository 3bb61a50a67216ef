"""`python -m client_compat.fuzz.hostile_cluster`: attack a gateway from behind, by a cluster with false responses (`hostile_responses`).

Checks, while a good client uses a good broker through the same gateway:
- The gateway's process survives, its memory stays below a limit, and its log contains no trace of a bug.
- The good client keeps its connection, and no response takes longer than a limit.
- The gateway closes a connection on which the cluster sent a false response, and a connection to a broker with an impossible address.
"""

from __future__ import annotations

import random
import socket
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field
from itertools import cycle
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.console import Console

from client_compat.fuzz.bystander import BETWEEN_S, TOPIC, check, requests
from client_compat.fuzz.hostile_responses import HOSTILE_RESPONSES, METADATA, HostileResponse, early
from client_compat.fuzz.run import BUG, MEBIBYTE
from client_compat.fuzz.watched import LongestTurn
from client_compat.support import program
from client_compat.support.admin import create_topic
from client_compat.support.brokers import HOST, BrokerProcess, gateway, ottla
from client_compat.support.campaign import Directory, Seed, run_campaign
from client_compat.support.progress import progress
from ottla.protocol.client import Client
from ottla.protocol.codec import decode_response, encode_response
from ottla.protocol.errors import ProtocolError
from ottla.protocol.headers import read_request_header
from ottla.protocol.messages.k03_metadata import MetadataResponse, MetadataResponseBroker

CLOSED_IN_S: Final = 60.0
"""The time, in seconds, within which the gateway must close a connection after a response that it rejects."""
PASSES_IN_S: Final = 0.3
"""How long, in seconds, the client waits for responses after a false response of the cluster that the gateway may pass on (others it must
reject, within `CLOSED_IN_S`)."""
UNANSWERED_MAX: Final = 200
"""Maximum number of connections that the cluster keeps open without answering on them."""
FOLLOWED: Final = 3
EARLY: Final = "an answer before a request"


@dataclass(slots=True)
class HostileRun:
    """The parameters and results of a run. `complaints` are texts about false responses that the gateway had to reject and did not, and
    about failures of the good client."""

    seed: int
    rss_limit: int
    wait_limit_s: float
    counts: Counter[str] = field(default_factory=Counter)
    slowest: dict[str, float] = field(default_factory=dict)
    """For each false response, the longest iteration of the gateway's event loop, in milliseconds."""
    complaints: list[str] = field(default_factory=list)
    rss_max: int = 0
    longest_wait_s: float = 0.0
    good_answers: int = 0
    bugs_logged: int = 0
    died: str = ""

    @property
    def good(self) -> bool:
        bounded = self.rss_max <= self.rss_limit and self.longest_wait_s <= self.wait_limit_s
        return not self.died and bounded and not self.bugs_logged and not self.complaints and self.good_answers > 0

    def show(self, console: Console) -> None:
        console.print(
            f"{self.counts.total():,} false responses of {len(self.counts)} kinds; the longest turns of the gateway's event loop:"
        )
        for name, turn_ms in sorted(self.slowest.items(), key=lambda each: -each[1])[:5]:
            console.print(f"  {turn_ms:,.0f} ms  {name}", markup=False)
        console.print(
            f"The gateway's process: {self.died or 'alive'}; {self.rss_max / MEBIBYTE:.0f} of {self.rss_limit / MEBIBYTE:.0f} MiB."
        )
        wait = f"{1000 * self.longest_wait_s:,.0f} of {1000 * self.wait_limit_s:,.0f} ms"
        console.print(f"Bugs in its log: {self.bugs_logged}. Longest wait of the good client in {self.good_answers:,} answers: {wait}.")
        for complaint in self.complaints:
            console.print(complaint, style="red", markup=False)


class _Cluster:
    """A cluster of one node that answers each request with the false response `hostile`. If `hostile` is None, the node's responses are
    correct and name the good broker."""

    def __init__(self, good: BrokerProcess) -> None:
        self._good = MetadataResponse(brokers=[MetadataResponseBroker(1, HOST, good.port)])
        self.hostile: HostileResponse | None = None
        self.is_early = False
        self._listening = socket.create_server((HOST, 0), backlog=100)
        self.port: int = self._listening.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listening.close()

    def _accept(self) -> None:
        while True:
            try:
                connected, _ = self._listening.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connected,), daemon=True).start()

    def _serve(self, connected: socket.socket) -> None:
        with connected, suppress(OSError):
            if self.is_early:
                early(connected)
            while size := int.from_bytes(_received(connected, 4), "big"):
                header, _ = read_request_header(memoryview(_received(connected, size)))
                if self.hostile is not None:
                    self.hostile.answer(connected, header)
                else:
                    connected.sendall(b"".join(encode_response(header.api_key, header.api_version, header.correlation_id, self._good)))


def _received(connected: socket.socket, count: int) -> bytes:
    """Return the next `count` bytes; fewer only at the connection's end."""
    return connected.recv(count, socket.MSG_WAITALL) if connected.fileno() >= 0 else b""


class _GoodClient:
    """A client that, through the gateway's port `port`, uses the good broker until `stop`, and measures how long it waits for responses."""

    def __init__(self, port: int, run: HostileRun) -> None:
        self._port, self._run = port, run
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._use, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        self._thread.join()

    def _use(self) -> None:
        run = self._run
        try:
            with Client(HOST, self._port, client_id=TOPIC) as client:
                for request in cycle(requests()):
                    began = time.monotonic()
                    check(client.call(*request))
                    run.longest_wait_s = max(run.longest_wait_s, time.monotonic() - began)
                    run.good_answers += 1
                    if self._stopped.wait(BETWEEN_S):
                        return
        except (OSError, RuntimeError, ProtocolError) as error:
            run.complaints.append(f"the good client: {error!r}")


class _Attack:
    """Makes client connections whose requests the cluster answers with false responses, and records each wrong reaction of the gateway."""

    def __init__(self, front: BrokerProcess, cluster: _Cluster, turns: LongestTurn, run: HostileRun) -> None:
        self._front, self._cluster, self._turns, self._run = front, cluster, turns, run
        self._unanswered: list[Client] = []

    def answer(self, name: str) -> None:
        """Send a request through the gateway, to which the hostile cluster responds with the false response `name`, and check that the
        gateway closes the connection if the false response requires it."""
        cluster, run = self._cluster, self._run
        self._turns.reset()
        cluster.is_early, cluster.hostile = name == EARLY, HOSTILE_RESPONSES.get(name)
        self._meet(name, HostileResponse(lambda *_: None) if name == EARLY else HOSTILE_RESPONSES[name])
        run.counts[name] += 1
        run.slowest[name] = max(run.slowest.get(name, 0.0), self._turns.ms)
        self._front.check_alive()
        run.rss_max = max(run.rss_max, peak_bytes(self._front.pid))

    def close(self) -> None:
        for client in self._unanswered:
            client.close()

    def _meet(self, name: str, hostile: HostileResponse) -> None:
        client = Client(HOST, self._front.port, timeout_s=CLOSED_IN_S if hostile.is_refused else PASSES_IN_S)
        try:
            client.send(hostile.request, hostile.version)
            while True:
                frame = client.read_frame()
                if not hostile.is_refused and hostile.request is METADATA[0]:
                    self._follow(name, decode_response(hostile.request.API_KEY, hostile.version, frame)[1])
        except TimeoutError:
            if hostile.is_refused:
                self._run.complaints.append(f"{name}: the connection was not closed")
            elif len(self._unanswered) < UNANSWERED_MAX:
                self._unanswered.append(client)
                return
        except (OSError, ProtocolError):
            pass
        client.close()

    def _follow(self, name: str, response: MetadataResponse) -> None:
        """Connect to the brokers that the response names. The gateway must close the connections, because no such broker exists."""
        own = [each.port for each in response.brokers if each.host == HOST and each.port > 1_023 and each.node_id >= 0]
        for port in own[:FOLLOWED]:
            try:
                with Client(HOST, port, timeout_s=CLOSED_IN_S) as client:
                    client.send(*METADATA)
                    client.read_frame()
            except TimeoutError:
                self._run.complaints.append(f"{name}: a connection to its broker was not closed")
            except (OSError, OverflowError):
                continue


def peak_bytes(pid: int) -> int:
    """Return the largest resident memory that a process has had."""
    (line,) = [each for each in Path(f"/proc/{pid}/status").read_text().splitlines() if each.startswith("VmHWM:")]
    return int(line.split()[1]) * 1024


@contextmanager
def _attacked(directory: Path, run: HostileRun) -> Iterator[_Attack]:
    """Start the broker, the hostile cluster, the gateway and the good client. Raises BrokerFailed if the broker or the gateway does not
    start."""
    with ExitStack() as stack:
        good = stack.enter_context(ottla(directory / "log", output=directory / "broker.log"))
        create_topic(good.bootstrap, TOPIC, 1)
        cluster = stack.enter_context(closing(_Cluster(good)))
        front, turns = gateway(f"{HOST}:{cluster.port}", directory / "gateway.log"), directory / "longest-turn"
        longest = LongestTurn(turns)
        front.argv = [sys.executable, "-m", "client_compat.fuzz.watched", str(turns), *front.argv[front.argv.index("gateway") :]]
        stack.enter_context(front)
        with Client(HOST, front.port) as client:
            (named,) = client.call(*METADATA).brokers
        client_of_broker = _GoodClient(named.port, run)
        stack.callback(client_of_broker.stop)
        yield stack.enter_context(closing(_Attack(front, cluster, longest, run)))


def attack(
    directory: Path,
    run: HostileRun,
    seconds: float = 0.0,
    *,
    only: Sequence[str] = (),
    on_lie: Callable[[HostileRun], None] = lambda _: None,
) -> HostileRun:
    """Let the cluster give each of its false responses once (with `only`: each of these), and then random ones until `seconds` seconds are
    over. Return `run` with the results. Raises BrokerFailed if the broker or the gateway does not start."""
    end, rng = time.monotonic() + seconds, random.Random(run.seed)
    names = list(only) or [*HOSTILE_RESPONSES, EARLY]
    with _attacked(directory, run) as attacked:
        try:
            for name in names:
                attacked.answer(name)
                on_lie(run)
            while time.monotonic() < end:
                attacked.answer(rng.choice(names))
                on_lie(run)
        except (OSError, RuntimeError) as failure:
            run.died = str(failure)
    run.bugs_logged = (directory / "gateway.log").read_bytes().count(BUG)
    return run


def main(
    *,
    seconds: Annotated[int, typer.Option(min=0, help="How long to send false responses. Each is sent at least once.")] = 300,
    seed: Seed,
    rss_limit_mib: Annotated[int, typer.Option(help="The gateway's resident memory must stay below this.")] = 512,
    wait_limit_s: Annotated[float, typer.Option(help="The good client may not wait longer than this for an answer.")] = 5.0,
    directory: Directory = Path(".fuzz"),
) -> None:
    """Attack `ottla gateway` from behind: a cluster sends false lengths, correlation ids, node ids and addresses, does not answer, answers
    twice, or sends 100 MB of the smallest elements, while a good client uses a good broker through the same gateway. The gateway must not
    die, exceed its memory limit or log a bug, and the good client must not wait too long."""

    def play(console: Console, root: Path) -> HostileRun:
        run = HostileRun(seed, rss_limit_mib * MEBIBYTE, wait_limit_s)
        with progress(console) as display:
            bar = display.add_task("responses", total=None, note="")
            attack(root, run, seconds, on_lie=lambda so_far: display.update(bar, completed=so_far.counts.total()))
        return run

    run_campaign(play, directory, seed=seed, look_at="the gateway's own words are in gateway.log")


if __name__ == "__main__":
    program.run(main)
