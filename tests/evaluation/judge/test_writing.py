"""What is asked, of a small session and of the recorded ones."""

import re
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from foldline.evaluation.judge.answers import Absent, Ground, Place, Probe, Text, leaks
from foldline.evaluation.judge.material import Material, everything
from foldline.evaluation.judge.questions import QUOTAS, write_probes
from foldline.evaluation.replay import recorded_messages
from foldline.formats import read_foreign
from foldline.protocol import BaseMessage
from support.history import History, call, history, modified, read
from support.recorded import needs_recorded, recorded


def probes(session: History, position: int | None = None) -> tuple[Probe, ...]:
    messages = [entry for entry in session.entries if isinstance(entry, BaseMessage)]
    return write_probes(Material(messages), session.last if position is None else position, seed="1")


def of_kind(kind: str, session: History, position: int | None = None) -> list[Probe]:
    return [probe for probe in probes(session, position) if probe.kind == kind]


def edited(session: History, path: str, old: str, new: str, *, fails: bool = False) -> History:
    session.assistant(calls=[call("edit", path=path, old=old, new=new)])
    return session.result("failed" if fails else "ok", error=fails, files=() if fails else (modified(path),))


# -- superseded ------------------------------------------------------------------------------------


def test_the_newest_value_of_a_setting_is_asked_for_and_the_older_ones_are_stale() -> None:
    session = history().user("Tune the network.")
    edited(session, "conf/net.toml", "request_timeout = 30", "request_timeout = 45")
    edited(session, "conf/net.toml", "request_timeout = 45", "request_timeout = 75")
    [probe] = of_kind("superseded", session)
    assert probe.truth == Text("75", ("30", "45"))
    assert "request_timeout = ____" in probe.question


def test_a_failed_edit_changed_nothing() -> None:
    session = history().user("Tune the network.")
    edited(session, "conf/net.toml", "request_timeout = 30", "request_timeout = 45")
    edited(session, "conf/net.toml", "request_timeout = 45", "request_timeout = 75", fails=True)
    [probe] = of_kind("superseded", session)
    assert probe.truth == Text("45", ("30",))


def test_a_line_that_was_taken_away_later_is_not_asked_for() -> None:
    session = history().user("Tune the network.")
    edited(session, "conf/net.toml", "request_timeout = 30", "request_timeout = 45")
    edited(session, "conf/net.toml", "request_timeout = 45\nretries = 3", "retries = 3")
    assert of_kind("superseded", session) == []


def test_a_file_that_was_written_anew_keeps_only_what_it_holds_now() -> None:
    session = history().user("Tune the network.")
    edited(session, "conf/net.toml", "request_timeout = 30", "request_timeout = 45")
    session.step("write", "ok", files=(modified("conf/net.toml"),), path="conf/net.toml", content="x = 1")
    assert of_kind("superseded", session) == []


def test_a_point_knows_nothing_of_what_came_after_it() -> None:
    session = history().user("Tune the network.")
    edited(session, "conf/net.toml", "request_timeout = 30", "request_timeout = 45")
    before = session.last
    edited(session, "conf/net.toml", "request_timeout = 45", "request_timeout = 75")
    [probe] = of_kind("superseded", session, before)
    assert probe.truth == Text("45", ("30",))


PATCH = """*** Begin Patch
*** Update File: conf/net.toml
@@
-request_timeout = 30
+request_timeout = 45
"""
OLD, NEW = "request_timeout = 30", "request_timeout = 45"


@pytest.mark.parametrize(
    "arguments",
    [
        {"file_path": "conf/net.toml", "old_string": OLD, "new_string": NEW},
        {"path": "conf/net.toml", "edits": [{"oldText": OLD, "newText": NEW}]},
        {"input": PATCH},
    ],
    ids=["old_string", "edits", "patch"],
)
def test_edits_of_other_agents_are_understood_too(arguments: dict[str, object]) -> None:
    session = history().user("Tune the network.").assistant(calls=[call("edit", **arguments)])
    session.result("ok", files=(modified("conf/net.toml"),))
    [probe] = of_kind("superseded", session)
    assert probe.truth == Text("45", ("30",))


# -- the other kinds -------------------------------------------------------------------------------


def test_a_gap_that_two_sentences_fill_differently_is_not_asked_about() -> None:
    session = history().user("Rename the helpers of the store, one by one.")
    session.assistant("The helper that loads the cart is now called `load_cart_items` there.")
    assert len([probe for probe in of_kind("recall", session) if "____" in probe.question]) == 1
    session.user("Go on.").assistant("The helper that loads the cart is now called `fetch_cart_items` there.")
    assert [probe for probe in of_kind("recall", session) if "____" in probe.question] == []


