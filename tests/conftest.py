"""Configuration of the whole test suite: the slow tests, their distribution over the workers of `make test`, and the loggers.

* A worker runs whole files, because the tests of a file share fixtures.
* `make test` leaves out the tests with the marker `slow`; `make test-all` runs every test.
* A test leaves the loggers as it found them.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from xdist.scheduler import LoadFileScheduling

from ottla.broker.core.peer_log import PEERS

SPARK_TESTS = "tests/unit/spark_jobs/"
"""All Spark tests run in one worker: a second Spark session would cost a JVM, a gigabyte and half a minute."""

SLOW = {
    "fuzz/test_large_requests.py",
    "golden/test_error_responses.py",
    "golden/test_metadata_images.py",
    "golden/test_metadata_records.py",
    "golden/test_quotas.py",
    "property/test_acl_decisions.py",
    "property/test_controller_differential.py",
    "scenario/test_audit_of_real_logs.py",
    "scenario/test_audit_over_the_wire.py",
    "scenario/test_chaos.py",
    "scenario/test_claims.py",
    "scenario/test_client_matrix.py",
    "scenario/test_cluster_mixed.py",
    "scenario/test_combined_exchange.py",
    "scenario/test_compose_nodes.py",
    "scenario/test_console.py",
    "scenario/test_container.py",
    "scenario/test_crash.py",
    "scenario/test_dedupe.py",
    "scenario/test_demo_cluster.py",
    "scenario/test_gateway_before_kafka.py",
    "scenario/test_gateway_differential.py",
    "scenario/test_fork.py",
    "scenario/test_fork_of_kafka.py",
    "scenario/test_in_kafkas_place.py",
    "scenario/test_kafka_controller.py",
    "scenario/test_kafka_differential.py",
    "scenario/test_kafka_differential_of_access.py",
    "scenario/test_kafka_differential_of_clusters.py",
    "scenario/test_kafka_dump_log.py",
    "scenario/test_kafka_exchange.py",
    "scenario/test_kafka_exchange_of_share_groups.py",
    "scenario/test_kafka_format.py",
    "scenario/test_kafka_metadata.py",
    "scenario/test_kafka_snapshots.py",
    "scenario/test_kafka_tools.py",
    "scenario/test_kafka_tools_of_a_cluster.py",
    "scenario/test_kafka_tools_of_a_controller.py",
    "scenario/test_kafka_tools_transactions.py",
    "scenario/test_kafka_under_ottlas_controller.py",
    "scenario/test_kcat.py",
    "scenario/test_kerberos.py",
    "scenario/test_known_bugs.py",
    "scenario/test_life_beside_kafka.py",
    "scenario/test_security_between_nodes.py",
    "scenario/test_modules_on_an_engine.py",
    "scenario/test_notebook.py",
    "scenario/test_owned_clusters.py",
    "scenario/test_quotas_beside_kafka.py",
    "scenario/test_release_record.py",
    "scenario/test_replication_beside_kafka.py",
    "scenario/test_samples.py",
    "scenario/test_samples_before_kafka.py",
    "scenario/test_secured_clients.py",
    "scenario/test_site.py",
    "scenario/test_streams.py",
    "scenario/test_streams_groups_beside_kafka.py",
    "scenario/test_tables_of_killed_runs.py",
    "scenario/test_telemetry_of_real_clients.py",
    "scenario/test_transactions_beside_kafka.py",
    "scenario/test_transactions_cli.py",
    "scenario/test_transactions_clients.py",
    "scenario/test_verify.py",
    "scenario/test_wheel.py",
    "unit/broker/net/test_kerberos_authentication.py",
    "unit/client_compat/bench/peers/test_checkout.py",
    "unit/client_compat/bench/test_main.py",
    "unit/client_compat/bench/test_run.py",
}
"""Files whose tests run Apache Kafka, real clients in other languages, databases, a browser or a KDC, or take minutes."""

TESTS = Path(__file__).parent

settings.register_profile("ottla", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("ottla")  # no property is about time, and a machine may be busy

_LOGGERS = ("ottla", "ottla.broker", PEERS)


class FileScheduling(LoadFileScheduling):
    """Distributes tests like `--dist loadfile`, but runs all files that share the Spark session in one worker."""

    def _split_scope(self, nodeid: str) -> str:
        return SPARK_TESTS if nodeid.startswith(SPARK_TESTS) else super()._split_scope(nodeid)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        item.user_properties.append(("node", item.nodeid))  # tests/run.py runs a failed test again by this id
        if item.path.is_relative_to(TESTS) and item.path.relative_to(TESTS).as_posix() in SLOW:
            item.add_marker(pytest.mark.slow)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> FileScheduling | None:
    return FileScheduling(config, log) if config.getvalue("dist") == "loadfile" else None


@pytest.fixture(autouse=True)
def _restore_loggers() -> Iterator[None]:
    """Restore the loggers after each test. If a test left a logger disabled or with another level, a later test would miss the lines it
    waits for."""
    found = [logging.getLogger(name) for name in _LOGGERS]
    before = [(each.level, each.disabled, each.propagate, list(each.filters)) for each in found]
    yield
    for each, (level, each.disabled, each.propagate, filters) in zip(found, before, strict=True):
        if each.level != level:
            each.setLevel(level)
        each.filters[:] = filters
