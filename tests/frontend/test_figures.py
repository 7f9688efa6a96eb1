"""The figures of meter and side list: what they say of a history, and that they are not made anew in vain."""

from pathlib import Path

import pytest

from foldline.agent import Agent
from foldline.frontend.figures import Figures
from foldline.frontend.state import ChatState, ContextUse
from foldline.history import Session
from foldline.protocol import Compaction, Undo, Usage, UserMessage, text_parts
from foldline.tui.prompting.completion import commands
from support.agents import PlayedLLM
from support.history import history, modified, read
from support.live import session_in
from support.stories import Story


def figures_of(folder: Path, story: Story, window: int = 32_768) -> Figures:
    session = Session.from_entries(session_in(folder).header, story.entries)
    return Figures(Agent(session, llm=PlayedLLM(window=window)).state)


def long_story(turns: int) -> Story:
    story = Story().system("prompt")
    for number in range(turns):
        story.user(f"question {number}").assistant(
            "All there is to know about it. " * 120
        )
    return story


def test_the_categories_add_up_to_the_size(tmp_path: Path) -> None:
    made = figures_of(tmp_path, long_story(40))
    for reason in (None, "threshold", "manual"):
        made.compacting = reason  # type: ignore[assignment]
        room = made.room()
        assert room.weights.total == room.size


def test_what_a_compaction_takes_away_ends_at_the_cut(tmp_path: Path) -> None:
    made = figures_of(tmp_path, long_story(40))
    assert made.room().weights.compacting == 0
    made.compacting = "threshold"
    room = made.room()
    weights = room.weights
    assert room.cut == weights.system + weights.summaries + weights.compacting
    assert weights.compacting > 0 and weights.verbatim > 0


def test_below_the_soft_mark_no_cut_is_shown(tmp_path: Path) -> None:
    assert figures_of(tmp_path, long_story(3)).room().cut is None


def test_a_plan_is_made_once_for_a_view_that_hardly_grows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = figures_of(tmp_path, long_story(40))
    made.room()

    def never(*_: object, **__: object) -> None:
        raise AssertionError("planned again")

    monkeypatch.setattr(made._state.compaction, "plan", never)
    made.room()
    assert made.cut_index() is not None
    made.compacting = "manual"
    with pytest.raises(AssertionError, match="planned again"):
        made.room()


def test_a_manual_plan_is_made_once_for_a_view_that_hardly_grows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = figures_of(tmp_path, long_story(40))
    made.manual_plan()

    def never(*_: object, **__: object) -> None:
        raise AssertionError("planned again")

    monkeypatch.setattr(made._state.compaction, "plan", never)
    made._state.projection.append(
        UserMessage(index=made._state.projection.last_index + 1, parts=text_parts("go"))
    )
    assert made.manual_plan() is not None


def test_a_window_too_small_to_work_in_is_shown_all_the_same(tmp_path: Path) -> None:
    room = figures_of(tmp_path, long_story(3), window=1_000).room()
    assert (room.window, room.threshold, room.cut) == (1_000, None, None)


def test_paths_in_the_folder_are_shown_from_there(tmp_path: Path) -> None:
    inside, outside = str(tmp_path / "src" / "a.py"), "/etc/hosts"
    story = history().system("s").user("look")
    story.step("read", "text", files=[read(outside)]).step(
        "edit", "ok", files=[modified(inside, 3, 1)]
    )
    session = Session.from_entries(session_in(tmp_path).header, story.entries)
    data = Figures(Agent(session, llm=PlayedLLM()).state).sidebar()
    assert [file.path for file in data.modified] == ["src/a.py"]
    assert [file.path for file in data.read] == ["/etc/hosts"]


def test_the_side_list_stays_the_same_object_until_a_file_is_accessed(
    tmp_path: Path,
) -> None:
    story = Story().system("prompt").user("look")
    for number in range(400):
        story.step("read", "text", files=[read(f"src/f{number}.py")])
    session = Session.from_entries(session_in(tmp_path).header, story.entries)
    made, projection = (
        Figures(Agent(session, llm=PlayedLLM(window=1_000_000)).state),
        session.projection,
    )
    made.room()
    side = made.sidebar()
    assert made.sidebar() is side
    projection.append(story.user("and now?").entries[-1])
    made.room()
    assert made.sidebar() is side
    for entry in story.step("edit", "ok", files=[modified("src/f7.py", 3, 1)]).entries[
        -2:
    ]:
        projection.append(entry)
    grown = made.sidebar()
    assert [file.path for file in grown.modified] == ["src/f7.py"] and len(
        grown.read
    ) + grown.older_read == 399
    assert grown.pinned is side.pinned and grown.compactions is side.compactions


def test_the_price_of_an_undo_is_known_before_it_is_asked_for(tmp_path: Path) -> None:
    built = history().system("s")
    for number in range(6):
        built.turn(f"question {number}", "All there is to know about it. " * 120)
    session = Session.from_entries(session_in(tmp_path).header, built.entries)
    agent = Agent(session, llm=PlayedLLM())
    assert Figures(agent.state).undo_adds() is None
    compaction = Compaction(first_kept_index=9, head=(), strategy="test")
    built.add(compaction).user("and now?").assistant(
        "this", usage=Usage(input=4_000, output=9), model="m"
    ).asked()
    session = Session.from_entries(session_in(tmp_path).header, built.entries)
    agent_state = Agent(session, llm=PlayedLLM()).state
    adds, size = Figures(agent_state).undo_adds(), agent_state.budget.size()
    assert adds is not None and adds > 0
    session.projection.append(
        Undo(
            index=session.next_index,
            target=session.projection.all_compactions[-1].index,
        )
    )
    assert (
        agent_state.budget.size() == size + adds
    )  # what the meter shows then, and what a question names before


def test_the_completion_of_undo_tells_its_price() -> None:
    state = ChatState(room=ContextUse(size=27_400), undo_adds=88_800)
    [found] = commands("und", state)
    assert found.note == "Undo the last compaction, clear or rewind: 27.4k → ~116.2k"
    [unknown] = commands("und", ChatState())
    assert unknown.note == "Undo the last compaction, clear or rewind"
