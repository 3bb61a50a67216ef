"""Changes of configuration resources (Kafka's `ConfigAdminManager` and `ControllerApis`).

Invariants:
* Every change in a request is authorized before any of them is applied, even if the request is invalid for another reason.
* Each node changes the levels of its own loggers. A broker validates its own settings and forwards the rest to the controller, which
  decides all other changes.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from ottla.broker.api.access import allowed_of_cluster, denial_of_configs
from ottla.broker.api.context import Context
from ottla.broker.api.forwarding import forward
from ottla.broker.api.served_api import ListenerType
from ottla.broker.api.services import ClusterServices, ControllerServices, NodeServices
from ottla.broker.api.topic_errors import error_fields
from ottla.broker.cluster.image import ResourceType
from ottla.broker.configs.broker_changes import CheckStores
from ottla.broker.configs.broker_loggers import check_levels
from ottla.broker.controller import cluster_configs
from ottla.broker.controller.alter_configs import AlterResource, errors_of_brokers, form_errors, is_of_loggers, no_stores
from ottla.broker.core.acl import Operation
from ottla.broker.core.rejected import Rejected
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.alter_configs_resource_response import AlterConfigsResourceResponse
from ottla.protocol.messages.k33_alter_configs import AlterConfigsRequest, AlterConfigsResponse
from ottla.protocol.messages.k44_incremental_alter_configs import IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse

Request = AlterConfigsRequest | IncrementalAlterConfigsRequest

_UNANSWERED: Final = Rejected(ErrorCode.UNKNOWN_SERVER_ERROR)
"""The result of a change that the controller's response omits. Such a response would be a bug, because the controller returns a result for
each resource.
"""


async def decide_changes(
    ctx: Context[ControllerServices], request: Request, changes: Sequence[AlterResource]
) -> list[AlterConfigsResourceResponse]:
    """Apply the changes of settings in `request`, on a controller. Return the results, in order, once the changes are durable.

    There is one result for each resource; only a logger resource that is named twice has two. Any other resource that is named twice is
    rejected (KAFKA ControllerApis). Every change is authorized. The form of a change (for example, its resource type) is checked before the
    client's authorization, as in Kafka, so the result of a malformed change is the error about its form.
    """
    denials = {index: denial for index, change in enumerate(changes) if (denial := _denial(ctx, change)) is not None}
    settled = _with_levels(ctx, request, changes, {**denials, **cluster_configs.form_errors(changes)})
    rest = [index for index in range(len(changes)) if index not in settled]
    try:
        decide = partial(
            cluster_configs.alter_cluster_configs, resources=[changes[index] for index in rest], forwarded=ctx.peer.is_forwarded
        )
        answers = await ctx.services.active.run(decide, validate_only=request.validate_only)
    except Rejected as error:
        answers = [error.without_traceback()] * len(rest)
    settled |= zip(rest, answers, strict=True)
    results = {
        index if is_of_loggers(change) else (change.resource_type, change.name): _result(change, settled[index])
        for index, change in enumerate(changes)
    }
    return list(results.values())


async def forward_changes(
    ctx: Context[ClusterServices], request: Request, changes: Sequence[AlterResource]
) -> list[AlterConfigsResourceResponse]:
    """Handle a broker's request to change settings: change this broker's logger levels, and forward the changes that the controller
    decides. Return one result per change, in order, when all changes are durable.

    The broker validates changes of its own settings before it forwards them. A broker that imitates Kafka 4.4 or later also authorizes
    changes of broker settings first. Older releases authorize them only on the controller, so a client that is not authorized gets the
    error about an invalid value.
    """
    services = ctx.services
    authorized = {index for index, change in enumerate(changes) if is_of_loggers(change)}
    if services.settings.release_behaviour.authorizes_broker_changes_first:
        authorized |= {index for index, change in enumerate(changes) if change.resource_type == ResourceType.BROKER}
    denials = {index: denial for index in sorted(authorized) if (denial := _denial(ctx, changes[index])) is not None}
    of_brokers = errors_of_brokers(services.topics, changes, services.broker_configs.as_started(), _check_stores(ctx))
    settled = _with_levels(ctx, request, changes, {**of_brokers, **denials, **form_errors(changes)})
    answers = {} if len(settled) == len(changes) else await _forwarded(ctx, request, settled)
    return [
        _result(change, settled[index])
        if index in settled
        else answers.get((change.resource_type, change.name), _result(change, _UNANSWERED))
        for index, change in enumerate(changes)
    ]


def _result(change: AlterResource, error: Rejected | None) -> AlterConfigsResourceResponse:
    return AlterConfigsResourceResponse(*error_fields(error), change.resource_type, change.name)


def _with_levels(
    ctx: Context[NodeServices], request: Request, changes: Sequence[AlterResource], errors: Mapping[int, Rejected]
) -> dict[int, Rejected | None]:
    """Change the levels of this node's loggers, as the logger changes among `changes` say. `errors` are the changes that were already
    rejected, by position in `changes`; these are skipped.

    Return `errors` together with the results of the logger changes (None: success), by position in `changes`. The controller must decide
    the changes that have no result.
    """
    settled: dict[int, Rejected | None] = {**errors}
    for index, change in enumerate(changes):
        if is_of_loggers(change) and index not in settled:
            settled[index] = _change_levels(ctx, change, validate_only=request.validate_only)
    return settled


def _denial(ctx: Context[NodeServices], change: AlterResource) -> Rejected | None:
    operation = (
        Operation.CLUSTER_ACTION
        if is_of_loggers(change) and ctx.services.listener_type is ListenerType.CONTROLLER
        else Operation.ALTER_CONFIGS
    )
    return denial_of_configs(ctx, operation, change.resource_type, change.name)


def _check_stores(ctx: Context[NodeServices]) -> CheckStores:
    """Return the function that checks a client's new keystore settings by opening the files. If the client may not ALTER_CONFIGS on the
    cluster, the returned function checks nothing, so that errors do not reveal which files exist.
    """
    may = allowed_of_cluster(ctx, Operation.ALTER_CONFIGS, quietly=True)
    return ctx.services.broker_configs.check_stores if may else no_stores


def _change_levels(ctx: Context[NodeServices], change: AlterResource, *, validate_only: bool) -> Rejected | None:
    settings = ctx.services.settings
    name = change.name if change.name or settings.release_behaviour.has_logger_errors else str(settings.node_id)
    try:
        check_levels(name, change.ops, settings.node_id)
    except Rejected as error:
        return error if settings.release_behaviour.has_logger_errors else Rejected(ErrorCode.INVALID_REQUEST, error.message)
    if not validate_only:
        ctx.services.broker_configs.loggers.change(change.ops)  # only in this process; no record is written
    return None


async def _forwarded(
    ctx: Context[ClusterServices], request: Request, settled: Container[int]
) -> Mapping[tuple[int, str], AlterConfigsResourceResponse]:
    """Forward the request to the controller, without the resources for which this broker already has a result. `settled` contains the
    positions of those resources in the request. Return the controller's results by resource type and name.
    """
    answers: Sequence[AlterConfigsResourceResponse]
    if isinstance(request, AlterConfigsRequest):
        whole = [each for index, each in enumerate(request.resources) if index not in settled]
        answers = (await forward(ctx, replace(request, resources=whole), AlterConfigsResponse)).responses
    else:
        single = [each for index, each in enumerate(request.resources) if index not in settled]
        answers = (await forward(ctx, replace(request, resources=single), IncrementalAlterConfigsResponse)).responses
    return {(each.resource_type, each.resource_name): each for each in answers}
