from __future__ import annotations

import pytest

from ottla.broker.share.persister import SharePartitionKey

ID = bytes(range(16))
TEXT = "AAECAwQFBgcICQoLDA0ODw"


def test_the_coordinator_key_has_kafkas_format() -> None:
    key = SharePartitionKey("my:group", ID, 7)
    assert key.coordinator_key == f"my:group:{TEXT}:7"
    assert SharePartitionKey.parse(key.coordinator_key) == key


@pytest.mark.parametrize("text", ["", "g", f"g:{TEXT}", f":{TEXT}:1", "g:AAEC:1", f"g:{TEXT}:x"])
def test_another_format_is_no_coordinator_key(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 # each format fails in its own way
        SharePartitionKey.parse(text)
