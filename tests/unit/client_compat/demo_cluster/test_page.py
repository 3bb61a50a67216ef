from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path

from client_compat.cluster_mixed.replicas import ReplicasVerdict
from client_compat.demo_cluster.acts import ACTS, FinishedAct
from client_compat.demo_cluster.judgement import Judged, Lost, promises
from client_compat.demo_cluster.page import LEFT, RIGHT, WIDTH, leaderless_s, picture, render
from client_compat.demo_cluster.record import Event, Kind, PartitionView, Recording, Sample, State
from client_compat.kafka.cluster import ALL_OTTLA, Cluster
from client_compat.support.load import Load
from client_compat.support.verdict import AckVerdict
from ottla.spark_jobs.checks import RULES
from ottla.spark_jobs.verdict import DirectoryVerdict, RuleResult, Verdict

ACT = ACTS[1]
VOID = {"meta", "link", "path", "line", "rect", "circle", "polyline", "br"}


def looked(at_ms: int, leader: int | None, mark: int, answered: int, dead: int | None = None) -> Sample:
    states = {node: State.DEAD if node == dead else State.SERVES for node in (1, 2, 3)}
    return Sample(at_ms, states, [PartitionView(leader, 0, (1, 2, 3), mark)], answered=(answered,))


def judged(tmp_path: Path, *, lost: int = 2) -> Judged:
    """Return the verdict on ten seconds: leader 1 dies after four, with `lost` records that it alone had acknowledged; 2 leads after
    seven."""
    recording = Recording(("aiokafka",))
    recording.samples = [looked(1_000, 1, 0, 0), looked(5_000, 1, 8, 10, 1), looked(8_000, 2, 8, 10, 1), looked(11_000, 2, 18, 20, 1)]
    recording.events = [Event(at, kind, 1, f"<{kind}>") for at, kind in ((5_000, Kind.KILL), (5_001, Kind.START), (9_000, Kind.PAUSE))]
    gone = [Lost("<a>", number, 0, 8 + number, 4_900, (1,), "other") for number in range(lost)]
    acks = AckVerdict(acked=20, in_log=18, lost=lost)
    played = FinishedAct(ACT, Cluster(tmp_path, ALL_OTTLA), Load("", ACT.key, tmp_path, 1), recording, acks, [2], [1], 10.0)
    verdict = Verdict([DirectoryVerdict("one", rules={rule.name: RuleResult() for rule in RULES})])
    return Judged(played, verdict, ReplicasVerdict(1, 5), [2_000] * 8 + [4_900] * 2 + [10_000] * 10, gone, lost)


def test_leader_bands_are_drawn_in_time_order_without_gaps(tmp_path: Path) -> None:
    drawn = picture(judged(tmp_path))
    first, dead, second, *_ = drawn.leaders[0]
    assert [(band.value, band.faint) for band in drawn.leaders[0]] == [(1, False), (1, True), (2, False)]
    assert (first.x, round(second.x + second.width, 1)) == (LEFT, WIDTH - RIGHT)
    assert (round(first.x + first.width, 1), round(dead.x + dead.width, 1)) == (round(dead.x, 1), round(second.x, 1))
    assert leaderless_s(judged(tmp_path)) == 3.0


def test_overlapping_event_marks_are_drawn_in_different_rows(tmp_path: Path) -> None:
    marks = picture(judged(tmp_path)).marks
    assert [(mark.number, mark.row) for mark in marks] == [(1, 0), (2, 1), (3, 0)]


def test_lost_bar_is_part_of_the_acknowledged_bar(tmp_path: Path) -> None:
    bars = picture(judged(tmp_path)).bars
    assert [(bool(bar.kept), bool(bar.lost)) for bar in bars] == [(True, False), (False, True), (True, False)]
    assert max(bar.kept + bar.lost for bar in bars) == 1.0
    assert "2 acknowledged, 2 of them lost" in bars[1].tooltip


def test_page_escapes_foreign_text_and_closes_every_element(tmp_path: Path) -> None:
    one = judged(tmp_path)
    text = render([one], promises(one, one, one))
    opened: list[str] = []

    class Page(HTMLParser):
        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            if tag not in VOID:
                opened.append(tag)

        def handle_endtag(self, tag: str) -> None:
            if tag not in VOID:
                assert opened.pop() == tag

    Page().feed(text)
    assert opened == []
    assert "&lt;SIGKILL&gt;" in text
    assert "&lt;a&gt; 0" in text
    assert "<a>" not in text


def test_loss_that_the_disks_do_not_show_breaks_the_promise(tmp_path: Path) -> None:
    safe, found, hidden = judged(tmp_path, lost=0), judged(tmp_path), judged(tmp_path)
    hidden.missing = 1
    kept = {promise.text: promise.kept for promise in promises(safe, found, hidden)}
    assert [promise for text, promise in kept.items() if text.startswith("acks=1:")] == [True, True]
    assert [promise for text, promise in kept.items() if text.startswith("unclean")] == [True, False, False]
    assert not promises(found, found, found)[0].kept
