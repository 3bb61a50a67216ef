"""A program for `ottla verify` and the client matrix without a client: it speaks the control protocol and does what its requests say, to
test the code that runs such programs."""

from __future__ import annotations

import json
import os
import sys
import time


def answer(request: dict[str, object]) -> object:
    op, number = request["op"], request["id"]
    replies: dict[object, object] = {
        "echo": {"id": number, "ok": request},
        "refuse": {"id": number, "error": {"code": "NOT_LEADER_OR_FOLLOWER", "message": "elsewhere", "retriable": True}},
        "lack": {"id": number, "unsupported": "it has none of that"},
        "wrong-id": {"id": 0, "ok": {}},
        "no-object": [1],
        "neither": {"id": number},
    }
    return replies.get(op)


def main() -> None:
    mode = sys.argv[1] if len(sys.argv) > 1 else ""
    if mode == "silent":
        time.sleep(60)
    if mode == "missing":
        print(json.dumps({"missing": "its native part does not build"}), flush=True)
        sys.exit(3)
    first = {"stranger": {"hello": 1}, "missing": {"missing": "no binary for this machine"}}
    print(json.dumps(first.get(mode, {"ready": {"client": "fake", "version": "1.2"}})), flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        if request["op"] == "die":
            print("so be it", file=sys.stderr, flush=True)
            os._exit(3)
        if request["op"] == "garbage":
            print("what?", flush=True)
        elif request["op"] == "hang":
            time.sleep(60)
        else:
            print(json.dumps(answer(request)), flush=True)


if __name__ == "__main__":
    main()
