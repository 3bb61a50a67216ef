"""AlterUserScramCredentials (key 51), version 0: changes users' SCRAM credentials (KIP-554).

Promises: a change without an error in the response is durable and applies to every later authentication. Authenticated
connections stay open.
"""

from __future__ import annotations

from functools import partial

from ottla.broker.api.access import check_cluster
from ottla.broker.api.context import Context
from ottla.broker.api.declaration import Api
from ottla.broker.api.served_api import Forwarded
from ottla.broker.api.services import ControllerServices
from ottla.broker.api.topic_errors import error_fields
from ottla.broker.controller.scram_users import alter_scram_users
from ottla.broker.core.acl import Operation
from ottla.broker.core.rejected import Rejected
from ottla.protocol.messages.k51_alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)

API = Api(AlterUserScramCredentialsRequest, forwarded=Forwarded.ALWAYS, array_limits={"deletions": 10_000, "upsertions": 10_000})


@API.on_controller()
async def handle(ctx: Context[ControllerServices], request: AlterUserScramCredentialsRequest) -> AlterUserScramCredentialsResponse:
    """Add, replace and delete SCRAM credentials. When the changes are durable, return one result for each user."""
    try:
        check_cluster(ctx, Operation.ALTER)
        results = await ctx.services.active.run(partial(alter_scram_users, request=request))
    except Rejected as error:
        names = [change.name for change in request.deletions] + [change.name for change in request.upsertions]
        results = dict.fromkeys(sorted(names), error.without_traceback())
    return AlterUserScramCredentialsResponse(
        results=[AlterUserScramCredentialsResult(user, *error_fields(error)) for user, error in results.items()]
    )
