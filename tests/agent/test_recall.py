"""`history_search` and `history_read`: what was compacted can be fetched again, exactly."""

import asyncio
import json
import re
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from foldline.agent import Agent
from foldline.agent.tools import Tool, ToolContext, ToolOutcome, default_tools
from foldline.agent.tools.base import BEYOND_END
from foldline.agent.tools.history import (
    MORE_ENTRIES,
    NO_COMMON_ENTRY,
    NO_ENTRY,
    NO_MESSAGE,
    recall_tools,
)
from foldline.history import EntrySearch, SearchResult, Session
from foldline.protocol import (
    Compaction,
    SessionHeader,
    ToolCallPart,
    ToolResultMessage,
    UserMessage,
    operations,
)
from foldline.view.items import is_hidden_placeholder
from foldline.view.tokens import estimate_tokens
from support.agents import PlayedLLM, agent_in, tool_reply, write_lines
from support.history import IMAGE, History, call, history
from support.messages import tool_results


async def recall(
    session: Session, name: str, folder: Path, /, room: int = 5_000, **arguments: Any
) -> ToolOutcome:
    [tool] = [tool for tool in recall_tools(session) if tool.spec.name == name]
    context = ToolContext(
        folder, lambda _: None, max_tokens=room, spill_dir=folder / "outputs"
    )
    return await tool.run(arguments, context)


def session_of(built: History) -> Session:
    header = SessionHeader.model_validate(
        {"id": "s", "created_at": "2026-01-01T00:00:00Z", "cwd": "/x"}
    )
    return Session.from_entries(header, built.entries)


async def compacted(tmp_path: Path) -> tuple[Agent, ToolResultMessage]:
    """An agent that read a file and compacted it away; the result as it was."""
    write_lines(tmp_path / "a.txt", 300, 'row {n} 的内容 has "quotes" and\ttabs')
    llm = PlayedLLM(tool_reply(("read", {"path": "a.txt"})), *["fine"] * 3)
    agent, _ = agent_in(tmp_path, llm)
    for text in ("read a.txt", "what else? " * 400, "and then? " * 400):
        await agent.prompt(text)
    await agent.compact()
    [result] = tool_results(agent.session.entries)
    assert agent.session.projection.fate(result.index).kind == "summarised"
    return agent, result


@pytest.mark.parametrize("tools", [default_tools(), None])
async def test_what_is_hidden_names_history_read_only_to_a_model_that_has_it(
    tmp_path: Path, tools: list[Tool] | None
) -> None:
    write_lines(tmp_path / "a.txt", 60)
    reads = [
        tool_reply(("read", {"path": "a.txt"}), stem=f"read{nth}-") for nth in range(9)
    ]
    agent, _ = agent_in(tmp_path, PlayedLLM(*reads), tools=tools, compaction="hide")
    await agent.prompt("read it, again and again")
    await agent.compact()
    hidden = [item for item in agent.session.projection.view if item.fate == "hidden"]
    assert hidden and all(is_hidden_placeholder(item.message.text) for item in hidden)
    assert all(
        ("history_read(" in item.message.text) == (tools is None) for item in hidden
    )
    await agent.aclose()


@pytest.mark.parametrize("tools", [default_tools(), None])
async def test_what_is_hidden_by_hand_names_it_only_to_such_a_model_too(
    tmp_path: Path, tools: list[Tool] | None
) -> None:
    write_lines(tmp_path / "a.txt", 60)
    read = tool_reply(("read", {"path": "a.txt"}))
    agent, _ = agent_in(tmp_path, PlayedLLM(read), tools=tools)
    await agent.prompt("read it")
    [result] = tool_results(agent.session.entries)
    hide = operations.EditView(target=result.index, action="hide")
    await agent.executor.wait_for(agent.executor.submit(hide))
    [hidden] = [item for item in agent.session.projection.view if item.fate == "hidden"]
    assert ("history_read(" in hidden.message.text) == (tools is None)
    assert is_hidden_placeholder(hidden.message.text) and hidden.message.text.endswith(
        "]"
    )
    await agent.aclose()


async def test_a_compacted_result_is_found_and_read_back_exactly(
    tmp_path: Path,
) -> None:
    agent, result = await compacted(tmp_path)
    found = await recall(
        agent.session, "history_search", tmp_path, query="ROW 150 的内容"
    )
    compaction = agent.session.projection.fate(result.index).by
    assert found.text.startswith(
        f"{result.index} (tool_result of read, line 151, summarised by {compaction}): "
    )
    assert "row 150 的内容 has" in found.text
    assert found.brief == "1 match"
    again = await recall(
        agent.session, "history_read", tmp_path, room=10_000, index=result.index
    )
    assert again.text == result.text == (tmp_path / "a.txt").read_text()
    await agent.aclose()


