"""For any requests in any order, replaying the metadata log gives the same state as the run that wrote it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ottla.broker.configs.config_op import ConfigOp
from ottla.broker.controller.alter_configs import AlterResource
from ottla.broker.controller.create_topics import MorePartitions, NewTopic, create_partitions
from ottla.broker.controller.delete_topics import TopicRef, delete_topics
from ottla.broker.controller.placement import Placement
from ottla.broker.controller.producer_ids import BLOCK_SIZE, allocate_block
from tests.support.catalogs import NODE, LiveCatalog, state_of

NAMES = st.sampled_from(["a", "a.b", "a_b", "c", "__consumer_offsets", "bad name", ""])
CONFIGS = st.lists(st.tuples(st.sampled_from(["retention.ms", "flush.ms", "x"]), st.sampled_from(["1", "-1", None])), max_size=3)
OPERATIONS = st.one_of(
    st.tuples(st.just("create"), NAMES, st.integers(-2, 4), CONFIGS),
    st.tuples(st.just("delete"), NAMES),
    st.tuples(st.just("grow"), NAMES, st.integers(0, 6)),
    st.tuples(st.just("alter"), st.sampled_from([2, 4]), NAMES, CONFIGS, st.booleans()),
    st.tuples(st.just("id")),
)


def carry_out(live: LiveCatalog, operation: tuple[object, ...]) -> None:
    match operation:
        case ("create", str(name), int(count), list(configs)):
            live.create(NewTopic(name, count, configs=configs))
        case ("delete", str(name)):
            live.run(delete_topics(live.catalog, [TopicRef(name)]))
        case ("grow", str(name), int(count)):
            live.run(create_partitions(live.catalog, [MorePartitions(name, count)], Placement.on_one(NODE)))
        case ("alter", int(kind), str(name), list(configs), bool(replace)):
            ops = [ConfigOp(key, 1 if value is None else 0, value) for key, value in configs]
            live.alter(AlterResource(kind, name, ops, replace))


@given(st.lists(OPERATIONS, max_size=20))
def test_replayed_records_give_the_state_of_the_live_catalog(operations: list[tuple[object, ...]]) -> None:
    live = LiveCatalog()
    for operation in operations:
        carry_out(live, operation)
    assert state_of(live.replayed()) == state_of(live.catalog)


@given(st.lists(st.integers(1, 2_500), min_size=1, max_size=5))
def test_no_producer_id_is_given_twice_however_often_the_broker_dies(uses: list[int]) -> None:
    live = LiveCatalog()
    given_ids: list[int] = []
    for count in uses:
        live.catalog = live.replayed()
        for _ in range(0, count, BLOCK_SIZE):
            effects = allocate_block(live.catalog, NODE)
            live.run(effects)
            given_ids += effects.response
    assert len(set(given_ids)) == len(given_ids)
