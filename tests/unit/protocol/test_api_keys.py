from __future__ import annotations

from ottla.protocol.api_keys import ApiKey
from ottla.protocol.messages.registry import declared_keys, request_class, response_class


def test_api_keys_have_the_names_of_kio() -> None:
    from kio.schema.index import api_key_map

    assert {int(key): key.name.lower() for key in ApiKey if key in api_key_map} == dict(api_key_map)


def test_every_request_and_response_pair_shares_key_versions_and_flexible_version() -> None:
    for key in declared_keys():
        request, response = request_class(key), response_class(key)
        assert request.API_KEY == response.API_KEY == key
        assert (request.MIN_VERSION, request.MAX_VERSION) == (response.MIN_VERSION, response.MAX_VERSION)
        assert request.FLEXIBLE_SINCE == response.FLEXIBLE_SINCE


def test_every_message_file_is_named_after_its_key() -> None:
    from pathlib import Path

    import ottla.protocol.messages

    stems = {path.stem for path in Path(ottla.protocol.messages.__path__[0]).glob("k*.py")}
    assert stems == {f"k{key:02d}_{key.name.lower()}" for key in declared_keys()}
