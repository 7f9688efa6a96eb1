"""A message made short: what matters stays, from its own words."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foldline.compaction.turns import BREVITIES, gist, shortened
from foldline.context.conversation import serialise
from foldline.protocol import BaseMessage
from support.history import History, call, history, modified

LINE = "what the command said, line after line: all is well\n"


def short(built: History, level: int = 0) -> str:
    """All messages, as short as a level of brevity and the ones before make them."""
    messages = [entry for entry in built.entries if isinstance(entry, BaseMessage)]
    for brevity in BREVITIES[: level + 1]:
        messages = [shortened(message, brevity) for message in messages]
    return serialise(messages)


def test_a_short_message_stays_as_it_is() -> None:
    built = history().user("fix it").step("read", "a line", path="a.py").assistant("done")
    assert short(built) == serialise([entry for entry in built.entries if isinstance(entry, BaseMessage)])


def test_thinking_goes() -> None:
    assert "secret" not in short(history().user("x").assistant("y", thinking="a secret thought"))


@pytest.mark.parametrize("level", range(len(BREVITIES)))
def test_an_error_in_the_middle_of_a_long_result_stays(level: int) -> None:
    built = history().user("test it")
    built.step(
        "bash", LINE * 500 + "E   AssertionError: expected 200, got 503\n" + LINE * 500, command="pytest"
    )
    text = short(built, level)
    assert "expected 200, got 503" in text
    assert len(text) < 2_000


@pytest.mark.parametrize("level", range(len(BREVITIES)))
def test_what_a_user_demands_within_a_long_paste_stays(level: int) -> None:
    built = history().user(LINE * 200 + "Never touch schema.sql!\n" + LINE * 200)
    assert "Never touch schema.sql!" in short(built, level)


@pytest.mark.parametrize("level", range(len(BREVITIES)))
def test_every_file_a_call_names_stays_however_deep_it_stands(level: int) -> None:
    patch = "".join(f"*** Update File: src/patched{nth}.py\n{LINE * 20}" for nth in range(60))
    edits = [{"file_path": f"src/edited{nth}.py", "new": LINE * 20} for nth in range(60)]
    broken = '{"path": "src/half.py", "content": "' + LINE * 40
    built = history().user("do it")
    built.assistant(calls=[call("apply_patch", input=patch), call("edit_all", edits=edits)])
    built.assistant(calls=[call("write").model_copy(update={"arguments": broken})])
    built.result("ok", files=[modified("gen/made.py")])
    text = short(built, level)
    for nth in range(60):
        assert f"src/patched{nth}.py" in text
        assert f"src/edited{nth}.py" in text
    assert "gen/made.py" in text
    assert "src/half.py" in text


def test_each_brevity_is_shorter_than_the_one_before() -> None:
    built = history().user(LINE * 100).assistant(LINE * 100).step("bash", LINE * 100, command=LINE * 20)
    lengths = [len(short(built, level)) for level in range(len(BREVITIES))]
    assert lengths == sorted(set(lengths), reverse=True)


@given(st.text(max_size=3_000), st.integers(30, 900), st.lists(st.text(max_size=200), max_size=4))
def test_a_gist_keeps_to_its_length(text: str, limit: int, matters: list[str]) -> None:
    assert len(gist(text, limit, matters)) <= max(limit + 12, len(text) if len(text) <= limit else 0)
