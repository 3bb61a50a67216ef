"""The short form of `make chaos`: a fault of every kind, on brokers and on the controller, under load from real clients."""

from __future__ import annotations

from pathlib import Path

from client_compat.chaos.__main__ import SETTINGS
from client_compat.cluster_mixed.faults import CHAOS_FAULTS, Fault
from client_compat.cluster_mixed.run import run
from client_compat.kafka.cluster import ALL_OTTLA, Cluster, Kind
from client_compat.support import small_disk
from client_compat.support.load import CLIENTS

SEED = 20_130_103
COUNT = 6


def test_no_record_is_lost_or_duplicated_and_no_transaction_torn_or_stuck_after_faults_of_every_kind(tmp_path: Path) -> None:
    """The fault of a full disk is left out if no file system can be mounted."""
    faults = [fault for fault in CHAOS_FAULTS if fault != Fault.DISK or small_disk.missing() is None]
    cluster = Cluster(tmp_path / "cluster", ALL_OTTLA, controller_kind=Kind.OTTLA, settings=SETTINGS, can_be_cut=True)
    found = run(cluster, CLIENTS, COUNT, faults, SEED, chaos=True)
    assert found.good, found
    assert found.faults.total() == COUNT
    assert {fault for _, fault in found.faults} == set(faults[:COUNT])
