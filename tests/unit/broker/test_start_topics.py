from __future__ import annotations

import pytest

from ottla.broker.controller.create_topics import NewTopic
from ottla.broker.core.settings_load import SettingsError
from ottla.broker.start_topics import parsed_topics


def test_a_topic_list_is_parsed_with_and_without_partition_counts() -> None:
    assert parsed_topics(" a:3:1,b\nc.d-e_f:1:1:compact ") == [
        NewTopic("a", 3, 1, configs=[]),
        NewTopic("b", -1, -1, configs=[]),
        NewTopic("c.d-e_f", 1, 1, configs=[("cleanup.policy", "compact")]),
    ]
    assert parsed_topics("") == []


@pytest.mark.parametrize("text", ["a:many", ":1:1", "a:1:1:compact:more"])
def test_an_invalid_topic_stops_the_start(text: str) -> None:
    with pytest.raises(SettingsError, match="expected NAME"):
        parsed_topics(text)
