"""What happens to the program's own process: it dies, or is replaced while it only sleeps."""

from __future__ import annotations

from ottla.broker.verification.scenario import Calm, Scenario, always
from ottla.broker.verification.stage import Script, Stage
from ottla.protocol.api_keys import ApiKey

SESSION_MARGIN_MS = 1_000
ZOMBIE_S = 4.0
"""How long a zombie may live on when nothing ends it."""


def crash_restart(stage: Stage, calm: Calm) -> Script:
    """SIGKILL between the broker's write and its answer; before a commit of offsets, which never arrives; between the end of a
    transaction and its answer. Each time it starts anew.
    """
    kills = [("hold-response", calm.mark, 0.4)]
    if calm.observer.calls[ApiKey.OFFSET_COMMIT]:
        kills.append(("hold-request", ApiKey.OFFSET_COMMIT, 0.7))
    if calm.observer.calls[ApiKey.END_TXN] > 1:
        kills.append(("hold-response", ApiKey.END_TXN, 0.8))
    for action, api, share in kills:
        name = f"{action}-of-{api.name}"
        stage.fault(f"{action}:api={api.name},after={max(0, calm.part_way(api, share) - stage.observer.calls[api])},times=1,name={name}")
        stage.start()
        yield stage.held(name)
        for instance in stage.running():
            instance.kill()
        if action == "hold-response":
            stage.release(name)
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
    if calm.session_ms:
        stage.pass_time(calm.session_ms + SESSION_MARGIN_MS)


SCENARIOS = (
    Scenario("crash-restart", "the program is killed in the middle of its work and started again", crash_restart, always),
    Scenario("zombie-restart", "the program is paused, replaced, and wakes up when its replacement is done", zombie_restart, always),
)
