"""The mode plan, the accepted plan, questions of the model; and what holds outside compactions."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foldline.agent import Agent
from foldline.agent.permissions.approvals import resumed_policy
from foldline.agent.session.plan import (
    ACCEPTED,
    CHANGED,
    NO_ANSWER,
    NO_PLAN,
    NO_USER,
    NOT_ACCEPTED,
    OWN_WORDS,
    plan_file,
)
from foldline.agent.tools.history import todo_lines
from foldline.agent.turn.calls import PLAN_HINT, REFUSED
from foldline.agent.turn.reminders import PLAN_MODE, PLAN_MODE_OVER
from foldline.compaction import BUILT_IN
from foldline.history import Session
from foldline.memory.todos import newest_list
from foldline.past.rewind_points import rewind_points
from foldline.protocol import Compaction, ToolResultMessage, events, operations
from foldline.view.rules import broken
from support.agents import PlayedLLM, agent_in, reload_session, tool_reply, write_lines
from support.history import history
from support.random_histories import build_history, steps

PLAN = "# Orders\n\n1. a unique index\n2. insert first, in `service.py`\n\n\ttwo  blanks, a tab, 文件  \n"
TODOS = [
    {"content": "find the cause", "status": "completed"},
    {"content": "write a  test,  with blanks", "status": "in_progress"},
    {"content": "文件 \N{GRINNING FACE}", "status": "pending"},
]
LIST = "[x] find the cause\n[>] write a  test,  with blanks\n[ ] 文件 \N{GRINNING FACE}"
QUESTION = {"question": "Which base?", "choices": ["SQLite", "Postgres"]}


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is resumed is ours: the sessions lie where `agent_in` puts them."""
    monkeypatch.setenv("FOLDLINE_HOME", str(tmp_path.parent / f"{tmp_path.name}-home"))


def planner(
    folder: Path,
    *script: Any,
    answers: str | list[str] = "",
    text: str = "",
    **options: Any,
) -> Agent:
    """An agent in the mode plan; questions are answered in turn with these keys, and with this text. What is
    added to a list of keys later counts as well."""
    given = {"interactive": True, "approvals": "plan", "draft_ahead": False} | options
    agent, _ = agent_in(folder, PlayedLLM(*script), **given)
    left = answers if isinstance(answers, list) else list(answers)

    def answer(event: events.Event) -> None:
        if isinstance(event, events.ChoiceRequested):
            key = left.pop(0) if left else ""
            agent.executor.submit(
                operations.Choose(choice=event.choice, key=key, text=text)
            )

    agent.executor.subscribe(answer)
    return agent


def plan(text: str = PLAN, stem: str = "p") -> Any:
    return tool_reply(("plan", {"text": text}), stem=stem)


def results(agent: Agent) -> list[str]:
    return [
        entry.text
        for entry in agent.session.entries
        if isinstance(entry, ToolResultMessage)
    ]


def pinned(session: Session, origin: str = "plan") -> list[str]:
    return [
        item.message.text
        for item in session.projection.view
        if item.outline.origin == origin
    ]


def sent(agent: Agent) -> str:
    """All that the newest request said."""
    return "\n".join(
        message.text for message in agent.state.models.llm.requests[-1].messages
    )  # type: ignore[attr-defined]


async def do(agent: Agent, operation: operations.Operation) -> events.TaskFinished:
    return await agent.executor.wait_for(agent.executor.submit(operation))


# --- the mode ---------------------------------------------------------------------------------------------


async def test_what_does_not_read_is_refused_without_a_question_and_the_model_is_told_what_to_do(
    tmp_path: Path,
) -> None:
    (tmp_path / "a.txt").write_text("one\n")
    calls = [
        ("read", {"path": "a.txt"}),
        ("write", {"path": "b.txt", "content": "x"}),
        ("bash", {"command": "touch c.txt"}),
    ]
    agent = planner(tmp_path, tool_reply(*calls))
    await agent.prompt("go")
    read, *refused = results(agent)
    assert "one" in read and sorted(path.name for path in tmp_path.iterdir()) == [
        "a.txt"
    ]
    assert set(refused) == {REFUSED["plan"] + PLAN_HINT}


