from __future__ import annotations

import pytest

from ottla.broker.cluster.metadata_records import FeatureLevelRecord, PartitionChangeRecord, RegisterBrokerRecord, UnregisterBrokerRecord
from ottla.broker.controller.reassign_partitions import list_partition_reassignments
from ottla.broker.controller.standalone import register_standalone
from ottla.protocol.messages.k46_list_partition_reassignments import ListPartitionReassignmentsRequest
from tests.support.controllers import LiveController, directory, replicas


def me(controller: LiveController) -> RegisterBrokerRecord:
    return RegisterBrokerRecord(broker_id=1, broker_epoch=controller.next_offset, fenced=False, log_dirs=[directory(1)])


@pytest.fixture
def controller() -> LiveController:
    return LiveController()


@pytest.mark.parametrize(("clean", "epoch"), [(True, 0), (False, 1)])
def test_a_new_leader_epoch_begins_only_after_an_unclean_shutdown(controller: LiveController, clean: bool, epoch: int) -> None:
    controller.run(register_standalone(controller.state, me(controller), clean=True))
    controller.add_topic("t", replicas(1))
    controller.run(register_standalone(controller.state, me(controller), clean=clean))
    (topic,) = controller.state.catalog.topics()
    assert (topic.partitions[0].leader, topic.partitions[0].leader_epoch) == (1, epoch)


def test_the_brokers_of_another_cluster_are_removed_and_lead_nothing(controller: LiveController) -> None:
    controller.add_broker(2)
    controller.add_broker(3)
    controller.add_topic("t", replicas(2, 3))
    effects = register_standalone(controller.state, me(controller), clean=True)
    assert [type(record) for record in effects.records] == [
        UnregisterBrokerRecord,
        UnregisterBrokerRecord,
        RegisterBrokerRecord,
        PartitionChangeRecord,
    ]
    controller.run(effects)
    (topic,) = controller.state.catalog.topics()
    partition = topic.partitions[0]
    assert (partition.leader, partition.replicas, partition.isr) == (1, (1,), (1,))
    assert list(controller.state.sessions.usable()) == [1]


def test_a_partition_without_a_replica_here_gets_no_leader_unless_it_is_internal(controller: LiveController) -> None:
    controller.add_broker(1)
    controller.add_broker(2)
    for name in ("t", "found", "__consumer_offsets"):
        controller.add_topic(name, replicas(2))
    for _ in range(2):  # a second start finds it so
        controller.run(register_standalone(controller.state, me(controller), clean=True, found={("found", 0)}))
        leaders = {topic.name: topic.partitions[0].leader for topic in controller.state.catalog.topics()}
        assert leaders == {"t": -1, "found": 1, "__consumer_offsets": 1}


def test_a_reassignment_and_eligible_leaders_of_the_former_cluster_end(controller: LiveController) -> None:
    controller.add_broker(1)
    controller.add_topic("t", replicas(2, 1, 3, isr=(2,))._replace(adding_replicas=(3,), removing_replicas=(2,), elr=(1,)))
    controller.run(register_standalone(controller.state, me(controller), clean=True))
    now = controller.partition("t")
    assert (now.leader, now.replicas, now.isr) == (1, (1,), (1,))
    assert (now.adding_replicas, now.removing_replicas, now.elr) == ((), (), ())
    everything = ListPartitionReassignmentsRequest(topics=None)
    assert list_partition_reassignments(controller.state, everything).topics == []


def test_a_node_with_another_id_than_in_the_metadata_leads_everything(controller: LiveController) -> None:
    controller.add_broker(2)
    controller.add_topic("t", replicas(2))
    controller.run(register_standalone(controller.state, me(controller), clean=True))
    (topic,) = controller.state.catalog.topics()
    assert topic.partitions[0].leader == 1


def test_a_registration_has_no_directories_below_the_level_that_knows_them(controller: LiveController) -> None:
    controller.write(FeatureLevelRecord("metadata.version", 14))
    controller.run(register_standalone(controller.state, me(controller), clean=True))
    assert controller.state.image.brokers[1].directories == ()
