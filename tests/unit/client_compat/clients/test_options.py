from __future__ import annotations

import re

import pytest

from client_compat.clients.options import GO, HERE, RUST, ConsumerOptions, ProducerOptions, in_go, in_rust, options_of


def test_go_and_rust_structs_match_the_declared_options() -> None:
    assert (GO.read_text(), RUST.read_text()) == (in_go(), in_rust()), "run `python -m client_compat.clients.options`"


@pytest.mark.parametrize(("op", "declared"), [("producer.open", ProducerOptions), ("consumer.open", ConsumerOptions)])
def test_control_page_lists_the_declared_options(op: str, declared: type) -> None:
    (row,) = re.findall(rf"^\| `{op}` \|.*$", (HERE / "CONTROL.md").read_text(), re.MULTILINE)
    listed = set(re.findall(r"`([a-z_]+)`", row.split("any of")[1]))
    assert listed >= options_of(declared).keys()
