"""DescribeConfigs (key 32), versions 1-4: the settings of topics, groups, client metrics subscriptions, this broker and its loggers, with
their sources.

Promises: a null or empty list of keys requests all, and unknown keys are omitted. Synonyms and documentation are returned on request.
Sensitive values are null. Entries are sorted by name. A resource that is named twice is described once, as requested last. If the request
contains an unknown resource type, every resource is INVALID_REQUEST.
"""

from __future__ import annotations

from typing import Final

from ottla.broker.api.access import denial_of_configs
from ottla.broker.api.context import Context
from ottla.broker.api.declaration import Api
from ottla.broker.api.served_api import Split
from ottla.broker.api.services import NodeServices
from ottla.broker.cluster.image import ResourceType
from ottla.broker.configs.broker_config import ConfigSource
from ottla.broker.configs.describe_configs import ConfigEntry, describe_configs
from ottla.broker.core.acl import Operation
from ottla.broker.core.rejected import Rejected
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k32_describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)

API = Api(
    DescribeConfigsRequest,
    splits=(Split("resources", "results", ("resource_type resource_name",)),),
    array_limits={"resources.configuration_keys": 10_000},
)

_TYPES: Final = frozenset(ResourceType) - {ResourceType.UNKNOWN}
_MALFORMED: Final = "A resource type of the request does not exist."


@API.on_both()
def handle(ctx: Context[NodeServices], request: DescribeConfigsRequest) -> DescribeConfigsResponse:
    """Return the settings of the resources that the request names. If one of them has an unknown type, the whole request is rejected before
    any resource is authorized (KAFKA ConfigHelper).
    """
    if any(resource.resource_type not in _TYPES for resource in request.resources):
        return DescribeConfigsResponse(results=[_malformed(resource) for resource in request.resources])
    resources = {(resource.resource_type, resource.resource_name): resource for resource in request.resources}
    return DescribeConfigsResponse(results=[_describe(ctx, request, resource) for resource in resources.values()])


def _malformed(resource: DescribeConfigsResource) -> DescribeConfigsResult:
    return DescribeConfigsResult(ErrorCode.INVALID_REQUEST, _MALFORMED, resource.resource_type, resource.resource_name)


def _describe(ctx: Context[NodeServices], request: DescribeConfigsRequest, resource: DescribeConfigsResource) -> DescribeConfigsResult:
    result = DescribeConfigsResult(0, "", resource.resource_type, resource.resource_name)
    broker_configs = ctx.services.broker_configs
    kind, name, keys = resource.resource_type, resource.resource_name, resource.configuration_keys
    error = denial_of_configs(ctx, Operation.DESCRIBE_CONFIGS, kind, name)
    if error is None:
        try:
            result.configs = [_entry(entry, request) for entry in describe_configs(ctx.services.topics, broker_configs, kind, name, keys)]
        except Rejected as rejected:
            error = rejected.without_traceback()
    if error is not None:
        result.error_code, result.error_message = error.code, error.message
    return result


def _entry(entry: ConfigEntry, request: DescribeConfigsRequest) -> DescribeConfigsResourceResult:
    is_documented = request.include_documentation or entry.source == ConfigSource.DYNAMIC_BROKER_LOGGER  # "" of a logger, as in Kafka
    synonyms = [DescribeConfigsSynonym(*synonym) for synonym in entry.synonyms] if request.include_synonyms else []
    return DescribeConfigsResourceResult(
        entry.name,
        entry.value,
        entry.read_only,
        entry.source,
        entry.sensitive,
        synonyms,
        entry.type,
        entry.documentation if is_documented else None,
    )
