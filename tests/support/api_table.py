"""Writes the declarations of all APIs (`ottla.broker.api.declaration`) to `broker/api/api_table.py` and docs/apis.md: `make apis`.

A contract test compares both files with the declarations.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any, Final

from ottla.broker.api.declaration import Api
from ottla.broker.api.served_api import Forwarded, ListenerType, ServedApi, Split

ROOT: Final = Path(__file__).resolve().parents[2]
HANDLERS: Final = sorted((ROOT / "broker" / "api").glob("k[0-9]*_*.py"), key=lambda path: int(path.stem[1:].partition("_")[0]))
TABLE: Final = ROOT / "broker" / "api" / "api_table.py"
PAGE: Final = ROOT / "docs" / "apis.md"
BEGIN: Final = "<!-- served APIs: written by `make apis` -->\n"
END: Final = "<!-- end of served APIs -->\n"
_HEAD: Final = '''"""The served APIs by key. `make apis` writes this file from the declarations in the handlers' files."""

# ruff: noqa: E501 # one line for each API
# fmt: off

from __future__ import annotations

from typing import Final

from ottla.broker.api.served_api import Forwarded, ListenerType, ServedApi, Split
from ottla.protocol.api_keys import ApiKey

APIS: Final = (
'''


def declared() -> list[Api[Any]]:
    """Import all handlers and return their declarations in the order of the keys."""
    return [import_module(f"ottla.broker.api.{path.stem}").API for path in HANDLERS]


def table() -> str:
    """Return the Python source of the module `api_table`."""
    return _HEAD + "".join(f"    {_row(api.served)},\n" for api in declared()) + ")\n"


def page(text: str) -> str:
    """Return the text of docs/apis.md with its table of served APIs replaced."""
    before, rest = text.split(BEGIN)
    _, after = rest.split(END)
    head = "| key | API | versions | listeners | answered by | operation on the cluster |\n| --- | --- | --- | --- | --- | --- |\n"
    return before + BEGIN + head + "".join(map(_line, declared())) + END + after


def _row(served: ServedApi) -> str:
    listeners = " | ".join(str(listener) for listener in served.listeners)
    row = f"ServedApi(ApiKey.{served.key.name}, {served.min_version}, {served.max_version}, {served.advertised_min}, {listeners}"
    if served.forwarded is not Forwarded.NEVER:
        row += f", forwarded={served.forwarded}"
    if not served.throttled:
        row += ", throttled=False"
    if served.needs_telemetry:
        row += ", needs_telemetry=True"
    if served.splits:
        row += f", splits=({''.join(f'{_split(each)}, ' for each in served.splits)})"
    if served.array_limits:
        row += f", array_limits={served.array_limits}"
    return row + ")"


def _split(split: Split) -> str:
    return (
        f"Split({split.request_path!r}, {split.response_path!r}, {split.keys!r})"
        if split.keys
        else f"Split({split.request_path!r}, {split.response_path!r})"
    )


def _line(api: Api[Any]) -> str:
    served, by = api.served, _answered_by(api.served)
    versions = f"{served.advertised_min}-{served.max_version}" if served.advertised_min < served.max_version else f"{served.max_version}"
    listeners = ", ".join(str(listener.name).lower() for listener in served.listeners)
    where = " (controller)" if by == "each" else ""
    required = ", ".join({f"{operation.name}{where}" for operation in api.requires.values()})
    return f"| {served.key.value} | {served.key.camel_case} | {versions} | {listeners} | {by} | {required} |\n"


def _answered_by(served: ServedApi) -> str:
    if served.forwarded is Forwarded.ALWAYS or served.listeners is ListenerType.CONTROLLER:
        return "controller"
    if served.forwarded is Forwarded.IN_PART:
        return "broker and controller"
    return "each" if ListenerType.CONTROLLER in served.listeners else "broker"


if __name__ == "__main__":
    TABLE.write_text(table())
    PAGE.write_text(page(PAGE.read_text()))
