from __future__ import annotations

from ottla.broker.api.api_table import APIS
from ottla.broker.api.routes import FORWARDABLE, broker_routes, controller_routes, standalone_routes
from ottla.broker.api.served_api import Forwarded, ListenerType
from ottla.protocol.api_keys import ApiKey


def test_routes_are_in_the_order_of_the_keys() -> None:
    assert list(broker_routes()) == sorted(broker_routes())


def test_every_forwardable_api_is_served_by_controllers() -> None:
    assert set(standalone_routes()) == FORWARDABLE
    assert set(controller_routes()) >= FORWARDABLE


def test_a_broker_forwards_the_apis_that_the_controller_answers() -> None:
    routes = broker_routes()
    forwarded = {key for key, route in routes.items() if route.handle.__module__ == "ottla.broker.api.forwarding"}
    assert forwarded == {api.key for api in APIS if api.forwarded is Forwarded.ALWAYS}
    assert forwarded == set(routes) & FORWARDABLE - {api.key for api in APIS if api.forwarded is Forwarded.IN_PART}


def test_only_requests_between_nodes_are_not_throttled() -> None:
    exempt = {api.key for api in APIS if not api.throttled}
    only_controllers = {api.key for api in APIS if ListenerType.BROKER not in api.listeners}
    of_share_state = {key for key in ApiKey if "_SHARE_GROUP_STATE" in key.name}
    assert exempt == only_controllers | of_share_state | {ApiKey.WRITE_TXN_MARKERS}
