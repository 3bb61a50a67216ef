"""No two modules of the broker, the protocol or the audit import each other, directly or through others, not even for type checking."""

from __future__ import annotations

import grimp


def circle(imports: dict[str, list[str]]) -> list[str]:
    """Return the modules of one import cycle, with the first one repeated at the end; an empty list if there is no cycle."""
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


def test_import_cycle_is_reported_as_a_path() -> None:
    assert circle({"a": ["b"], "b": ["c"], "c": ["b"]}) == ["b", "c", "b"]
    assert circle({"a": ["b", "c"], "b": ["c"], "c": []}) == []


def test_no_modules_import_each_other_in_a_cycle() -> None:
    graph = grimp.build_graph("ottla", cache_dir=None)  # imports inside functions count too
    imports = {module: sorted(graph.find_modules_directly_imported_by(module)) for module in sorted(graph.modules)}
    assert "ottla.broker.core.settings" in imports["ottla.broker.app"], "the graph has no imports: it looks under another name"
    assert " -> ".join(circle(imports)) == ""
