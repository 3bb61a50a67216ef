from __future__ import annotations

from broker.core.rejected import Rejected
from protocol.error_codes import ErrorCode


def test_a_rejection_reads_as_its_code_and_message() -> None:
    assert str(Rejected(ErrorCode.INVALID_CONFIG, "no")) == "INVALID_CONFIG: no"
    assert str(Rejected(ErrorCode.INVALID_CONFIG)) == "INVALID_CONFIG"