async def test_the_model_is_told_once_that_the_mode_began_and_once_that_it_ended(
    tmp_path: Path,
) -> None:
    agent = planner(tmp_path)
    for mode in ("plan", "plan", "ask", "edits"):
        agent.executor.submit(operations.SwitchApprovals(mode=mode))
        await agent.executor.settle()
        await agent.prompt("go")
    began, ended = pinned(agent.session, "mode")
    assert (began, ended) == (PLAN_MODE, PLAN_MODE_OVER)
    assert (
        len(
            {
                tuple(spec.name for spec in r.tools)
                for r in agent.state.models.llm.requests
            }
        )
        == 1
    )  # type: ignore[attr-defined]


async def test_the_mode_survives_a_restart_with_the_one_that_comes_back_after_it(
    tmp_path: Path,
) -> None:
    agent = planner(tmp_path, approvals="edits")
    agent.executor.submit(operations.SwitchApprovals(mode="plan"))
    await agent.executor.settle()
    await agent.prompt("go")
    again = reload_session(agent)
    assert resumed_policy(again, "ask").mode == "plan"
    assert resumed_policy(again, "plan").usual == "edits"


async def test_the_mode_all_does_not_come_back_after_a_restart(tmp_path: Path) -> None:
    agent = planner(tmp_path, approvals="all")
    agent.executor.submit(operations.SwitchApprovals(mode="plan"))
    await agent.executor.settle()
    assert agent.state.permissions.policy.usual == "all"
    assert resumed_policy(reload_session(agent), "plan").usual == "ask"


# --- the plan ---------------------------------------------------------------------------------------------


async def test_an_accepted_plan_is_pinned_whole_and_the_mode_before_comes_back(
    tmp_path: Path,
) -> None:
    agent = planner(tmp_path, plan(), "carried out", answers="y", approvals="edits")
    agent.executor.submit(operations.SwitchApprovals(mode="plan"))
    await agent.executor.settle()
    assert (await agent.prompt("plan it")).text == "carried out"
    [text] = pinned(agent.session)
    assert text.endswith(f"\n\n{PLAN}") and text in sent(agent)
    assert (
        plan_file(agent.state.tools).read_text() == PLAN
        and plan_file(agent.state.tools).stat().st_mode & 0o077 == 0
    )
    assert agent.state.permissions.policy.mode == "edits"
    assert broken(agent.session.projection) == []


async def test_what_the_user_made_of_the_plan_is_what_is_accepted(
    tmp_path: Path,
) -> None:
    agent = planner(tmp_path, plan(), answers="ey", text="My plan.\n")
    await agent.prompt("plan it")
    assert pinned(agent.session)[0].endswith("\n\nMy plan.\n")
    assert results(agent)[0] == ACCEPTED.format(change=CHANGED)


async def test_a_file_that_was_changed_since_it_was_shown_is_shown_again(
    tmp_path: Path,
) -> None:
    agent = planner(tmp_path, plan(), answers="yy")
    shown: list[str] = []

    def edit_elsewhere(
        event: events.Event,
    ) -> None:  # right after the answer, and before it is carried out
        if isinstance(event, events.ChoiceRequested):
            shown.append(event.detail)
            plan_file(agent.state.tools).write_text("Edited elsewhere.\n")

    agent.executor.subscribe(edit_elsewhere)
    await agent.prompt("plan it")
    assert shown == [PLAN, "Edited elsewhere.\n"]
    assert pinned(agent.session)[0].endswith("Edited elsewhere.\n")


async def test_a_plan_that_is_not_accepted_is_written_again_with_the_users_reason(
    tmp_path: Path,
) -> None:
    agent = planner(
        tmp_path, plan("First."), plan("Second.", "q"), answers="ny", text="too short"
    )
    await agent.prompt("plan it")
    assert results(agent)[0] == NOT_ACCEPTED.format(reason=" and says: too short")
    assert [text.rpartition("\n")[2] for text in pinned(agent.session)] == ["Second."]


async def test_a_newer_plan_replaces_the_older_and_a_rewind_brings_that_back(
    tmp_path: Path,
) -> None:
    agent = planner(
        tmp_path, plan("Old."), "done", plan("New.", "q"), "done", answers="yy"
    )
    await agent.prompt("one")
    agent.executor.submit(operations.SwitchApprovals(mode="plan"))
    await agent.executor.settle()
    await agent.prompt("two")
    assert [text.rpartition("\n")[2] for text in pinned(agent.session)] == ["New."]
    place = next(
        place
        for place in rewind_points(agent.session.projection)
        if place.prompt == "two"
    )
    await do(agent, operations.Rewind(checkpoint=place.id))
    assert [text.rpartition("\n")[2] for text in pinned(agent.session)] == ["Old."]
    assert [text.rpartition("\n")[2] for text in pinned(reload_session(agent))] == [
        "Old."
    ]


