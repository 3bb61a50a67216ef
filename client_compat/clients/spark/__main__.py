"""Run Spark's Kafka connector as a client program of the compatibility matrix; requests arrive on standard input, as specified in
CONTROL.md.

The JVM inherits standard output, so answers go to a duplicate of it, and Spark's output goes to standard error.
"""

from __future__ import annotations

import asyncio
import os
import sys

from client_compat.clients.control import Program


def main() -> None:
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    # Imported and started only after the redirection, so that Spark cannot write to standard output.
    from client_compat.clients.spark.connector import Admin, Consumer, Producer, failure  # noqa: PLC0415 -- see above
    from client_compat.clients.spark.session import connector_version, session  # noqa: PLC0415 -- see above

    spark = session()
    try:
        program = Program(
            "spark",
            f"{spark.version} (connector {connector_version()})",
            lambda request: Producer(spark, request),
            lambda request: Consumer(spark, request),
            lambda bootstrap: Admin(),
            failure,
        )
        asyncio.run(program.run(sys.stdin, answers))
    finally:
        spark.stop()


if __name__ == "__main__":
    main()
