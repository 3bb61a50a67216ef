"""Scenarios of `ottla verify` with faults of the program's own process: it is killed and restarted; or it is paused, replaced by another
instance, and later resumed as a zombie."""

from __future__ import annotations

from ottla.broker.verification.scenario import Baseline, Scenario, always
from ottla.broker.verification.stage import Script, Stage
from ottla.protocol.api_keys import ApiKey

ZOMBIE_S = 4.0
"""How many seconds the scenario waits for a resumed zombie (a paused instance that was replaced) to end; the zombie may also run for
ever."""


def crash_restart(stage: Stage, baseline: Baseline) -> Script:
    """Play the scenario `crash-restart`: kill the program under test with SIGKILL and restart it, several times: between the broker's write
    and its response; before an offset commit or a share group's acknowledgement is handled; and between the end of a transaction and the
    response to EndTxn."""
    kills = [("hold-response", baseline.progress_api, 0.4)]
    if baseline.in_share_group:  # between the acquisition of records and their acknowledgement
        kills.append(("hold-request", baseline.progress_api, 0.7))
    if baseline.observer.calls[ApiKey.OFFSET_COMMIT]:
        kills.append(("hold-request", ApiKey.OFFSET_COMMIT, 0.7))
    if baseline.observer.calls[ApiKey.END_TXN] > 1:
        kills.append(("hold-response", ApiKey.END_TXN, 0.8))
    for action, api, share in kills:
        name = f"{action}-of-{api.name}"
        stage.fault(
            f"{action}:api={api.name},after={max(0, baseline.part_way(api, share) - stage.observer.calls[api])},times=1,name={name}"
        )
        stage.start()
        yield stage.held(name)
        for instance in stage.running():
            instance.kill()
        if action == "hold-response":
            stage.release(name)
        stage.expire_members(baseline.session_ms)
    stage.start()


def zombie_restart(stage: Stage, baseline: Baseline) -> Script:
    """Play the scenario `zombie-restart`: pause the program under test and start a second instance in its place. When the second has
    finished its work, resume the first, which is now a zombie."""
    stage.fault(f"hold-response:api={baseline.progress_api.name},after={baseline.part_way(baseline.progress_api)},times=1,name=asleep")
    stage.start()
    yield stage.held("asleep")
    zombies = stage.running()
    for zombie in zombies:
        zombie.pause()
    stage.expire_members(baseline.session_ms)
    stage.start()
    yield stage.all_done()
    for zombie in zombies:
        zombie.resume()
    stage.release("asleep")
    yield stage.ended(zombies, ZOMBIE_S)


SCENARIOS = (
    Scenario("crash-restart", "the program is killed in the middle of its work and restarted", crash_restart, always),
    Scenario("zombie-restart", "the program is paused, replaced, and resumes when its replacement is done", zombie_restart, always),
)