async def test_a_plan_left_undecided_is_accepted_later_by_hand(tmp_path: Path) -> None:
    agent = planner(tmp_path, plan(), answers=(keys := [""]))
    await agent.prompt("plan it")
    assert agent.state.permissions.policy.mode == "plan" and not pinned(agent.session)
    keys.append("y")
    assert (await do(agent, operations.ReviewPlan())).outcome == "done"
    assert (
        pinned(agent.session)[0].endswith(PLAN)
        and agent.state.permissions.policy.usual == "ask"
    )
    assert pinned(
        agent.session, "mode"
    ) and agent.state.permissions.policy == resumed_policy(reload_session(agent), "ask")


async def test_without_a_plan_there_is_nothing_to_show(tmp_path: Path) -> None:
    finished = await do(planner(tmp_path), operations.ReviewPlan())
    assert (finished.outcome, finished.error) == (
        "failed",
        NO_PLAN,
    )


async def test_outside_the_mode_nobody_asked_for_a_plan(tmp_path: Path) -> None:
    agent = planner(tmp_path, plan(), approvals="ask")
    await agent.prompt("go")
    assert (
        "the mode is not plan" in results(agent)[0]
        and not plan_file(agent.state.tools).exists()
    )


async def test_a_plan_that_leaves_no_room_is_not_pinned(tmp_path: Path) -> None:
    agent = planner(tmp_path, plan("word " * 30_000), answers="y")
    await agent.prompt("go")
    assert "too many for a window" in results(agent)[0] and not pinned(agent.session)


async def test_nobody_there_the_turn_ends_with_the_plan(tmp_path: Path) -> None:
    agent = planner(tmp_path, plan(), "never asked for", interactive=False)
    await agent.prompt("plan it")
    assert (
        agent.state.tools.ends_with_plan and len(agent.state.models.llm.requests) == 1
    )  # type: ignore[attr-defined]
    assert plan_file(agent.state.tools).read_text() == PLAN


# --- questions --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("keys", "text", "result"),
    [
        ("b", "", "The user chose: Postgres"),
        (
            "o",
            " neither, use files ",
            OWN_WORDS.format(answer="neither, use files"),
        ),
        ("", "", NO_ANSWER),
        ("o", "", NO_ANSWER),
    ],
)
async def test_the_answer_to_a_question_is_the_result_of_its_call(
    tmp_path: Path, keys: str, text: str, result: str
) -> None:
    agent = planner(
        tmp_path,
        tool_reply(("ask_user", QUESTION)),
        answers=keys,
        text=text,
        approvals="ask",
    )
    await agent.prompt("go")
    assert results(agent) == [result]


async def test_nobody_there_answers_come_from_those_that_were_written_before(
    tmp_path: Path,
) -> None:
    asks = [
        tool_reply(("ask_user", QUESTION), stem=f"q{number}") for number in range(4)
    ]
    agent = planner(tmp_path, *asks, interactive=False, approvals="ask")
    agent.state.permissions.choices.scripted_answers.extend(["2", "SQLite", "a file"])
    await agent.prompt("go")
    assert results(agent)[:3] == [
        "The user chose: Postgres",
        "The user chose: SQLite",
        OWN_WORDS.format(answer="a file"),
    ]
    assert results(agent)[3] == NO_USER


@pytest.mark.parametrize(
    "choices", [["one"], ["one", " "], [str(number) for number in range(7)]]
)
async def test_a_question_has_two_to_six_choices_that_say_something(
    tmp_path: Path, choices: list[str]
) -> None:
    agent = planner(
        tmp_path, tool_reply(("ask_user", {"question": "Which?", "choices": choices}))
    )
    await agent.prompt("go")
    assert "choices" in results(agent)[0]


