from __future__ import annotations

import pytest

from ottla.broker.core.quorum_addresses import QuorumAddress, bootstrap_servers, voters
from ottla.broker.core.settings_load import SettingsError, load


def test_bootstrap_servers_have_no_node_ids() -> None:
    assert bootstrap_servers(["one.example:9093", "[::1]:9094"]) == [QuorumAddress(-1, "one.example", 9093), QuorumAddress(-1, "::1", 9094)]


def test_voters_have_node_ids() -> None:
    assert voters(["1@one:9093", "2@127.0.0.1:9094"]) == [QuorumAddress(1, "one", 9093), QuorumAddress(2, "127.0.0.1", 9094)]


@pytest.mark.parametrize("item", ["one", "one:x", ":9093", "one:65536", "1@one:9093", "one two:1"])
def test_an_invalid_bootstrap_server_is_reported_with_its_setting(item: str) -> None:
    with pytest.raises(SettingsError, match=r"controller\.quorum\.bootstrap\.servers: .* is not in the form \{host\}:\{port\}"):
        load({"controller.quorum.bootstrap.servers": item}, {}, None)


@pytest.mark.parametrize("item", ["one:9093", "x@one:9093", "1@one", "1@:9093", "-1@one:9093"])
def test_an_invalid_voter_is_reported_with_its_setting(item: str) -> None:
    with pytest.raises(SettingsError, match=r"controller\.quorum\.voters: .* is not in the form \{id\}@\{host\}:\{port\}"):
        load({"controller.quorum.voters": item}, {}, None)