async def test_the_model_can_fetch_a_compacted_entry_in_a_turn(tmp_path: Path) -> None:
    agent, result = await compacted(tmp_path)
    agent.state.models.llm.script.clear()  # type: ignore[attr-defined]
    agent.state.models.llm.script.extend(  # type: ignore[attr-defined]
        [
            tool_reply(("history_search", {"query": "row 7 "})),
            tool_reply(("history_read", {"index": result.index}), stem="r"),
        ]
    )
    await agent.prompt("what was in row 7?")
    read = tool_results(agent.session.entries)[-1]
    assert read.text == result.text
    await agent.aclose()


async def test_a_result_too_long_for_the_room_is_clipped_and_whole_in_a_file(
    tmp_path: Path,
) -> None:
    built = (
        history().user("go").step("bash", "".join(f"line {n}\n" for n in range(5_000)))
    )
    outcome = await recall(
        session_of(built), "history_read", tmp_path, room=500, index=2
    )
    assert "left out" in outcome.text
    assert outcome.full_output is not None
    spilled = [file.read_text() for file in (tmp_path / "outputs").iterdir()]
    assert spilled == ["".join(f"line {n}\n" for n in range(5_000))]


async def test_an_answer_is_shown_with_its_calls_and_images_come_back(
    tmp_path: Path,
) -> None:
    built = (
        history()
        .user("look", images=1)
        .assistant("I look.", calls=[call("read", path="a.py")])
        .result("x")
    )
    session = session_of(built)
    answer = await recall(session, "history_read", tmp_path, index=1)
    assert answer.text == "I look.\n[call read]\npath: a.py"
    request = await recall(session, "history_read", tmp_path, index=0)
    assert (request.text, request.images) == ("look", (IMAGE,))


async def test_searching_does_not_find_earlier_searches(tmp_path: Path) -> None:
    built = (
        history()
        .user("remember the needle")
        .step("history_search", "0 (user): needle", query="needle")
    )
    found = await recall(session_of(built), "history_search", tmp_path, query="needle")
    assert found.text == "0 (user, in view): remember the needle"


async def test_a_search_matches_signs_as_they_are_and_says_how_many_hits_it_does_not_show(
    tmp_path: Path,
) -> None:
    built = history()
    for n in range(40):
        built.turn(f"call f({n}) [x*]", "ok")
    session = session_of(built)
    found = await recall(session, "history_search", tmp_path, query="[x*]", limit=30)
    assert found.brief == "40 matches"
    assert len(found.text.splitlines()) == 31
    assert found.text.splitlines()[0].endswith("call f(39) [x*]")
    more = MORE_ENTRIES.format(entries="10 more entries match")
    assert found.text.endswith(more)
    nothing = await recall(session, "history_search", tmp_path, query="f.39")
    assert (nothing.text, nothing.is_error) == (NO_ENTRY, False)


async def test_a_search_lists_what_fits_and_at_least_one(tmp_path: Path) -> None:
    built = history()
    for n in range(40):
        built.user(f"第{n}次：" + "数据库的连接又断开了" * 30)
    session = session_of(built)
    for room in (250, 600, 2_000):
        found = await recall(
            session, "history_search", tmp_path, query="连接", limit=100, room=room
        )
        assert estimate_tokens(found.text) <= room
        shown = [
            line
            for line in found.text.splitlines()
            if "(user, in view): …" in line or "次：" in line
        ]
        assert shown
        assert f"[{40 - len(shown)} more entries match" in found.text
        assert found.full_output is None


async def test_what_left_the_view_is_listed_before_what_is_in_it(
    tmp_path: Path,
) -> None:
    agent, result = await compacted(tmp_path)
    await agent.prompt("where was row 150 again?")
    found = await recall(agent.session, "history_search", tmp_path, query="row 150")
    first, second = found.text.splitlines()
    assert first.startswith(f"{result.index} (tool_result of read, ")
    assert second.endswith("(user, in view): where was row 150 again?")
    await agent.aclose()


async def test_a_search_can_be_for_what_the_user_said_alone(tmp_path: Path) -> None:
    built = (
        history()
        .user("use port 5433")
        .assistant("port 5433 it is")
        .step("bash", "port 5433")
    )
    found = await recall(
        session_of(built), "history_search", tmp_path, query="5433", kind="user"
    )
    assert found.text == "0 (user, in view): use port 5433"


async def test_words_that_never_meet_are_counted_by_themselves(tmp_path: Path) -> None:
    built = history().user("the staging host").user("the port").user("端口")
    found = await recall(
        session_of(built), "history_search", tmp_path, query="staging 端口 db"
    )
    counts = "staging in 1, 端口 in 1, db in 0"
    assert found.text == NO_COMMON_ENTRY.format(counts=counts)


