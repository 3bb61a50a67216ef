"""`broker/api/api_table.py` and docs/apis.md equal the declarations of the API handlers."""

from __future__ import annotations

from ottla.broker.api.api_table import APIS
from ottla.broker.api.routes import broker_routes, controller_routes
from ottla.broker.api.served_api import ListenerType
from tests.support.api_table import HANDLERS, PAGE, TABLE, declared, page, table


def test_api_table_matches_the_declarations() -> None:
    assert table() == TABLE.read_text(), "run `make apis`"


def test_apis_page_matches_the_declarations() -> None:
    assert page(PAGE.read_text()) == PAGE.read_text(), "run `make apis`"


def test_a_handlers_file_is_named_after_its_api() -> None:
    assert [path.stem for path in HANDLERS] == [api.served.module for api in declared()]


def test_every_declared_api_has_a_route_at_each_of_its_listeners() -> None:
    routes = {ListenerType.BROKER: broker_routes(telemetry=True), ListenerType.CONTROLLER: controller_routes()}
    assert [(api.key, listener) for api in APIS for listener in api.listeners if api.key not in routes[listener]] == []
