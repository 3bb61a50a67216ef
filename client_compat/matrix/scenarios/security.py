"""Authentication: certificates, users, tokens, sessions that expire, and rejected clients.

Rules:
- An authenticated client uses a permission that only its user has, which proves its identity.
- The client's report of a rejection is recorded and has to be the same on Apache Kafka, except for generated names.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable

from client_compat.matrix.broker_security import CERTIFIED_USER, LIFETIME_MS, PLAIN_PASSWORD, PLAIN_USER, unsecured_token
from client_compat.matrix.control import ClientError
from client_compat.matrix.facades import Client, numbered
from client_compat.matrix.rights import Operation, Resource, Right
from client_compat.matrix.scenario import Run, ScenarioContext, expect, poll_until, same
from client_compat.matrix.scenario import scenario as any_scenario

COUNT = 20
PASSWORD = "s3cret; and more"
RENEWALS = 3
SECURED = frozenset({"java", "java-2.8", "aiokafka", "confluent-kafka", "kafka-python", "franz-go", "sarama", "kafkajs"})
"""The clients whose programs support certificates and users."""
CERTIFIED = SECURED - {"java-2.8"}
"""The clients whose programs can authenticate by certificate. java-2.8 cannot, because it requires a password for a PEM key file, and the
key here has none."""
OWN_TOKENS = frozenset({"java", "java-2.8"})
"""The clients that create their own unsigned OAUTHBEARER tokens."""


def scenario(promise: str, *, clients: frozenset[str] = SECURED, quick: bool = False) -> Callable[[Run], Run]:
    """Return a decorator that registers a function as a scenario on a secured broker, for the clients that support certificates and
    users."""
    return any_scenario(promise, secured=True, clients=clients, quick=quick)


def user(context: ScenarioContext) -> str:
    """Create a SCRAM user, and return the user's name."""
    name = context.name("user")
    context.rights.add_user(name, PASSWORD)
    return name


def protected_topic(context: ScenarioContext, name: str) -> str:
    """Create a topic that only the user `name` may read and write, in any group; return the topic's name."""
    topic = context.topic()
    context.rights.grant(Right(name, Operation.ALL, Resource.TOPIC, topic))
    context.rights.grant(Right(name, Operation.READ, Resource.GROUP, "*"))
    return topic


def _there_and_back(context: ScenarioContext, client: Client, topic: str) -> None:
    producer = client.producer()
    sent = producer.send_ok(topic, numbered(COUNT, partition=0))
    producer.close()
    expect(len(sent) == COUNT, f"{len(sent)} of {COUNT} sends came back")
    same(context.truth.values(topic), [record.value for record in numbered(COUNT)], "the log's values")
    consumer = client.consumer(reset="earliest")
    consumer.assign([(topic, 0)])
    taken = poll_until(consumer, COUNT)
    consumer.close()
    same([one.value for one in taken], [record.value for record in numbered(COUNT)], "the values that were read")


def _kept_out(context: ScenarioContext, client: Client) -> None:
    """Check that the client cannot connect, or that it finds no broker; record the error that the client reports."""
    try:
        brokers = client.connect()
    except ClientError as error:
        context.note(error)
        return
    expect(brokers == 0, f"it came in, and found {brokers} brokers")
    context.found.append("no error, and no broker")


@scenario("A producer writes and a consumer reads over TLS; the client checks the broker's certificate.", quick=True)
def tls(context: ScenarioContext) -> None:
    _there_and_back(context, context.at_listener("TLS"), context.topic())


@scenario("A client certificate authenticates a user, who has that user's permissions.", clients=CERTIFIED, quick=True)
def mutual_tls(context: ScenarioContext) -> None:
    _there_and_back(context, context.at_listener("CERTIFIED", certificate="client"), protected_topic(context, CERTIFIED_USER))


def _by_scram(context: ScenarioContext, mechanism: str) -> None:
    name = user(context)
    client = context.at_listener("LOGIN", mechanism=mechanism, user=name, password=PASSWORD)
    _there_and_back(context, client, protected_topic(context, name))


@scenario("A user authenticates by SCRAM-SHA-256 over TLS.")
def scram_sha_256(context: ScenarioContext) -> None:
    _by_scram(context, "SCRAM-SHA-256")


@scenario("A user authenticates by SCRAM-SHA-512 over TLS.", quick=True)
def scram_sha_512(context: ScenarioContext) -> None:
    _by_scram(context, "SCRAM-SHA-512")


@scenario("A user authenticates by PLAIN over TLS.")
def plain_over_tls(context: ScenarioContext) -> None:
    client = context.at_listener("LOGIN", mechanism="PLAIN", user=PLAIN_USER, password=PLAIN_PASSWORD)
    _there_and_back(context, client, protected_topic(context, PLAIN_USER))


