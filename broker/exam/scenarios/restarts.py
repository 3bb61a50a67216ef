"""What happens to the program's own process: it dies, or is replaced while it only sleeps."""

from __future__ import annotations

from broker.exam.scenario import Calm, Scenario, always
from broker.exam.stage import Script, Stage
from protocol.api_keys import ApiKey

SESSION_MARGIN_MS = 1_000
ZOMBIE_S = 4.0
"""How long a zombie may live on when nothing ends it."""


def crash_restart(stage: Stage, calm: Calm) -> Script:
    """SIGKILL between the broker's write and its answer; then at a commit of offsets or a transaction; each time it starts anew."""
    marks = [calm.mark]
    marks += [api for api in (ApiKey.OFFSET_COMMIT, ApiKey.END_TXN) if api is not calm.mark and calm.witness.calls[api] > 1]
    for share, mark in zip((0.4, 0.7, 0.8), marks, strict=False):
        stage.fault(f"hold-response:api={mark.name},after={calm.part_way(mark, share)},times=1,name=kill-at-{mark.name}")
    stage.start()
    for mark in marks:
        yield stage.held(f"kill-at-{mark.name}")
        for instance in stage.running():
            instance.kill()
        stage.release(f"kill-at-{mark.name}")
        _expire_session(stage, calm)
        stage.start()


def zombie_restart(stage: Stage, calm: Calm) -> Script:
    """The program is paused, taken for dead and replaced; when the replacement is done it wakes up and goes on."""
    stage.fault(f"hold-response:api={calm.mark.name},after={calm.part_way(calm.mark)},times=1,name=asleep")
    stage.start()
    yield stage.held("asleep")
    zombies = stage.running()
    for zombie in zombies:
        zombie.pause()
    _expire_session(stage, calm)
    stage.start()
    yield stage.over()
    for zombie in zombies:
        zombie.resume()
    stage.release("asleep")
    yield stage.ended(zombies, ZOMBIE_S)


def _expire_session(stage: Stage, calm: Calm) -> None:
    """Its membership ends as it would if the time had passed."""
    if calm.witness.session_timeout_ms:
        stage.pass_time(calm.witness.session_timeout_ms + SESSION_MARGIN_MS)


SCENARIOS = (
    Scenario("crash-restart", "the program is killed in the middle of its work and started again", crash_restart, always),
    Scenario("zombie-restart", "the program is paused, replaced, and wakes up when its replacement is done", zombie_restart, always),
)
