"""librdkafka's share consumer as a process that answers commands, as `client_compat/kafka/ShareMember.java` does, but it cannot renew
acquisition locks.

Run with bootstrap servers, group, topic, acknowledgement mode, and further settings as name=value.
"""

from __future__ import annotations

import sys

from confluent_kafka import AcknowledgeType, KafkaException, Message, ShareConsumer

POLL_S = 20.0


class Member:
    """A share consumer, and the records that it has received and may still acknowledge."""

    def __init__(self, consumer: ShareConsumer) -> None:
        self._consumer = consumer
        self._held: list[Message] = []

    def answer(self, command: str, *words: str) -> str:
        """Execute a command and return the response line. `poll` returns records, `commit` sends acknowledgements; any other command is an
        acknowledgement type for the records with the offsets in `words`. Raises KafkaException for an error of the client."""
        match command:
            case "poll":
                return self._poll(float(words[0]) / 1000 if words else POLL_S)
            case "commit":
                found = self._consumer.commit_sync().values()
                return " ".join("ok" if error is None else _name(error) for error in found) or "nothing"
        for message in self._held:
            if str(message.offset()) in words:
                self._consumer.acknowledge(message, AcknowledgeType[command.upper()])
        return "done"

    def _poll(self, wait_s: float) -> str:
        found = []
        for message in self._consumer.poll(wait_s):
            if (error := message.error()) is not None:
                raise KafkaException(error)
            self._held.append(message)
            found.append(f"{message.offset()}:{(message.value() or b'').decode()}:{message.delivery_count()}")
        return " ".join(found) or "nothing"


def _name(error: KafkaException) -> str:
    return str(error.args[0].name())


def main(bootstrap: str, group: str, topic: str, mode: str, *settings: str) -> None:
    """Respond to commands from standard input until it ends or the command is "close"."""
    given = dict(setting.split("=", 1) for setting in settings)
    with ShareConsumer({"bootstrap.servers": bootstrap, "group.id": group, "share.acknowledgement.mode": mode, **given}) as consumer:
        consumer.subscribe([topic])
        member = Member(consumer)
        for line in map(str.split, sys.stdin):
            if line == ["close"]:
                break
            try:
                print(member.answer(*line), flush=True)
            except KafkaException as error:
                print(_name(error), flush=True)
    print("closed", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
