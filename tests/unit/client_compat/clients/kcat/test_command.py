from __future__ import annotations

from client_compat.clients.control import from_wire
from client_compat.clients.kcat.command import KcatFailed, errors_of, failure, records

ONE = b"t 3 7 1700000000000 2 5\nk\nv\n\n\x01\n\na=b,c=NULL\x01\n"


def test_keys_and_values_may_hold_newlines_and_the_end_mark() -> None:
    (record,), size = records(ONE)
    assert (record["topic"], record["partition"], record["offset"], record["timestamp"]) == ("t", 3, 7, 1700000000000)
    assert (from_wire(record["key"]), from_wire(record["value"])) == (b"k\n", b"v\n\n\x01\n")
    assert [(name, from_wire(value)) for name, value in record["headers"]] == [("a", b"b"), ("c", None)]
    assert size == len(ONE)


def test_null_and_empty_values_are_distinguished() -> None:
    (null, empty), _ = records(b"t 0 0 1 -1 -1\n\n\x01\nt 0 1 1 0 0\n\n\x01\n")
    assert (null["key"], null["value"]) == (None, None)
    assert (from_wire(empty["key"]), from_wire(empty["value"])) == (b"", b"")


def test_partially_printed_record_is_left_for_later() -> None:
    for end in range(1, len(ONE)):
        found, size = records(ONE + ONE[:end])
        assert (len(found), size) == (1, len(ONE))


def test_broker_error_has_kafkas_name_and_other_errors_the_clients() -> None:
    assert errors_of(b"% Auto-selecting\n% ERROR: Delivery failed: Broker: Message size too large\n").startswith("% ERROR")
    error = failure(KcatFailed("% ERROR: Broker: Message size too large"))
    assert error is not None
    assert error.code == "MESSAGE_TOO_LARGE"
    other = failure(KcatFailed("% ERROR: odd"))
    assert other is not None
    assert other.code == "CLIENT:kcat"
    assert failure(ValueError("not kcat's")) is None
