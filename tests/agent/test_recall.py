"""`history_search` and `history_read`: what was folded can be fetched again, exactly."""

from pathlib import Path
from typing import Any

from foldline.agent import Agent
from foldline.agent.tools import ToolContext, ToolOutcome
from foldline.agent.tools.recall import recall_tools
from foldline.history import Session
from foldline.protocol import Compaction, SessionHeader, ToolResultMessage, UserMessage
from support.agents import PlayedLLM, agent_in, calling, write_lines
from support.history import IMAGE, History, call, history


async def recall(
    session: Session, name: str, folder: Path, /, room: int = 5_000, **arguments: Any
) -> ToolOutcome:
    [tool] = [tool for tool in recall_tools(session) if tool.spec.name == name]
    context = ToolContext(folder, lambda _: None, max_tokens=room, spill_dir=folder / "outputs")
    return await tool.run(arguments, context)


def session_of(built: History) -> Session:
    header = SessionHeader.model_validate({"id": "s", "created_at": "2026-01-01T00:00:00Z", "cwd": "/x"})
    return Session.from_entries(header, built.entries)


async def folded(tmp_path: Path) -> tuple[Agent, ToolResultMessage]:
    """An agent that read a file and folded it away; the result as it was."""
    write_lines(tmp_path / "a.txt", 300, 'row {n} 的内容 has "quotes" and\ttabs')
    llm = PlayedLLM(calling(("read", {"path": "a.txt"})), *["fine"] * 3)
    agent, _ = agent_in(tmp_path, llm)
    for text in ("read a.txt", "what else? " * 400, "and then? " * 400):
        await agent.prompt(text)
    await agent.compact()
    [result] = [entry for entry in agent.session.entries if isinstance(entry, ToolResultMessage)]
    assert agent.session.projection.fate(result.index).kind == "summarised"
    return agent, result


async def test_a_folded_result_is_found_and_read_back_exactly(tmp_path: Path) -> None:
    agent, result = await folded(tmp_path)
    found = await recall(agent.session, "history_search", tmp_path, query="ROW 150 的内容")
    assert found.text.startswith(f"{result.index} (tool_result): ")
    assert "row 150 的内容 has" in found.text
    assert found.brief == "1 match"
    again = await recall(agent.session, "history_read", tmp_path, room=10_000, index=result.index)
    assert again.text == result.text == (tmp_path / "a.txt").read_text()
    await agent.aclose()


async def test_the_model_can_fetch_a_folded_entry_in_a_turn(tmp_path: Path) -> None:
    agent, result = await folded(tmp_path)
    agent.desk.llm.script.clear()  # type: ignore[attr-defined]
    agent.desk.llm.script.extend(  # type: ignore[attr-defined]
        [
            calling(("history_search", {"query": "row 7 "})),
            calling(("history_read", {"index": result.index}), stem="r"),
        ]
    )
    await agent.prompt("what was in row 7?")
    read = [entry for entry in agent.session.entries if isinstance(entry, ToolResultMessage)][-1]
    assert read.text == result.text
    await agent.aclose()


async def test_a_result_too_long_for_the_room_is_clipped_and_whole_in_a_file(tmp_path: Path) -> None:
    built = history().user("go").step("bash", "".join(f"line {n}\n" for n in range(5_000)))
    outcome = await recall(session_of(built), "history_read", tmp_path, room=500, index=2)
    assert "left out" in outcome.text
    assert outcome.full_output is not None
    spilled = [file.read_text() for file in (tmp_path / "outputs").iterdir()]
    assert spilled == ["".join(f"line {n}\n" for n in range(5_000))]


async def test_an_answer_is_shown_with_its_calls_and_images_come_back(tmp_path: Path) -> None:
    built = (
        history().user("look", images=1).assistant("I look.", calls=[call("read", path="a.py")]).result("x")
    )
    session = session_of(built)
    answer = await recall(session, "history_read", tmp_path, index=1)
    assert answer.text == 'I look.\nread({"path": "a.py"})'
    request = await recall(session, "history_read", tmp_path, index=0)
    assert (request.text, request.images) == ("look", (IMAGE,))


async def test_searching_does_not_find_earlier_searches(tmp_path: Path) -> None:
    built = history().user("remember the needle").step("history_search", "0 (user): needle", query="needle")
    found = await recall(session_of(built), "history_search", tmp_path, query="needle")
    assert found.brief == "1 match"
    assert found.text.startswith("0 (user)")


async def test_a_search_matches_signs_as_they_are_and_shows_the_newest_hits(tmp_path: Path) -> None:
    built = history()
    for n in range(40):
        built.turn(f"call f({n}) [x*]", "ok")
    session = session_of(built)
    found = await recall(session, "history_search", tmp_path, query="[x*]")
    assert found.brief == "40 matches"
    assert found.text.startswith("(10 older hits not shown)")
    assert "f(39)" in found.text
    nothing = await recall(session, "history_search", tmp_path, query="f.39")
    assert (nothing.text, nothing.is_error) == ("No entry contains this.", False)


async def test_a_number_that_is_no_message_is_said_to_be_none(tmp_path: Path) -> None:
    session = session_of(history().turn("a", "b"))
    outcome = await recall(session, "history_read", tmp_path, index=99)
    assert outcome.is_error
    assert outcome.text == "There is no message with the number 99."


async def test_a_summary_can_be_read_after_a_later_fold_absorbed_it(tmp_path: Path) -> None:
    agent, _ = await folded(tmp_path)
    for text in ("more of it " * 600, "and still more " * 600):
        await agent.prompt(text)
    await agent.compact()
    first, second = [entry for entry in agent.session.entries if isinstance(entry, Compaction)]
    assert agent.session.projection.fate(first.index).by == second.index
    outcome = await recall(agent.session, "history_read", tmp_path, index=first.index)
    assert outcome.text == first.summary
    assert any(isinstance(entry, UserMessage) for entry in agent.session.entries)
    await agent.aclose()
