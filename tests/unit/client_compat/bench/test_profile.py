from __future__ import annotations

from client_compat.bench.profile import Profile


def test_function_is_one_row_for_all_its_lines_and_counts_once_in_a_recursion() -> None:
    profile = Profile()
    profile.add("main (a.py:1);walk (b.py:2);walk (b.py:9) 3")
    profile.add("main (a.py:4);walk (b.py:5) 2")
    assert profile.samples == 5
    assert profile.own == {"walk (b.py)": 5}
    assert profile.within == {"main (a.py)": 5, "walk (b.py)": 5}


def test_imports_and_idle_workers_are_not_counted_as_load() -> None:
    profile = Profile()
    profile.add("main (a.py:1);_find_and_load (<frozen importlib._bootstrap>:1176);<module> (b.py:1) 7")
    profile.add("run (threading.py:982);_worker (concurrent/futures/thread.py:81) 7")
    profile.add("run (threading.py:982);_worker (concurrent/futures/thread.py:83);sync (files.py:3) 1")
    profile.add(" 5")
    assert profile.samples == 1, "a stack that could not be read is nobody's"
    assert profile.own == {"sync (files.py)": 1}
