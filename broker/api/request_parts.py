"""Splitting of requests with many elements into small requests, and joining of their responses.

Rules:
* A request is split only if Kafka handles its elements one by one, so that the parts have the same effect as the whole.
* If a duplicate name is significant (as an error, or because the last one counts), its last two occurrences are kept together in one part.
* The joined response has the parts' elements in the order of the parts. A part with an error for the whole response ends the request.
* An entry with an error of its own (such as a group of OffsetFetch) fails as a whole: if one part of it fails, it has no other results.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from copy import copy
from dataclasses import fields
from functools import cache
from operator import is_
from typing import Any, Final

from ottla.broker.api.api_table import APIS
from ottla.broker.api.served_api import Split
from ottla.protocol.decoder import REQUEST_ELEMENTS

PART_ELEMENTS: Final = 50
"""The maximum number of elements in one part of a split request. At 10 to 40 us per element, a part takes about a millisecond."""


_ERROR: Final = ("error_code", "error_message")
"""The fields of an error in a response entry."""

SPLITS: Final = {int(api.key): api.splits for api in APIS if api.splits}
ARRAY_LIMITS: Final = {int(api.key): api.array_limits for api in APIS if api.array_limits}


def oversized_array(request: Any) -> str | None:
    """Return a text that names the first array of the request with more elements than its API allows (`array_limits`), or None."""
    for path, max_count in ARRAY_LIMITS.get(request.API_KEY, {}).items():
        names, is_cut = path.split("."), request.API_KEY in SPLITS
        structs = (getattr(request, names[0], None) or ()) if is_cut else (request,)
        if any(_elements_left(struct, names[1:] if is_cut else names, max_count) < 0 for struct in structs):
            return f"more than {max_count} {path}"
    return None


def count_elements(request: Any) -> int:
    """Return the number of elements in the request's arrays that its API splits or limits (`array_limits`). If two of the arrays are nested
    in the same outer array, the elements of the outer array are counted twice."""
    paths = [*(split.request_path for split in SPLITS.get(request.API_KEY, ())), *ARRAY_LIMITS.get(request.API_KEY, ())]
    return sum(REQUEST_ELEMENTS - _elements_left(request, path.split("."), REQUEST_ELEMENTS) for path in paths)


def split_request(request: Any, split: Split) -> Iterator[Any]:
    """Yield requests of about PART_ELEMENTS elements each, which together have the elements of `request`. `split` names the array to split;
    this array of `request` is empty afterwards.
    """
    name, *path = split.request_path.split(".")
    items = getattr(request, name)
    setattr(request, name, [])
    for part, _ in _cut(items, path, [key.split() for key in split.keys]):
        yield _with(request, name, part)


def split_of(request: Any) -> Split | None:
    """Return how to split the request into smaller ones; None if it must not be split, or has at most PART_ELEMENTS elements."""
    for split in SPLITS.get(request.API_KEY, ()):
        name, *path = split.request_path.split(".")
        items = getattr(request, name, None)
        if items:
            return split if len(items) > PART_ELEMENTS or any(_elements_left(item, path, PART_ELEMENTS) < 0 for item in items) else None
    return None


def _elements_left(struct: Any, path: Sequence[str], left: int) -> int:
    """Return `left` minus the number of elements in the nested arrays that `path` names, outermost array first. Counting stops when the
    result is below 0, so a negative result only means that there are more than `left` elements.
    """
    if not path:
        return left
    inner = getattr(struct, path[0], None) or ()
    if not isinstance(inner, Sequence):
        return _elements_left(inner, path[1:], left)
    left -= len(inner)
    for each in inner if len(path) > 1 else ():
        if left < 0:
            break
        left = _elements_left(each, path[1:], left)
    return left


def join_responses(whole: Any, part: Any, path: Sequence[str]) -> None:
    """Append the results in `part`, one part's response, to `whole`, the joined response of earlier parts. `path` leads to the results.

    The throttle time is the longest of all parts; each node endpoint is kept once.
    """
    _extend(whole, part, path)
    if hasattr(whole, "throttle_time_ms"):
        whole.throttle_time_ms = max(whole.throttle_time_ms, part.throttle_time_ms)
    if hasattr(whole, "node_endpoints"):
        known = {endpoint.node_id for endpoint in whole.node_endpoints}
        whole.node_endpoints += [endpoint for endpoint in part.node_endpoints if endpoint.node_id not in known]


def _extend(whole: Any, part: Any, path: Sequence[str]) -> None:
    before, more = getattr(whole, path[0]), getattr(part, path[0])
    if len(path) > 1 and before and more and _same(before[-1], more[0], path[1], *_ERROR):
        if getattr(more[0], "error_code", 0):
            before[-1] = more[0]  # clients (such as Java's, for OffsetFetch) expect one entry with the error, without results
        elif not getattr(before[-1], "error_code", 0):
            _extend(before[-1], more[0], path[1:])
        more = more[1:]
    before += more


def _same(one: Any, other: Any, *but: str) -> bool:
    """Return whether two structs of one type (such as two response entries of one topic) are equal in every field except those named
    `but`."""
    return all(getattr(one, name) == getattr(other, name) for name in _names(one.__class__) if name not in but)


@cache
def _names(struct: type) -> tuple[str, ...]:
    return tuple(field.name for field in fields(struct))


def _with(struct: Any, name: str, value: Any) -> Any:
    changed = copy(struct)
    setattr(changed, name, value)
    return changed


def _cut(items: Sequence[Any], path: Sequence[str], keys: Sequence[Sequence[str]]) -> Iterator[tuple[list[Any], int]]:
    """Yield `items`, the elements of a request's array, in parts of about PART_ELEMENTS elements, each with its element count. `path` leads
    from an item to its nested elements; `keys` has, for each level, the names of the fields that identify an element.
    """
    part: list[Any] = []
    size = 0
    for piece, elements in _pieces(items, path, keys):
        if size and size + elements > PART_ELEMENTS:
            yield part, size
            part, size = [], 0
        part += piece
        size += elements
    if part:
        yield part, size


def _pieces(items: Sequence[Any], path: Sequence[str], keys: Sequence[Sequence[str]]) -> Iterator[tuple[list[Any], int]]:
    """Yield groups of elements that must stay together in one part of a request, each group with its element count.

    `path` leads from an item to its nested elements; `keys` has, for each level, the names of the fields that identify an element. Items
    with equal keys become consecutive, and are merged if their other fields are equal, too; of nested elements with equal keys only the
    last two are kept. An item with many nested elements is yielded several times, each time with some of them. The item itself is included
    in the count.
    """
    if not path:
        for group in _by_key(items, keys[0]) if keys else ([item] for item in items):
            yield group[-2:], len(group[-2:])
        return
    for item in (each for group in _by_key(items, keys[0]) for each in _merged(group, path[0])) if keys else items:
        inner = getattr(item, path[0])
        if not inner:
            yield [item], 1
            continue
        for part, size in _cut(inner, path[1:], keys[1:]):
            yield [item if len(part) == len(inner) and all(map(is_, part, inner)) else _with(item, path[0], part)], 1 + size


def _by_key(items: Iterable[Any], names: Sequence[str]) -> Iterable[list[Any]]:
    """Group the items whose fields `names` are equal (without names: equal items), in the order of each group's first item."""
    groups: dict[Any, list[Any]] = {}
    for item in items:
        key = tuple(getattr(item, name) for name in names) if names else item
        groups.setdefault(key, []).append(item)
    return groups.values()


def _merged(group: Sequence[Any], name: str) -> Sequence[Any]:
    """Merge structs that have the same key into the first one, with the elements of all structs in its array field `name`. If they differ
    in another field, such as two transaction markers of one producer, return them all unchanged."""
    if len(group) == 1 or not all(_same(group[0], item, name) for item in group):
        return group
    return [_with(group[0], name, [each for item in group for each in getattr(item, name) or ()])]
