from __future__ import annotations

import sys

import pytest

from client_compat.kafka import share_member
from client_compat.kafka.share_member import MemberEnded, ShareMember


@pytest.mark.parametrize("program", ["raise SystemExit(3)", "input(); raise SystemExit(3)"], ids=["before", "during"])
def test_command_to_an_ended_share_member_raises(program: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(share_member, "CLIENTS", {"mine": lambda *_: [sys.executable, "-c", program]})
    with (
        ShareMember("h:1", "g", "t", client="mine") as member,
        pytest.raises(MemberEnded, match="the mine share member ended with exit code 3 instead of answering 'poll'"),
    ):
        member.send_command("poll")