# --- outside compactions ----------------------------------------------------------------------------------


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("strategy", BUILT_IN)
async def test_after_ten_compactions_and_a_restart_plan_goal_and_todo_list_are_there_byte_for_byte(
    tmp_path: Path, strategy: str
) -> None:
    folder = tmp_path / "shop"
    folder.mkdir()
    write_lines(folder / "long.txt", 120)
    script = [plan(), tool_reply(("todo", {"todos": TODOS}), stem="t"), "planned"]
    for number in range(40):
        script += [
            tool_reply(("read", {"path": "long.txt"}), stem=f"r{number}"),
            f"read {number}",
        ]
    agent = planner(folder, *script, answers="y", compaction=strategy)
    await do(agent, operations.SetGoal(text="Each order once."))
    await agent.prompt("plan it")
    for number in range(40):
        if len(agent.session.projection.compactions()) >= 10:
            break
        await agent.prompt(f"read it, {number}")
        await do(agent, operations.CompactSession(reason="manual"))
    assert len(agent.session.projection.compactions()) == 10
    kept, written = (
        pinned(agent.session),
        plan_file(agent.state.tools).read_text("utf-8"),
    )
    await agent.aclose()
    again = Agent(reload_session(agent), llm=PlayedLLM(), approvals="ask")
    index, todos = newest_list(again.session.projection)
    called = again.session.projection.fate(index).kind
    assert called != "live" or strategy == "hide", (
        "else the list was never out of sight"
    )
    await again.prompt("what is left?")
    for text in (PLAN, LIST, "Each order once."):
        assert sent(again).count(text) == 1, strategy
    assert broken(again.session.projection) == []
    assert pinned(again.session) == kept and written == PLAN
    assert "\n".join(todo_lines(todos)) == LIST


async def test_a_rewind_brings_back_the_list_of_then_and_an_undo_the_one_after(
    tmp_path: Path,
) -> None:
    first, second = (
        [{"content": "old", "status": "pending"}],
        [{"content": "new", "status": "pending"}],
    )
    agent = planner(
        tmp_path,
        tool_reply(("todo", {"todos": first}), stem="a"),
        "one",
        tool_reply(("todo", {"todos": second}), stem="b"),
        "two",
        approvals="ask",
    )
    await agent.prompt("first")
    await do(agent, operations.CompactSession(reason="manual"))
    await agent.prompt("second")
    place = next(
        place
        for place in rewind_points(agent.session.projection)
        if place.prompt == "second"
    )
    await do(agent, operations.Rewind(checkpoint=place.id))
    assert [todo.text for todo in newest_list(agent.session.projection)[1]] == ["old"]
    await agent.prompt("third")
    assert "[ ] old" in sent(agent) and "[ ] new" not in sent(agent)
    place_of_revert = agent.session.projection.markers[-1].index
    assert (
        await do(agent, operations.UndoCompaction(target=place_of_revert))
    ).outcome == "done"
    assert [todo.text for todo in newest_list(agent.session.projection)[1]] == ["new"]


async def test_a_list_that_is_done_or_in_view_is_not_said_again(tmp_path: Path) -> None:
    done = [{"content": "all of it", "status": "completed"}]
    agent = planner(
        tmp_path, tool_reply(("todo", {"todos": done})), "one", approvals="ask"
    )
    await agent.prompt("first")
    await do(agent, operations.CompactSession(reason="manual"))
    await agent.prompt("second")
    assert pinned(agent.session, "todo") == []


@given(steps, st.integers(1, 10))
def test_whatever_happened_before_no_number_of_compactions_changes_the_list_that_holds(
    happened: Any, compactions: int
) -> None:
    built = history()
    for entry in build_history(happened):
        built.add(entry)
    built.user("plan").step("todo", "noted", todos=TODOS)
    kept = built.last - 1
    for _ in range(compactions):
        built.add(Compaction(first_kept_index=built.last + 1)).turn("go on", "done")
    index, todos = newest_list(built.projection())
    assert (index, "\n".join(todo_lines(todos))) == (kept, LIST)


async def test_the_goal_is_replaced_and_dropped(tmp_path: Path) -> None:
    agent = planner(tmp_path, approvals="ask")
    await do(agent, operations.SetGoal(text="one"))
    await do(agent, operations.SetGoal(text="two"))
    [goal] = pinned(agent.session, "goal")
    assert goal.endswith(": two")
    await agent.prompt("go")
    assert goal in sent(agent)
    await do(agent, operations.SetGoal(text=""))
    assert pinned(agent.session, "goal") == []
