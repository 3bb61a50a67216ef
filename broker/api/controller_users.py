"""What a controller keeps of users: AlterUserScramCredentials (key 51), version 0.

Promise: checked as Kafka checks them, they are in the metadata of every broker; those of Apache Kafka obey them.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from ottla.broker.api.k51_alter_user_scram_credentials import altered
from ottla.broker.controller.scram_users import alter_scram_users
from ottla.protocol.messages.k51_alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
)

if TYPE_CHECKING:
    from ottla.broker.api.controller_context import ControllerContext


async def alter_users(ctx: ControllerContext, request: AlterUserScramCredentialsRequest) -> AlterUserScramCredentialsResponse:
    """One result for each user."""
    results = await ctx.services.active.run(partial(alter_scram_users, request=request))
    return altered(results)
