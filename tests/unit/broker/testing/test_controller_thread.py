from __future__ import annotations

import pytest

from ottla.broker.testing.cluster import InProcessCluster


@pytest.mark.parametrize("kill", [False, True])
def test_restarted_controller_keeps_port_and_metadata(kill: bool) -> None:
    with InProcessCluster(1) as cluster:
        cluster.topics.create("t")
        port, image = cluster.controller.port, cluster.controller.image
        cluster.controller.restart(kill=kill)
        assert (cluster.controller.port, cluster.controller.image.topics) == (port, image.topics)
        assert cluster.controller.start() is cluster.controller


def test_paused_controller_decides_nothing_and_can_be_killed() -> None:
    with InProcessCluster(1) as cluster:
        cluster.controller.pause()
        with pytest.raises(RuntimeError, match="the controller is paused"):
            _ = cluster.controller.image
        cluster.controller.resume()
        assert cluster.controller.image.brokers.keys() == {1}
        cluster.controller.pause()
        cluster.controller.kill()
        assert not cluster.controller.running
        cluster.controller.stop()
        assert cluster.controller.exit_codes == []
