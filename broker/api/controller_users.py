"""AlterUserScramCredentials (key 51), version 0, of a controller.

Promise: credentials are validated as in Kafka and stored in the cluster's metadata, so Apache Kafka's brokers use them, too.
"""

from __future__ import annotations

from functools import partial

from ottla.broker.api.access import check_cluster
from ottla.broker.api.controller_context import ControllerContext
from ottla.broker.api.k51_alter_user_scram_credentials import all_refused, altered
from ottla.broker.controller.scram_users import alter_scram_users
from ottla.broker.core.acl import Operation
from ottla.broker.core.rejected import Rejected
from ottla.protocol.messages.k51_alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
)


async def alter_users(ctx: ControllerContext, request: AlterUserScramCredentialsRequest) -> AlterUserScramCredentialsResponse:
    """Change SCRAM credentials and return one result for each user."""
    try:
        check_cluster(ctx, Operation.ALTER)
        results = await ctx.services.active.run(partial(alter_scram_users, request=request))
    except Rejected as error:
        results = all_refused(request, error)
    return altered(results)
