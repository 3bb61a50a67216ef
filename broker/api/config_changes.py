"""Changes of settings, decided where they are to be: all here on one node; in a cluster loggers here, and the rest by the controller, after
this broker has looked at what is its own (Kafka's `ConfigAdminManager`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ottla.broker.api.access import allowed_of_cluster, denial_of_configs
from ottla.broker.api.context import Context
from ottla.broker.cluster.image import ResourceType
from ottla.broker.configs.broker_changes import CheckStores
from ottla.broker.controller.alter_configs import AlterResource, check_form, named_twice, no_stores, settled_by_the_broker
from ottla.broker.core.acl import Operation
from ottla.broker.core.rejected import Rejected
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k33_alter_configs import AlterConfigsRequest
from ottla.protocol.messages.k44_incremental_alter_configs import IncrementalAlterConfigsRequest

Request = AlterConfigsRequest | IncrementalAlterConfigsRequest


async def change_configs(ctx: Context, request: Request, changes: Sequence[AlterResource]) -> list[Rejected | None]:
    """An error or None for each of `changes`, which are those of `request`, when they are durable."""
    if ctx.services.forwarding is not None:
        return await _split(ctx, request, changes)
    denials = _denials(ctx, changes)
    rest = [change for index, change in enumerate(changes) if index not in denials]
    try:
        answers = iter(await ctx.services.topic_service.alter_configs(rest, validate_only=request.validate_only))
    except Rejected as error:
        answers = iter([error for _ in rest])
    return [denials[index] if index in denials else next(answers) for index in range(len(changes))]


def _denials(ctx: Context, changes: Sequence[AlterResource]) -> dict[int, Rejected]:
    """By place what the client may not change. What is wrong with a broker's settings a broker tells first, as in Kafka, where it looks at
    them and leaves it to the controller to ask who may change them."""
    services = ctx.services
    if services.authorizer is None:
        return {}
    is_broker = isinstance(ctx, Context)
    settled = settled_by_the_broker(services.topics, changes, services.settings, _check_stores(ctx)) if is_broker else {}
    told = {index for index, error in settled.items() if error is not None and changes[index].resource_type == ResourceType.BROKER}
    denials = ((index, _denial(ctx, changes, index)) for index in range(len(changes)) if index not in told)
    return {index: denial for index, denial in denials if denial is not None}


def _check_stores(ctx: Context) -> CheckStores:
    """Nothing is read, and told of, for who may not have it taken."""
    may = allowed_of_cluster(ctx, Operation.ALTER_CONFIGS, quietly=True)
    return ctx.services.broker_configs.check_stores if may else no_stores


def _denial(ctx: Context, changes: Sequence[AlterResource], index: int) -> Rejected | None:
    change = changes[index]
    is_logger = change.resource_type == ResourceType.BROKER_LOGGER
    if is_logger and change.replace:
        return None  # refused for another reason
    try:
        check_form(change, named_twice(changes))
    except Rejected:
        return None  # as well
    operation = Operation.CLUSTER_ACTION if is_logger and not isinstance(ctx, Context) else Operation.ALTER_CONFIGS
    return denial_of_configs(ctx, operation, change.resource_type, change.name)


async def _split(ctx: Context, request: Request, changes: Sequence[AlterResource]) -> list[Rejected | None]:
    services = ctx.services
    here = settled_by_the_broker(services.topics, changes, services.settings, _check_stores(ctx))
    for index in [index for index in here if changes[index].resource_type == ResourceType.BROKER_LOGGER]:
        here[index] = _denial(ctx, changes, index) or here[index]
    for index, error in here.items():
        if changes[index].resource_type == ResourceType.BROKER_LOGGER and error is None and not request.validate_only:
            services.broker_configs.loggers.change(changes[index].ops)
    rest: Any = [resource for index, resource in enumerate(request.resources) if index not in here]
    there = {}
    if rest:
        from ottla.broker.api.forwarding import handle  # noqa: PLC0415 # only a member of a cluster needs it

        response = await handle(ctx, replace(request, resources=rest))
        there = {(each.resource_type, each.resource_name): each for each in response.responses}
    return [here[index] if index in here else _told(there.get((change.resource_type, change.name))) for index, change in enumerate(changes)]


def _told(answer: object) -> Rejected | None:
    """What the controller said of one resource; it says something of each."""
    code = getattr(answer, "error_code", ErrorCode.UNKNOWN_SERVER_ERROR)
    return None if code == ErrorCode.NONE else Rejected(ErrorCode(code), getattr(answer, "error_message", None) or "")
