from __future__ import annotations

import traceback

import pytest

from ottla.protocol.codegen import fields_at, minimal_size
from ottla.protocol.schema import Buffer, Message, array, bytes_, decoder, encode, int32, int64, string, struct, wire_struct


@wire_struct
class Inner:
    id: int = int64()
    name: str = string()


@wire_struct
class Outer(Message, versions="0-2", flexible="2+"):
    late: int = int32("2+", tag=4)
    number: int = int32()
    early: int = int32("2+", tag=1)
    inner: Inner = struct(Inner, "1+")
    maybe: Inner | None = struct(Inner, "1+", nullable="1+")
    blob: Buffer = bytes_()
    many: list[Inner] = array(Inner)


def test_fields_of_a_version_are_ordered_fields_then_tagged_by_tag_then_absent() -> None:
    names = [[field.name for field in group] for group in fields_at(Outer, 2)]
    assert names == [["number", "inner", "maybe", "blob", "many"], ["early", "late"], []]
    assert [field.name for field in fields_at(Outer, 0)[2]] == ["late", "early", "inner", "maybe"]


@pytest.mark.parametrize(("version", "size"), [(0, 4 + 4 + 4), (1, 4 + 10 + 1 + 4 + 4), (2, 4 + 10 + 1 + 1 + 1 + 1)])
def test_minimal_size_of_a_message_is_that_of_its_defaults(version: int, size: int) -> None:
    assert minimal_size(Outer, version, version >= 2) == size
    assert len(encode(Outer(), version)) == size


def test_traceback_through_compiled_code_shows_source_lines() -> None:
    decode = decoder(Outer, 0)
    with pytest.raises(TypeError) as caught:
        decode(None, 0, 0)  # type: ignore[arg-type] # a bug of a caller, to see its trace
    assert "unpack_" in traceback.format_tb(caught.value.__traceback__)[-1]
