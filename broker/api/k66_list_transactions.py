"""ListTransactions (key 66), versions 0-2: lists transactional ids with their states (KIP-664).

Promises: a transaction must match all filters: state, producer id, duration (version 1, KIP-994), and a regular expression for the whole
id (version 2, KIP-1152). Unknown state names are returned in the response and match nothing. The expression is RE2's, matched in linear
time; an invalid one is INVALID_REGULAR_EXPRESSION.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from ottla.broker.api.access import allowed
from ottla.broker.api.context import Context
from ottla.broker.api.declaration import Api
from ottla.broker.api.listing import respond_with_list
from ottla.broker.api.services import CoordinationServices
from ottla.broker.core import limits
from ottla.broker.core.acl import Operation, Resource
from ottla.broker.core.expressions import InvalidExpression, compiled
from ottla.broker.core.rejected import Rejected
from ottla.broker.txns.states import TxnState
from ottla.broker.txns.transaction import Transaction
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k66_list_transactions import ListTransactionsRequest, ListTransactionsResponse, TransactionState

API = Api(ListTransactionsRequest, array_limits={"state_filters": 1_000, "producer_id_filters": 10_000})

_STATES = {state.wire_name: state for state in TxnState}


@API.on_broker()
def handle(
    ctx: Context[CoordinationServices], request: ListTransactionsRequest
) -> ListTransactionsResponse | Awaitable[ListTransactionsResponse]:
    """Return the transactional ids, with their states, that match all filters of the request and that the client may describe. An invalid
    regular expression is INVALID_REGULAR_EXPRESSION."""
    try:
        matches, batch_size = _pattern(request.transactional_id_pattern)
        transactions = list(ctx.services.txns.all_transactions())
    except Rejected as rejected:
        return ListTransactionsResponse(error_code=rejected.code)
    states = {_STATES[name] for name in request.state_filters if name in _STATES}
    producer_ids = set(request.producer_id_filters)
    started_before = ctx.services.clock.now_ms() - request.duration_filter if request.duration_filter >= 0 else None

    def wanted(txn: Transaction) -> bool:
        return (
            (not request.state_filters or txn.state in states)
            and (not producer_ids or txn.producer_id in producer_ids)
            and (started_before is None or txn.start_ms < started_before)
            and matches(txn.transactional_id)
            and allowed(ctx, Operation.DESCRIBE, Resource.TRANSACTIONAL_ID, txn.transactional_id)
        )

    def describe(some: Sequence[Transaction]) -> list[TransactionState]:
        return [TransactionState(txn.transactional_id, txn.producer_id, txn.state.wire_name) for txn in some if wanted(txn)]

    unknown = [name for name in dict.fromkeys(request.state_filters) if name not in _STATES]
    return respond_with_list(
        ctx, transactions, describe, lambda entries: ListTransactionsResponse(0, ErrorCode.NONE, unknown, entries), batch_size
    )


def _pattern(pattern: str | None) -> tuple[Callable[[str], bool], int]:
    """Return a function that tells whether a transactional id matches the regular expression `pattern`, and how many ids may be matched in
    one turn of the event loop. Raises Rejected for an invalid expression.
    """
    if not pattern:
        return lambda transactional_id: True, limits.LISTED_AT_ONCE
    try:
        expression = compiled(pattern)
    except InvalidExpression as error:
        raise Rejected(ErrorCode.INVALID_REGULAR_EXPRESSION, str(error)) from error
    batch_size = max(1, min(limits.LISTED_AT_ONCE, limits.EXPRESSION_INSTRUCTIONS_AT_ONCE // expression.programsize))
    return lambda transactional_id: expression.fullmatch(transactional_id) is not None, batch_size
