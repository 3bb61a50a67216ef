"""`.txnindex`: the aborted transactions whose marker is in a segment (Kafka's TransactionIndex).

An entry is 34 bytes: i16 version 0, i64 producer id, i64 first offset, i64 last offset (the marker's), i64 last stable offset at that time.
The entries are in the order of their last offsets. Without entries there is no file.
"""

from __future__ import annotations

import struct
from bisect import bisect_left
from collections.abc import Iterator
from itertools import islice
from operator import attrgetter
from pathlib import Path
from typing import Final, NamedTuple

from ottla.broker.storage.files import Files

_ENTRY: Final = struct.Struct(">hqqqq")
_LAST_OFFSET: Final = attrgetter("last_offset")


class AbortedTxn(NamedTuple):
    """An entry of the transaction index: an aborted transaction. `last_offset` is its marker's offset."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class TxnIndex:
    __slots__ = ("_entries", "_files", "_saved", "base_offset", "path")

    def __init__(self, files: Files, path: Path, base_offset: int, *, fresh: bool) -> None:
        self._files = files
        self.path = path
        self.base_offset = base_offset
        self._entries: list[AbortedTxn] | None = [] if fresh else None
        self._saved = 0

    def entries(self) -> list[AbortedTxn]:
        """Return all entries of the index. Raises `ValueError` if the file is not a transaction index of this segment."""
        if self._entries is None:
            try:
                raw = self._files.read_bytes(self.path)
            except FileNotFoundError:
                raw = b""
            self._entries = list(_decode(raw, self.base_offset))
            self._saved = len(self._entries)
        return self._entries

    def append(self, txn: AbortedTxn) -> None:
        entries = self.entries()
        assert not entries or entries[-1].last_offset < txn.last_offset
        entries.append(txn)

    def collect(self, fetch_offset: int, upper_bound: int) -> tuple[list[AbortedTxn], bool]:
        """Return the aborted transactions that overlap [fetch_offset, upper_bound), and True if no later segment can have another one.
        False means that the caller must search the next segment, too (TransactionIndex.collectAbortedTxns)."""
        found, entries = [], self.entries()
        for txn in islice(entries, bisect_left(entries, fetch_offset, key=_LAST_OFFSET), None):
            if txn.first_offset < upper_bound:
                found.append(txn)
            if txn.last_stable_offset >= upper_bound:
                return found, True
        return found, False

    def truncate_to(self, offset: int) -> None:
        entries = self.entries()
        kept = [txn for txn in entries if txn.last_offset < offset]
        if len(kept) < len(entries):
            self._entries = kept
            self._saved = -1

    def clear(self) -> None:
        self._entries = []
        self._saved = -1

    @property
    def dirty(self) -> bool:
        return self._entries is not None and self._saved != len(self._entries)

    def save(self) -> bool:
        """Write the index file if it differs from the entries in memory, or remove it if there are no entries. Return whether it differed.
        Raises `OSError`."""
        entries = self._entries
        if entries is None or self._saved == len(entries):
            return False
        if not entries:
            self._files.remove(self.path)
        else:
            self._write(entries)
        self._saved = len(entries)
        return True

    def _write(self, entries: list[AbortedTxn]) -> None:
        start = max(self._saved, 0)
        self._files.break_hard_links(self.path)
        fd = self._files.open(self.path)
        try:
            self._files.pwrite(fd, [b"".join(_ENTRY.pack(0, *txn) for txn in entries[start:])], start * _ENTRY.size)
            self._files.truncate(fd, len(entries) * _ENTRY.size)
        finally:
            self._files.close(fd)

    def release(self) -> None:
        """Free the memory of the index, unless it has entries that are not in the file. The next use loads the entries again."""
        if not self.dirty:
            self._entries = None


def _decode(raw: bytes, base_offset: int) -> Iterator[AbortedTxn]:
    if len(raw) % _ENTRY.size:
        raise ValueError(f"{len(raw)} bytes is not a multiple of {_ENTRY.size}")
    for version, *fields in _ENTRY.iter_unpack(raw):
        txn = AbortedTxn(*fields)
        if version != 0 or txn.last_offset < base_offset:
            raise ValueError(f"entry of version {version} with last offset {txn.last_offset} in a segment based at {base_offset}")
        yield txn
