"""No module of the broker, the protocol or the audit needs one that needs it, not even for its types."""

from __future__ import annotations

import grimp

LATE = {
    ("ottla.broker.testing.controls", "ottla.broker.testing.in_process"): "for its type: controls belong to their broker",
    ("ottla.broker.testing.verdict", "ottla.broker.testing.in_process"): "for its type: a broker offers the verdict on itself",
    ("ottla.spark_jobs.log_files", "ottla.spark_jobs.pins"): "in a function: pins are written with its classes",
    ("ottla.spark_jobs.log_files", "ottla.spark_jobs.wire.find"): "in a function: only where brokers are read",
    ("ottla.spark_jobs.segment_reader", "ottla.spark_jobs.wire.runs"): "in a function: only where brokers are read",
    ("ottla.spark_jobs.wire.sources", "ottla.spark_jobs.wire.spool"): "in a function: only where brokers are read",
}
"""Imports that close a circle and may, with the reason."""


def circle(imports: dict[str, list[str]]) -> list[str]:
    """The modules of one circle, the first of them again at its end; none where there is no circle."""
    done: set[str] = set()

    def search(path: list[str]) -> list[str]:
        for imported in imports[path[-1]]:
            if imported in path:
                return [*path[path.index(imported) :], imported]
            if imported not in done and (found := search([*path, imported])):
                return found
        done.add(path[-1])
        return []

    return next((found for module in imports if module not in done and (found := search([module]))), [])


def test_a_circle_is_found_and_shown_as_a_path() -> None:
    assert circle({"a": ["b"], "b": ["c"], "c": ["b"]}) == ["b", "c", "b"]
    assert circle({"a": ["b", "c"], "b": ["c"], "c": []}) == []


def test_no_modules_import_each_other_in_a_circle() -> None:
    graph = grimp.build_graph("broker", "protocol", "spark_jobs", cache_dir=None)
    imports = {
        module: sorted(imported for imported in graph.find_modules_directly_imported_by(module) if (module, imported) not in LATE)
        for module in sorted(graph.modules)
    }
    assert " -> ".join(circle(imports)) == ""