def test_made_up_names_look_like_real_ones_and_are_asked_for_in_the_same_words() -> None:
    session = history().user("Look around.")
    for path in ("shop/net/upload_client.py", "shop/net/backoff_policy.py", "shop/api/order_queue.py"):
        session.step("read", "text", files=(read(path),), path=path)
    absent = of_kind("absent", session)
    assert absent
    for probe in absent:
        assert isinstance(probe.truth, Absent)
        assert re.fullmatch(r"[a-z]+_[a-z]+\.py", probe.truth.name)
        real = [each.question for each in of_kind("recall", session)]
        assert any(
            re.sub(r"`.*?`", "", probe.question) == re.sub(r"`.*?`", "", question) for question in real
        )


def test_decisions_are_held_against_what_was_said_then() -> None:
    choice = "I retry in the client instead of the caller, because two callers need it."
    session = history().turn("Please give the upload a retry.", choice).user("Go on.")
    [probe] = of_kind("decision", session)
    assert probe.truth == Ground((choice,))
    assert "Please give the upload a retry." in probe.question


def test_a_session_that_offers_nothing_is_asked_nothing_false() -> None:
    assert probes(history().user("hi")) == ()
    assert probes(history().system("You help.")) == ()
    assert Material([]).count(5) == 0


def test_what_the_newest_request_says_is_not_asked_for() -> None:
    session = history().user("The helper that loads the cart is to be called `load_cart_items` from now on.")
    assert of_kind("recall", session) == []
    session.user("Go on.")
    assert [probe.truth for probe in of_kind("recall", session)] == [Text("load_cart_items")]


def test_texts_that_look_like_places_of_a_prompt_stay_as_they_are() -> None:
    session = history().user("Write {question} and {refusal} into `mail_templates` of it.").user("Go.")
    [probe] = of_kind("recall", session)
    assert "{question}" in probe.question


# -- the recorded sessions -------------------------------------------------------------------------

FILES = recorded("pi")
each_recorded = pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)


@cache
def messages_of(path: Path) -> tuple[BaseMessage, ...]:
    return recorded_messages(read_foreign(path).entries)


@cache
def recorded_probes(path: Path) -> tuple[Probe, ...]:
    messages = messages_of(path)
    offered = Material(messages)
    places = [messages[len(messages) * tenths // 10].index for tenths in (4, 7, 9)]
    return tuple(probe for place in places for probe in write_probes(offered, place, seed="1"))


@needs_recorded
@each_recorded
def test_no_recorded_question_holds_its_answer(path: Path) -> None:
    known = [probe for probe in recorded_probes(path) if isinstance(probe.truth, Text | Place)]
    assert known
    assert [probe for probe in known if leaks(probe.question, probe.truth)] == []


@needs_recorded
@each_recorded
def test_recorded_sessions_are_asked_the_same_again(path: Path) -> None:
    messages = messages_of(path)
    again = write_probes(Material(list(messages)), messages[len(messages) * 4 // 10].index, seed="1")
    assert recorded_probes(path)[: len(again)] == again


@needs_recorded
@each_recorded
def test_made_up_names_stand_nowhere_in_a_recorded_session(path: Path) -> None:
    messages = messages_of(path)
    place = len(messages) * 7 // 10
    asked = write_probes(Material(messages), messages[place].index, seed="1")
    text = "\n".join(map(everything, messages[: place + 1])).casefold()
    made_up = [probe.truth.name for probe in asked if isinstance(probe.truth, Absent)]
    assert made_up
    assert [name for name in made_up if name.casefold() in text] == []


@needs_recorded
@pytest.mark.parametrize(
    ("agent", "name"), [("claude-code", "entire-2auto-opus45"), ("pi", "pimono-v1-large")]
)
def test_long_recorded_sessions_give_every_kind_of_probe_its_number(agent: str, name: str) -> None:
    path = next(path for path in recorded(agent) if path.stem == name)
    counts = Counter(probe.kind for probe in recorded_probes(path))
    assert counts == {kind: 3 * number for kind, number in QUOTAS.items()}


@needs_recorded
@each_recorded
def test_recorded_places_are_those_of_the_session(path: Path) -> None:
    text = "\n".join(map(everything, messages_of(path)))
    named = [probe.truth.path for probe in recorded_probes(path) if isinstance(probe.truth, Place)]
    assert named
    assert [place for place in named if place.rsplit("/", 1)[-1] not in text] == []
