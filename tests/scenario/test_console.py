"""The console in a real browser, over brokers that handle real requests: what a user sees in each view.

All tests share one Chromium and one broker, and see what earlier tests left, so they check only their own topics and ids.
`make console-pictures` runs this file and stores the screenshots of docs/console.md.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator
from pathlib import Path
from time import time_ns
from typing import TYPE_CHECKING

import pytest

from ottla.broker.core.clock import MovableClock
from ottla.broker.groups.embedded_protocol import ConsumerProtocolAssignment, TopicPartition
from ottla.broker.testing.in_process_gateway import InProcessGateway
from ottla.protocol.client import Client
from ottla.protocol.messages.k44_incremental_alter_configs import AlterableConfig, AlterConfigsResource, IncrementalAlterConfigsRequest
from ottla.protocol.records.record import SimpleRecord, build_batch
from ottla.protocol.schema import encode_prefixed
from ottla.testing import InProcessCluster
from tests.support import share_group_calls, streams_group_calls
from tests.support.browser import CSS, browser
from tests.support.cluster_produce import produce_to
from tests.support.console import HOST, TOKEN, Console, running_console, served, served_gateway
from tests.support.console_page import LARGE, READABLE, SMALL, ConsolePage
from tests.support.group_calls import commit, find_coordinator, join, sync, wait_until
from tests.support.share_calls import ACCEPT, RELEASE, ShareMember, acknowledged, acquired, configure
from tests.support.streams_groups import topology
from tests.support.topic_calls import create, produce
from tests.support.transactions import fetch, produce_as
from tests.support.txn_calls import init

if TYPE_CHECKING:
    from selenium import webdriver

HOSTILE = b'<img src=x onerror="document.title=1"><script>document.title=1</script> \xe2\x80\xaelive'
PATHS = ("/topics/read/0", "/producers", "/transactions", "/groups/reader", "/wire", "/faults", "/cluster")
VIEWS = ("Topics", "Producers", "Transactions", "Groups", "Wire log", "Faults", "Cluster")


@pytest.fixture(scope="module")
def chromium() -> Iterator[webdriver.Chrome]:
    with browser() as found:
        yield found


@pytest.fixture(scope="module")
def console() -> Iterator[Console]:
    with running_console() as found:
        yield found


@pytest.fixture
def page(chromium: webdriver.Chrome, console: Console) -> ConsolePage:
    return ConsolePage(chromium, console)


def test_printed_url_opens_the_console_and_the_token_leaves_the_address_bar(chromium: webdriver.Chrome, console: Console) -> None:
    console.broker.topics.create("behind-the-token")
    with served(console.broker, MovableClock(), open_local=False) as closed:
        page = ConsolePage(chromium, closed)
        chromium.get(f"{closed.url}#token={TOKEN}")
        page.find("a", "behind-the-token")
        assert "token" not in chromium.current_url
        chromium.refresh()
        page.find("a", "behind-the-token")


def test_console_shows_new_records_as_they_arrive_and_never_as_html(page: ConsolePage, console: Console) -> None:
    console.broker.topics.create("orders", 2, {"message.timestamp.after.max.ms": str(2**63 - 1)})
    page.driver.get("about:blank")  # the page of the test before requests something every second
    page.driver.get_log("performance")
    page.open("/topics")
    page.find("a", "orders").click()
    page.find("table a", "1").click()
    page.wait_for("Nothing was written yet")
    with console.client() as client:
        produce(client, "orders", b'{"id": 17, "price": 1.10}', HOSTILE, partition=1, producer_id=41, base_sequence=0)
        page.wait_for("<script>document.title=1</script> ‹U+202E›live")
        assert [line.split()[0] for line in page.texts("tr.record")] == ["1", "0"]
        assert "41 epoch 0" in page.texts("tr.record")[0]
        produce(client, "orders", b"one more", partition=1)
        page.wait_for("one more")
    with console.client() as client:
        never = build_batch([SimpleRecord(None, b"never", 2**62)])
        assert produce_as(client, None, never, topic="orders", index=1).error_code == 0
    page.wait_for("beyond all dates")
    page.find("button.offset", "0").click()
    page.wait_for("producer 41, epoch 0, sequence 0")
    assert page.texts("pre") == ['{\n  "id": 17,\n  "price": 1.10\n}']
    assert page.driver.title == "orders-1 · Ottla console"
    assert page.driver.find_elements(CSS, "main img, main script") == []
    assert page.complaints() == []
    sent = [json.loads(entry["message"])["message"] for entry in page.driver.get_log("performance")]
    asked = {one["params"]["request"]["url"] for one in sent if one["method"] == "Network.requestWillBeSent"}
    assert {url for url in asked if not url.startswith(console.url)} == {"about:blank"} & asked


def test_console_switches_a_fault_on_with_the_token_and_shows_the_deduplicated_retry(page: ConsolePage, console: Console) -> None:
    console.broker.topics.create("shop")
    page.forget_token()
    page.open("/faults")
    page.find("button", "Lose the next acknowledgement of a write").click()
    page.wait_for("Every change requires it.")
    page.give_token("wrong")
    page.wait_for("That was not the admin port's token.")
    assert console.broker.faults.rules == []
    page.give_token(TOKEN)
    page.wait_for("drop-ack-1")
    write = {"producer_id": 42, "base_sequence": 0}
    with console.client("shop") as client, pytest.raises(ConnectionError):
        produce(client, "shop", b"book", **write)
    with console.client("shop") as client:
        assert produce(client, "shop", b"book", **write) == 0
        assert produce(client, "shop", b"pen", producer_id=42, base_sequence=1) == 1
    page.wait_for("retry absorbed")
    lost, absorbed = [next(line for line in page.texts("tr.record") if what in line) for what in ("answer lost", "retry absorbed")]
    assert "drop-ack-1" in lost
    assert "at offset 0 already" in absorbed
    page.picture("retry-requests", height=620)
    page.find('button[aria-label="Remove drop-ack-1"]').click()
    page.wait_for("None: every request is handled as it comes.")
    page.find("nav a", "Producers").click()
    page.wait_for("sequence 0 again, answered offset 0 as before")
    assert page.texts("li.again") == ["0\nat 0\n↺ 1"]
    page.pictures("retry", height=420)
    assert page.complaints(expected="401") == []


def test_console_forgets_a_rejected_token_but_keeps_a_newer_one(page: ConsolePage) -> None:
    page.forget_token()
    page.open("/faults")
    page.wait_for_view("faults")
    page.hold('options.method !== "GET" || options.headers.Authorization === "Bearer wrong"')
    page.find("button", "Stop the next transaction before its markers").click()
    page.give_token("wrong")
    page.wait_for_held("GET", "POST")
    page.release("POST")
    page.wait_for("That was not the admin port's token.")
    page.give_token(TOKEN)
    page.wait_for_held("GET", "POST")
    page.release("GET")
    page.find("#token", "Forget token")
    page.release("POST")
    page.find("button.danger", "Remove").click()
    page.wait_for_held("DELETE")
    page.release("DELETE")
    page.wait_for("None: every request is handled as it comes.")


def test_console_shows_a_long_value_by_the_newest_schema_if_an_earlier_response_arrives_late(page: ConsolePage, console: Console) -> None:
    fastavro = pytest.importorskip("fastavro", reason="the extra schemas is not installed: run `make setup`")
    console.broker.topics.create("late")
    schema = {"type": "record", "name": "Order", "fields": [{"name": "note", "type": "string"}]}
    written = io.BytesIO()
    fastavro.schemaless_writer(written, schema, {"note": "n" * 2_000})
    with console.client() as client:
        produce(client, "late", written.getvalue())
        page.open("/topics/late/0")
        page.find("button.offset", "0")
        page.hold('path.includes("value_bytes")')
        page.find("button.offset", "0").click()
        page.wait_for_held("GET")
        page.hold("false")
        page.find("summary", "Records in Avro or Protobuf? Add a schema").click()
        page.find("textarea").send_keys(json.dumps(schema))
        page.find("form[aria-label='Avro'] button").click()
        if not page.driver.execute_script("return sessionStorage.length"):
            page.give_token(TOKEN)
        page.until(lambda: page.texts("pre")[0].endswith('nnn"\n}'), "the whole of it by the schema")
        page.release("GET")
        produce(client, "late", b"")
        page.find("button.offset", "1")
    assert page.texts("pre")[0].endswith('nnn"\n}')


def test_console_decodes_avro_and_protobuf_records_by_a_schema_from_the_user(page: ConsolePage, console: Console, tmp_path: Path) -> None:
    fastavro = pytest.importorskip("fastavro", reason="the extra schemas is not installed: run `make setup`")
    pytest.importorskip("google.protobuf", reason="the same")
    console.broker.topics.create("avro")
    schema = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}, {"name": "note", "type": "string"}]}
    written = io.BytesIO()
    fastavro.schemaless_writer(written, schema, {"id": 7, "note": "n" * 2_000})
    with console.client() as client:
        produce(client, "avro", written.getvalue())
    page.forget_token()
    page.open("/topics/avro/0")
    page.find("button.offset", "0").click()
    page.until(lambda: len(page.texts("pre")[0]) > 2_000, "the whole of it")
    page.find("summary", "Records in Avro or Protobuf? Add a schema").click()
    page.find("textarea").send_keys("{}")
    page.find("form[aria-label='Avro'] button").click()
    page.give_token(TOKEN)
    page.wait_for("this is no Avro schema")
    page.find("textarea").clear()
    page.find("textarea").send_keys(json.dumps(schema))
    page.find("form[aria-label='Avro'] button").click()
    page.wait_for('{"id": 7, "note": "nnn')
    page.until(lambda: page.texts("pre")[0].endswith('nnn"\n}'), "the whole of it by the schema")
    written = tmp_path / "google.protobuf"
    written.write_bytes(file_that_describes_files())
    form = "form[aria-label='Protobuf']"
    page.find(f"{form} [name=descriptors]").send_keys(str(written))
    page.find(f"{form} [name=message]").send_keys("google.protobuf.FileDescriptorProto")
    with console.client() as client:
        produce(client, "avro", b"\x0a\x0ashop.proto")
    page.find(f"{form} button").click()
    page.wait_for('{"name": "shop.proto"}')


def test_console_names_a_hanging_transaction_which_ends_when_the_clock_advances(page: ConsolePage, console: Console) -> None:
    console.broker.topics.create("payments")
    with console.client("bank") as client:
        for name, commit_it in (("pay-1", True), ("pay-2", False), ("pay-3", None)):
            holder = init(client, name)
            holder.add(("payments", 0))
            records = holder_batch(holder.producer_id, holder.epoch, name.encode())
            assert produce_as(client, name, records, topic="payments", version=11).error_code == 0
            console.broker.clock.advance(8)
            if commit_it is not None:
                assert holder.end(commit=commit_it).error_code == 0
                console.broker.clock.advance(4)
    page.open("/transactions")
    page.find("section a", "payments-0").click()
    page.wait_for("Records of payments-0")
    chips = [line.rstrip().rsplit("\t", 1)[-1] for line in page.texts("tr.record")]
    assert chips == ["open pay-3"]
    page.driver.back()
    page.wait_for("Transactions that hold read_committed consumers back")
    (held,) = page.texts("[aria-label^='Partitions whose last stable'] tbody tr")
    assert "pay-3" in held
    assert "aborted in" in held
    assert {line.split()[1] for line in page.texts("[aria-label^='Transactional ids'] tbody tr")} == {"open", "committed", "aborted"}
    page.pictures("transaction", height=480)
    page.find("nav a", "Faults").click()
    page.find("button", "+1 min").click()
    page.wait_for("1 min 32 s ahead")
    page.find("nav a", "Transactions").click()
    page.wait_for("None: every last stable offset is at its high watermark.")


def test_console_shows_a_growing_consumer_lag(page: ConsolePage, console: Console) -> None:
    console.broker.topics.create("t", 2)
    with console.client("billing") as client:
        produce(client, "t", *(b"%d" % number for number in range(5)))
        produce(client, "t", b"0", partition=1)
        find_coordinator(client)
        joined, both = join(client), encode_prefixed(ConsumerProtocolAssignment([TopicPartition("t", [0, 1])]), 0)
        member_id, generation = joined.member_id, joined.generation_id
        assert sync(client, member_id, generation, {member_id: both}).error_code == 0
        for partition, offset in enumerate((5, 1)):
            assert commit(client, offset, partition=partition, member_id=member_id, generation_id_or_member_epoch=generation) == 0
        page.open("/groups")
        page.find(".list a", "g").click()
        page.wait_for("Members")
        assert "no lag" in page.text
        produce(client, "t", *(b"%d" % number for number in range(30)))
        produce(client, "t", *(b"%d" % number for number in range(12)), partition=1)
        lags = [["t-0", "5", "35", "30"], ["t-1", "1", "13", "12"]]
        page.until(lambda: [line.split()[:4] for line in page.texts("[aria-label='Partitions of g'] tbody tr")] == lags, "both lags")
        page.wait_for("lag 42")
        page.pictures("lag", height=420)


def test_a_share_groups_deliveries_are_seen_until_each_record_is_accepted(page: ConsolePage, console: Console) -> None:
    console.broker.topics.create("jobs")
    with console.client("worker") as client:
        settings = {"share__assignment__interval__ms": "0", "share__record__lock__duration__ms": "60000"}
        configure(client, "workers", share__auto__offset__reset="earliest", **settings)
        find_coordinator(client, "workers")
        epoch = share_group_calls.beat(client, group_id="workers", subscribed_topic_names=["jobs"]).member_epoch
        page.open("/groups/workers")
        page.wait_for("share group")
        wait_until(lambda: bool(console.read("group", name="workers")["shared"]), "the share partition is initialized")
        produce(client, "jobs", b"1", b"2", b"3")
        member = ShareMember(client, "m", "jobs", group_id="workers")
        assert acquired(member.fetch()) == [(0, 2, 1)]
        assert acknowledged(member.acknowledge((0, 0, [RELEASE]), (1, 1, [ACCEPT]))) == [0]
        page.wait_for("acknowledged")
        rows = [line.split()[:5] for line in page.texts("[aria-label='Deliveries of workers'] tbody tr")]
        assert rows == [
            ["jobs-0", "0", "available", "1×", "nobody"],
            ["jobs-0", "1", "acknowledged", "1×", "nobody"],
            ["jobs-0", "2", "acquired", "1×", "1"],
        ]
        assert page.texts("[aria-label='Partitions of workers'] tbody tr")[0].split() == ["jobs-0", "0", "3", "2", "1", "1", "1", "0", "0"]
        page.pictures("deliveries", height=620)
        assert acknowledged(member.acknowledge((2, 2, [ACCEPT]))) == [0]
        assert acquired(member.fetch()) == [(0, 0, 2)]
        assert acknowledged(member.acknowledge((0, 0, [ACCEPT]))) == [0]
        page.wait_for("No record is in flight.")
        assert share_group_calls.beat(client, epoch=-1, group_id="workers").error_code == 0, epoch


def test_console_shows_the_tasks_of_a_streams_group(page: ConsolePage, console: Console) -> None:
    console.broker.topics.create("words", 2)
    with console.client("counter") as client:
        configure(client, "count", streams__initial__rebalance__delay__ms="0", streams__assignment__interval__ms="0")
        find_coordinator(client, "count")
        assert streams_group_calls.beat(client, group_id="count", topology=topology(["words"])).error_code == 0
        page.open("/groups/count")
        page.wait_for("streams group")
        tasks = ["active", "0_0", "0_1"]
        page.until(lambda: [line.split()[-3:] for line in page.texts("[aria-label='Members of count'] tbody tr")] == [tasks], "its tasks")


def test_console_shows_requests_as_they_pass_and_their_fields_without_secrets(page: ConsolePage, console: Console) -> None:
    page.open("/wire")
    page.wait_for_view("wire")
    with console.client("shop\u202efed") as client:
        create(client, "watched")
        produce(client, "watched", b"confidential")
        fetch(client, "watched", index=5)
        page.wait_for("watched-5")
        newest, written, created = [line.split("\t") for line in page.texts("tr.record")[:3]]
        assert (newest[1].split()[0], newest[2].strip(), newest[3]) == ("Fetch", "UNKNOWN_TOPIC_OR_PARTITION", "watched-5")
        assert (created[1].split()[0], created[2].strip(), created[3]) == ("CreateTopics", "answered", "watched")
        assert (written[1].split()[0], written[3]) == ("Produce", "watched-0")
        assert re.fullmatch(r"\d+ B → \d+ B", written[4])
        assert re.fullmatch(r"\d+\.\d ms", written[5])
        assert written[6].startswith("shop‹U+202E›fed #")
        page.find("tr.record:nth-child(2) button.offset").click()
        page.wait_for('"acks": -1')
        assert '"records": "' in page.text
        assert "confidential" not in page.text
        page.find("button", "Pause").click()
        page.wait_for("paused")
        setting = AlterableConfig("ssl.key.password", value="correct horse")
        client.call(IncrementalAlterConfigsRequest([AlterConfigsResource(4, "1", [setting])]))
        wait_until(lambda: bool(console.read("wire", api="IncrementalAlterConfigs")["lines"]), "the request is logged")
        assert "IncrementalAlterConfigs" not in page.texts("tbody")[0]
        page.find("button", "Follow").click()
        page.until(lambda: "IncrementalAlterConfigs" in page.texts("tbody")[0], "the line that passed meanwhile")
        page.find("tr.record:first-child button.offset").click()
        page.wait_for('"value": "***"')
        assert "correct horse" not in page.text
    assert page.complaints() == []


def test_wire_log_filters_select_past_and_future_lines(page: ConsolePage, console: Console) -> None:
    page.open("/wire")
    page.wait_for_view("wire")
    with console.client("chosen") as client:
        create(client, "filtered")
        fetch(client, "filtered", index=5)
        page.wait_for("filtered-5")
        page.find("[name=topic]").send_keys("filt*\n")
        page.find("[name=errors]").click()
        page.until(lambda: [line.split("\t")[3] for line in page.texts("tr.record")] == ["filtered-5"], "the line with an error")
        fetch(client, "filtered", index=0)
        fetch(client, "filtered", index=6)
        page.wait_for("filtered-6")
        assert [line.split("\t")[3] for line in page.texts("tr.record")] == ["filtered-6", "filtered-5"]
    page.find("[name=slower_than]").send_keys("3600000\n")
    page.wait_for("No such request has passed since")
    assert page.complaints() == []


def test_gateways_console_shows_passing_requests_and_loads_faults(chromium: webdriver.Chrome, console: Console) -> None:
    with InProcessGateway(f"{HOST}:{console.broker.port}") as gateway, served_gateway(gateway) as served_page:
        page = ConsolePage(chromium, served_page)
        chromium.get("about:blank")
        page.complaints()
        chromium.get(f"{served_page.url}#token={TOKEN}")
        page.wait_for("No such request has passed since")
        assert page.texts("nav a") == ["Wire log", "Faults"]
        assert f"gateway · {gateway.bootstrap}" in page.text
        page.find("nav a", "Faults").click()
        page.find("button", "Lose the next acknowledgement of a write").click()
        page.wait_for("drop-ack-1")
        assert "Stop the next transaction before its markers" not in page.text
        page.find("section a", "The wire log").click()
        page.wait_for_view("wire")
        with Client(HOST, gateway.port, client_id="shop") as client:
            create(client, "sales")
            with pytest.raises(ConnectionError):
                produce(client, "sales", b"one")
        with Client(HOST, gateway.port, client_id="billing") as client:
            assert len(fetch(client, "sales").records) > 0
            fetch(client, "sales", index=5)
            find_coordinator(client, "billing")
            assert commit(client, 1, topic="sales", group_id="billing") == 0
        page.wait_for("group billing; sales-0")
        assert "answer lost drop-ack-1" in next(line for line in page.texts("tr.record") if "Produce" in line)
        page.find("tr.record button.offset").click()
        page.wait_for('"generation_id_or_member_epoch": -1')
        page.picture("wire-light", height=840)
        assert page.complaints() == []


def test_console_is_usable_by_keyboard_alone(page: ConsolePage, console: Console) -> None:
    from selenium.webdriver.common.keys import Keys

    console.broker.topics.create("a-first-one")
    with console.client() as client:
        produce(client, "a-first-one", b"one more")
    page.open("/topics/a-first-one/0")
    page.wait_for("one more")
    reached = []
    for _ in range(40):
        page.press(Keys.TAB)
        reached.append(page.focused())
        if page.driver.execute_script("return document.activeElement.matches('button.offset')"):
            break
    assert reached[0] == "Skip to the content"
    assert tuple(reached[1 : len(VIEWS) + 1]) == VIEWS
    page.press(Keys.ENTER)
    page.wait_for("written without idempotence")
    assert page.driver.execute_script("return document.activeElement.getAttribute('aria-expanded')") == "true"
    page.open("/topics")
    page.press(Keys.TAB)
    page.press(Keys.ENTER)
    assert page.driver.execute_script("return document.activeElement.id") == "main"


def test_console_text_is_readable_in_light_and_dark_and_only_tables_scroll_on_a_small_screen(page: ConsolePage, console: Console) -> None:
    console.broker.topics.create("read")
    with console.client() as client:
        produce(client, "read", b'{"a": 1}', producer_id=43, base_sequence=0)
        find_coordinator(client)
        assert commit(client, 0, topic="read", group_id="reader") == 0
    for path in PATHS:
        page.open(path)
        page.wait_for_view(path.split("/")[1])
        for width, dark in ((LARGE, False), (LARGE, True), (SMALL, False)):
            page.look(width=width, dark=dark)
            found = page.contrasts()
            assert len(found) > 12, path
            assert [each for each in found if each[0] < READABLE] == [], (path, dark)
            assert page.driver.execute_script("return document.documentElement.scrollWidth") <= width, (path, width)
    assert page.complaints() == []


def test_console_shows_a_killed_leader_and_its_successor(chromium: webdriver.Chrome) -> None:
    with InProcessCluster(brokers=3) as cluster:
        cluster.topics.create("orders", 3)
        killed = cluster.wait_until_led("orders")
        shown_broker = next(number for number in cluster.brokers if number != killed)
        assert produce_to(cluster.brokers[killed], b"one", "orders").error_code == 0
        with served(cluster.brokers[shown_broker], cluster.brokers[shown_broker].movable_clock) as console:
            page = ConsolePage(chromium, console)
            page.open("/cluster")
            page.wait_for("every partition has a leader")
            assert [line.split()[:2] for line in page.texts("[aria-label='Brokers'] tbody tr")][killed - 1] == [str(killed), "serving"]
            cluster.kill(killed)
            cluster.fence(killed)
            leader = cluster.wait_until_led("orders")
            page.wait_for(f"is led by {leader} after {killed}")
            page.wait_for("was fenced: its heartbeats stopped")
            page.until(lambda: page.texts("[aria-label='Brokers'] tbody tr .chip.bad") == ["fenced"], "one broker is fenced")
            page.pictures("leader-killed", height=760)
            page.open("/topics/orders/0")
            page.wait_for(f"without {killed}")
            cluster.restart(killed)
            for name in ("elsewhere-1", "elsewhere-2", "elsewhere-3"):
                cluster.topics.create(name, replicas=1)
            absent = next(name for name in ("elsewhere-1", "elsewhere-2", "elsewhere-3") if cluster.wait_until_led(name) != shown_broker)
            page.open(f"/topics/{absent}/0")
            page.wait_for(f"This broker has no replica of {absent}-0: its records are shown by the console of broker")
            page.find(".list input[type=search]").send_keys(absent)
            page.until(lambda: len(page.texts(".list li")) == 1, "one topic")
            page.find("nav a", "Cluster").click()
            page.wait_for_view("Cluster")
            page.find("nav a", "Topics").click()
            page.wait_for_view("Topics")
            assert page.driver.execute_script("return document.querySelector('.list input').value") == absent
            page.open("/topics/nowhere/%")
            page.wait_for("There is no such topic.")


def test_console_asks_for_the_token_from_another_host_before_it_shows_anything(page: ConsolePage, console: Console) -> None:
    console.broker.topics.create("shown-to-few")
    page.forget_token()
    page.open("/topics", host="another.localhost")
    page.wait_for("answers nothing without it")
    assert "shown-to-few" not in page.text
    page.give_token(TOKEN)
    page.wait_for("shown-to-few")


def file_that_describes_files() -> bytes:
    """Return a FileDescriptorSet that describes the messages of such sets."""
    from google.protobuf import descriptor_pb2

    files = descriptor_pb2.FileDescriptorSet()
    descriptor_pb2.DESCRIPTOR.CopyToProto(files.file.add())
    return files.SerializeToString()


def holder_batch(producer_id: int, epoch: int, value: bytes) -> bytes:
    """Make a transaction's first batch."""
    records = [SimpleRecord(b"account-7", value, time_ns() // 1_000_000)]
    return build_batch(records, producer_id=producer_id, producer_epoch=epoch, base_sequence=0, transactional=True)
