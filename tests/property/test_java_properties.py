"""Java's properties files, as another library reads and writes them."""

from __future__ import annotations

from datetime import UTC, datetime

import javaproperties
from hypothesis import given
from hypothesis import strategies as st

from ottla.protocol.java_properties import dumps, loads

PIECES = [*"ab=: \t\f\\\n\r#!u0é😀\x01\x7f", r"\u00e9", r"\ud83d\ude00", r"\u12", "\\\n", "\\\r\n"]
TEXTS = st.lists(st.sampled_from(PIECES), max_size=30).map("".join)


@given(TEXTS)
def test_any_text_is_read_as_the_library_javaproperties_reads_it(text: str) -> None:
    try:
        expected = javaproperties.loads(text)
    except ValueError:
        expected = None
    try:
        found: object = loads(text)
    except ValueError:
        found = None
    assert found == expected


@given(st.dictionaries(TEXTS, TEXTS), st.datetimes(datetime(1970, 1, 1), datetime(2200, 1, 1), timezones=st.just(UTC)))  # noqa: DTZ001 - hypothesis adds the time zone
def test_what_is_written_is_read_again_here_and_by_the_library(properties: dict[str, str], written: datetime) -> None:
    text = dumps(properties, written)
    assert loads(text) == properties
    assert javaproperties.loads(text) == properties
    assert text.splitlines()[1][1:] == javaproperties.java_timestamp(written)