@scenario("A user authenticates by an unsigned bearer token.")
def oauthbearer(context: ScenarioContext) -> None:
    name = context.name("user")
    _there_and_back(context, context.at_listener("LOGIN", mechanism="OAUTHBEARER", user=name), protected_topic(context, name))


@scenario(
    "A three-second session is renewed by re-authentication or a new connection under load: acknowledged records are stored in order."
)
def renewed_while_producing(context: ScenarioContext) -> None:
    name = user(context)
    topic = protected_topic(context, name)
    producer = context.at_listener("AGAIN", mechanism="SCRAM-SHA-256", user=name, password=PASSWORD).producer(acks="all")
    until = time.monotonic() + RENEWALS * LIFETIME_MS / 1_000
    acknowledged: list[bytes | None] = []
    errors = Counter[str]()
    while time.monotonic() < until:
        records = numbered(5, partition=0, start=len(acknowledged) + errors.total())
        for record, sent in zip(records, producer.send(topic, records, mode="sync"), strict=True):
            if sent.error is None:
                acknowledged.append(record.value)
            else:
                errors[sent.error.code] += 1
    producer.close()
    expect(len(acknowledged) > RENEWALS, f"{len(acknowledged)} records were acknowledged in {RENEWALS} lifetimes")
    stored = list(dict.fromkeys(context.truth.values(topic)))  # a client that was disconnected and retries may store a record twice
    known = set(acknowledged)
    same([value for value in stored if value in known], acknowledged, "what is stored of what was acknowledged")
    context.found.append(f"errors of records: {', '.join(sorted(errors)) or 'none'}")


@scenario("A client with a wrong password for SCRAM is rejected, with that error.", quick=True)
def wrong_password(context: ScenarioContext) -> None:
    _kept_out(context, context.at_listener("LOGIN", mechanism="SCRAM-SHA-256", user=user(context), password="nope"))


@scenario("A client with a wrong password for PLAIN is rejected, with that error.")
def wrong_password_by_plain(context: ScenarioContext) -> None:
    _kept_out(context, context.at_listener("LOGIN", mechanism="PLAIN", user=PLAIN_USER, password="nope"))


@scenario("An unknown user is rejected, with the same error as for a wrong password.")
def unknown_user(context: ScenarioContext) -> None:
    _kept_out(context, context.at_listener("LOGIN", mechanism="SCRAM-SHA-512", user="nobody", password=PASSWORD))


@scenario("A client with a mechanism that the listener does not offer is rejected.")
def mechanism_that_is_not_there(context: ScenarioContext) -> None:
    _kept_out(context, context.at_listener("AGAIN", mechanism="PLAIN", user=PLAIN_USER, password=PLAIN_PASSWORD))


@scenario("A client with an expired bearer token is rejected.", clients=SECURED - OWN_TOKENS)
def token_that_has_ended(context: ScenarioContext) -> None:
    client = context.at_listener("LOGIN", mechanism="OAUTHBEARER", user="late")
    assert client.security is not None
    _kept_out(context, Client(client.name, client.program, client.bootstrap, {**client.security, "token": unsecured_token("late", -60)}))


@scenario("A client rejects a broker with an expired certificate.")
def expired_certificate(context: ScenarioContext) -> None:
    _kept_out(context, context.at_listener("EXPIRED"))


@scenario("A client rejects a broker whose certificate is signed by an untrusted authority.", quick=True)
def wrong_authority(context: ScenarioContext) -> None:
    _kept_out(context, context.at_listener("TLS", ca="other-ca"))


@scenario("A client rejects a broker whose certificate is for another host.")
def wrong_host(context: ScenarioContext) -> None:
    _kept_out(context, context.at_listener("ELSEWHERE"))


@scenario("A listener that requires client certificates rejects a client without one.", quick=True)
def no_certificate(context: ScenarioContext) -> None:
    _kept_out(context, context.at_listener("CERTIFIED"))


@scenario("A client with an expired certificate is rejected.", clients=CERTIFIED)
def expired_certificate_of_a_client(context: ScenarioContext) -> None:
    _kept_out(context, context.at_listener("CERTIFIED", certificate="expired-client"))


@scenario("A client whose certificate is signed by an untrusted authority is rejected.", clients=CERTIFIED)
def certificate_of_a_stranger(context: ScenarioContext) -> None:
    _kept_out(context, context.at_listener("CERTIFIED", certificate="stranger"))


@scenario("A client without TLS cannot use a TLS listener.")
def plain_bytes_at_tls(context: ScenarioContext) -> None:
    _kept_out(context, context.at_listener("TLS", "PLAINTEXT"))


@scenario("A client with TLS cannot use a listener without TLS.")
def tls_at_a_plain_listener(context: ScenarioContext) -> None:
    client = context.at_listener("TLS")
    _kept_out(context, Client(client.name, client.program, context.broker.process.bootstrap, client.security))
