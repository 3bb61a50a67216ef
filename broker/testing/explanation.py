"""Explains anomalies (such as lost or duplicated records) to people: the batch, the attempts to send it, the acknowledgements and the
offsets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from ottla.broker.testing.anomalies import Anomaly
from ottla.broker.testing.history import Send
from ottla.protocol.error_codes import ErrorCode

STEPS_MAX = 10
"""The maximum number of anomalies that a message explains in full; further ones are only counted. Anomalies of one kind whose records were
sent by the same requests count as one."""
ATTEMPTS_MAX = 8


def explain(anomalies: Sequence[Anomaly], findings: Sequence[str] = ()) -> str:
    """Return the text of the exception `NotExactlyOnce`: the first anomalies with their sends and stored records, the number of the others,
    and `findings` (the lines of the log's audit)."""
    lines = [f"not exactly once: {counted(anomalies)}" if anomalies else "the log is not sound:"]
    alike = _alike(anomalies)
    for anomaly, *more in alike[:STEPS_MAX]:
        lines += ["", f"{anomaly.kind}: {anomaly.says}{f' (and {len(more)} more records of the same sends)' if more else ''}"]
        lines += [f"  {_attempt(number, send)}" for number, send in enumerate(anomaly.sends[:ATTEMPTS_MAX], 1)]
        if len(anomaly.sends) > ATTEMPTS_MAX:
            lines.append(f"  … and {len(anomaly.sends) - ATTEMPTS_MAX} more attempts")
        lines += [
            f"  stored at {stored.where}: {_writer(stored.producer_id, stored.producer_epoch, stored.sequence)}, {stored.outcome.value}"
            for stored in anomaly.stored
        ]
        reason = _reason(anomaly)
        if reason:
            lines.append(f"  {reason}")
    if len(alike) > STEPS_MAX:
        lines += ["", f"… and {sum(map(len, alike[STEPS_MAX:]))} more"]
    if findings:
        lines += ["", "the audit of the log reports:", *(f"  {finding}" for finding in findings)]
    return "\n".join(lines)


def _alike(anomalies: Sequence[Anomaly]) -> list[list[Anomaly]]:
    """Group the anomalies that are explained together: those of one kind whose records were sent by the same requests."""
    groups: dict[object, list[Anomaly]] = {}
    for anomaly in anomalies:
        groups.setdefault((anomaly.kind, tuple(map(id, anomaly.sends))) if anomaly.sends else id(anomaly), []).append(anomaly)
    return list(groups.values())


def counted(anomalies: Iterable[Anomaly]) -> str:
    """Return the number of anomalies of each kind, such as `2 duplicates, 1 missing`."""
    counts = Counter(anomaly.kind for anomaly in anomalies)
    return ", ".join(f"{count} {'duplicates' if kind == 'duplicate' and count > 1 else kind}" for kind, count in counts.items())


def _attempt(number: int, send: Send) -> str:
    at = datetime.fromtimestamp(send.at_ms / 1000, UTC).strftime("%H:%M:%S.%f")[:-3]
    who = f"client {send.client_id or '?'} on connection {send.connection}"
    what = f"{len(send.records)} record{'' if len(send.records) == 1 else 's'} to {send.topic}-{send.partition}"
    return f"{number}. {at} {who} sent {what} ({_writer(send.producer_id, send.producer_epoch, send.base_sequence)}): {_answer(send)}"


def _answer(send: Send) -> str:
    scripted = f" (fault {', '.join(send.faults)})" if send.faults else ""
    if send.error is not ErrorCode.NONE:
        return f"refused, {send.error.name}{scripted}"
    if send.acks == 0:
        return f"sent without a response (acks=0){scripted}"
    if send.offset < 0:
        return f"never handled{scripted}"
    response = "acknowledged" if send.seen else f"and the acknowledgement was {'held back' if send.late else 'lost'}"
    return f"appended at {send.offset}, {response}{scripted}"


def _writer(producer_id: int, epoch: int, sequence: int) -> str:
    if producer_id < 0:
        return "no producer id"
    return f"producer {producer_id} epoch {epoch} sequence {sequence}"


def _reason(anomaly: Anomaly) -> str:
    if anomaly.kind != "duplicate":
        return ""
    writers = {(stored.producer_id, stored.producer_epoch) for stored in anomaly.stored}
    ids = {producer_id for producer_id, _ in writers}
    if ids == {-1}:
        return "Without a producer id the broker cannot distinguish a retry from a new record: enable idempotence."
    if len(ids) > 1:
        return "The copies come from different producer ids: after a restart without a transactional id, a retry is not recognised."
    if len(writers) > 1:
        return "The copies come from different epochs of one producer: it bumped its epoch and sent again what was already written."
    return "One producer id and epoch wrote it twice under different sequences: the application sent it twice."