async def test_a_search_runs_in_a_thread_that_learns_of_a_cancel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[threading.Thread] = []
    begun, given_up = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()

    def find(*_: object, stopped: Callable[[], bool], **__: object) -> SearchResult:
        threads.append(threading.current_thread())
        loop.call_soon_threadsafe(begun.set)
        while not stopped():
            pass
        loop.call_soon_threadsafe(given_up.set)
        return SearchResult((), 0)

    monkeypatch.setattr(EntrySearch, "find", find)
    session = session_of(history().user("needle"))
    searching = asyncio.ensure_future(
        recall(session, "history_search", tmp_path, query="needle")
    )
    await begun.wait()
    searching.cancel()
    await given_up.wait()
    assert threads[0] is not threading.main_thread()
    with pytest.raises(asyncio.CancelledError):
        await searching


async def test_some_lines_of_an_entry_are_shown_exactly(tmp_path: Path) -> None:
    built = (
        history().user("go").step("bash", "".join(f"line {n}\n" for n in range(1, 901)))
    )
    session = session_of(built)
    part = await recall(session, "history_read", tmp_path, index=2, offset=212, limit=2)
    assert part.text == "line 212\nline 213\n[lines 212–213 of 900]"
    rest = await recall(session, "history_read", tmp_path, index=2, offset=899)
    assert rest.text == "line 899\nline 900\n[lines 899–900 of 900]"
    beyond = await recall(session, "history_read", tmp_path, index=2, offset=901)
    assert beyond.is_error
    assert beyond.text == BEYOND_END.format(
        title="Entry 2", lines="900 lines", line=901
    )


async def test_an_entry_of_40_kb_can_be_read_whole_in_pieces_through_a_small_room(
    tmp_path: Path,
) -> None:
    lines = [f"{n}: " + "value " * 6 + "值\n" for n in range(1, 1_001)]
    session = session_of(history().user("go").step("bash", "".join(lines)))
    clipped = await recall(session, "history_read", tmp_path, room=600, index=2)
    pointer = re.search(
        r"`history_read` 2 with offset (\d+) and limit (\d+) ", clipped.text
    )
    assert pointer is not None
    assert lines[int(pointer[1]) - 2] in clipped.text
    assert lines[int(pointer[1]) - 1] not in clipped.text
    pieces = []
    for offset in range(1, 1_001, 20):
        piece = await recall(
            session,
            "history_read",
            tmp_path,
            room=600,
            index=2,
            offset=offset,
            limit=20,
        )
        pieces.append(
            piece.text.removesuffix(f"[lines {offset}–{offset + 19} of 1000]")
        )
    assert "".join(pieces) == "".join(lines)


async def test_a_call_is_found_and_shown_as_it_was_run_whatever_json_made_of_it(
    tmp_path: Path,
) -> None:
    command = 'printf "%s\\t" \'a "b" c\' | grep -c "数据库"'
    escaped = ToolCallPart(
        call_id="c", name="bash", arguments=json.dumps({"command": command})
    )
    session = session_of(history().user("go").assistant(calls=[escaped]).result("1"))
    found = await recall(session, "history_search", tmp_path, query=command)
    assert found.text.startswith("1 (assistant, line 2, in view): ")
    shown = await recall(session, "history_read", tmp_path, index=1)
    assert shown.text == f"[call bash]\ncommand: {command}"


async def test_the_message_of_a_rewind_is_found_and_read(tmp_path: Path) -> None:
    built = (
        history()
        .user("go")
        .checkpoint(1)
        .turn("a", "b")
        .revert(1, message="the cache is cold: skip it")
    )
    session = session_of(built)
    found = await recall(session, "history_search", tmp_path, query="cache cold")
    assert found.text.startswith(f"{built.last} (revert, in view): the cache is cold")
    shown = await recall(session, "history_read", tmp_path, index=built.last)
    assert shown.text == "the cache is cold: skip it"


async def test_a_number_that_is_no_message_is_said_to_be_none(tmp_path: Path) -> None:
    session = session_of(history().turn("a", "b").checkpoint(1))
    for index in (99, 2):
        outcome = await recall(session, "history_read", tmp_path, index=index)
        assert outcome.is_error
        assert outcome.text == NO_MESSAGE.format(number=index)


async def test_a_summary_can_be_read_after_a_later_compaction_absorbed_it(
    tmp_path: Path,
) -> None:
    agent, _ = await compacted(tmp_path)
    for text in ("more of it " * 600, "and still more " * 600):
        await agent.prompt(text)
    await agent.compact()
    first, second = [
        entry for entry in agent.session.entries if isinstance(entry, Compaction)
    ]
    assert agent.session.projection.fate(first.index).by == second.index
    outcome = await recall(agent.session, "history_read", tmp_path, index=first.index)
    assert outcome.text == first.summary
    assert any(isinstance(entry, UserMessage) for entry in agent.session.entries)
    await agent.aclose()
