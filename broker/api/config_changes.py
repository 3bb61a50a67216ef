"""Changes of configuration resources (Kafka's `ConfigAdminManager` and `ControllerApis`).

Invariants:
* A change is authorized before anything is applied, whatever else is wrong with the request. No other check replaces authorization.
* Each node changes the levels of its own loggers. A standalone node and a controller decide all other changes; a cluster broker validates
  its own settings and forwards the rest to the controller.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import replace

from ottla.broker.api.access import allowed_of_cluster, denial_of_configs
from ottla.broker.api.context import Context
from ottla.broker.api.served_api import ListenerType
from ottla.broker.api.services import DecidingServices
from ottla.broker.configs.broker_changes import CheckStores
from ottla.broker.configs.broker_loggers import check_levels
from ottla.broker.controller.alter_configs import AlterResource, errors_of_brokers, form_errors, is_of_loggers, no_stores
from ottla.broker.core.acl import Operation
from ottla.broker.core.rejected import Rejected
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages import k44_incremental_alter_configs as k44
from ottla.protocol.messages.k33_alter_configs import AlterConfigsRequest, AlterConfigsResourceResponse, AlterConfigsResponse

Request = AlterConfigsRequest | k44.IncrementalAlterConfigsRequest


async def change_configs(ctx: Context[DecidingServices], request: Request, changes: Sequence[AlterResource]) -> list[Rejected | None]:
    """Return an error or None for each of `changes`, which are those of `request`, when they are durable."""
    settled = _settled_here(ctx, request, changes)
    rest = [index for index in range(len(changes)) if index not in settled]
    if ctx.services.forwarding is not None:
        return await _by_the_controller(ctx, request, changes, settled)
    try:
        answers = await ctx.services.topic_service.alter_configs([changes[index] for index in rest], validate_only=request.validate_only)
    except Rejected as error:
        answers = [error] * len(rest)
    settled |= zip(rest, answers, strict=True)
    return [settled[index] for index in range(len(changes))]


def _settled_here(ctx: Context[DecidingServices], request: Request, changes: Sequence[AlterResource]) -> dict[int, Rejected | None]:
    """Return, by position, the results that are final: errors, and None for logger levels that were set.

    Every change is authorized, whatever its form (a cluster broker leaves all but loggers to the controller). Kafka checks the form
    first, so an error in the form replaces a denial in the response.
    """
    is_member = ctx.services.forwarding is not None
    asked = [index for index, change in enumerate(changes) if is_of_loggers(change) or not is_member]
    denials = {index: denial for index in asked if (denial := _denial(ctx, changes[index])) is not None}
    settled: dict[int, Rejected | None] = {**denials, **_errors_before_denials(ctx, changes)}
    for index, change in enumerate(changes):
        if is_of_loggers(change) and index not in settled:
            settled[index] = _change_levels(ctx, change, validate_only=request.validate_only)
    return settled


def _denial(ctx: Context[DecidingServices], change: AlterResource) -> Rejected | None:
    operation = Operation.CLUSTER_ACTION if is_of_loggers(change) and _is_controllers(ctx) else Operation.ALTER_CONFIGS
    return denial_of_configs(ctx, operation, change.resource_type, change.name)


def _is_controllers(ctx: Context[DecidingServices]) -> bool:
    return ctx.services.listener_type is ListenerType.CONTROLLER


def _errors_before_denials(ctx: Context[DecidingServices], changes: Sequence[AlterResource]) -> Mapping[int, Rejected]:
    """Return, by position, the errors that Kafka returns to every client. Kafka's broker also validates its own settings and leaves their
    authorization to the controller.
    """
    services = ctx.services
    if _is_controllers(ctx):
        from ottla.broker.controller import cluster_configs  # noqa: PLC0415 # only a controller needs it

        return cluster_configs.form_errors(changes)
    malformed = form_errors(changes)
    return {**errors_of_brokers(services.topics, changes, services.settings, _check_stores(ctx)), **malformed}


def _check_stores(ctx: Context[DecidingServices]) -> CheckStores:
    """Return the check of new keystores. Files are read, and mentioned in errors, only if the client may change them."""
    may = allowed_of_cluster(ctx, Operation.ALTER_CONFIGS, quietly=True)
    return ctx.services.broker_configs.check_stores if may else no_stores


def _change_levels(ctx: Context[DecidingServices], change: AlterResource, *, validate_only: bool) -> Rejected | None:
    try:
        check_levels(change.name, change.ops, ctx.services.settings.node_id)
    except Rejected as error:
        return error
    if not validate_only:
        ctx.services.broker_configs.loggers.change(change.ops)  # only in this process; no record is written
    return None


async def _by_the_controller(
    ctx: Context[DecidingServices], request: Request, changes: Sequence[AlterResource], settled: Mapping[int, Rejected | None]
) -> list[Rejected | None]:
    answers = {} if len(settled) == len(changes) else await _forwarded(ctx, request, settled)
    return [
        settled[index] if index in settled else _result_of(answers.get((change.resource_type, change.name)))
        for index, change in enumerate(changes)
    ]


async def _forwarded(
    ctx: Context[DecidingServices], request: Request, settled: Container[int]
) -> Mapping[tuple[int, str], AlterConfigsResourceResponse | k44.AlterConfigsResourceResponse]:
    """Forward the resources that are not settled, and return the controller's results."""
    from ottla.broker.api.forwarding import forward  # noqa: PLC0415 # only a cluster broker needs it

    answers: Sequence[AlterConfigsResourceResponse | k44.AlterConfigsResourceResponse]
    if isinstance(request, AlterConfigsRequest):
        whole = [each for index, each in enumerate(request.resources) if index not in settled]
        answers = (await forward(ctx, replace(request, resources=whole), AlterConfigsResponse)).responses
    else:
        single = [each for index, each in enumerate(request.resources) if index not in settled]
        answers = (await forward(ctx, replace(request, resources=single), k44.IncrementalAlterConfigsResponse)).responses
    return {(each.resource_type, each.resource_name): each for each in answers}


def _result_of(answer: AlterConfigsResourceResponse | k44.AlterConfigsResourceResponse | None) -> Rejected | None:
    """Return the controller's result for one resource. The controller returns one for each."""
    if answer is None:
        return Rejected(ErrorCode.UNKNOWN_SERVER_ERROR)
    return None if answer.error_code == ErrorCode.NONE else Rejected(ErrorCode(answer.error_code), answer.error_message or "")
