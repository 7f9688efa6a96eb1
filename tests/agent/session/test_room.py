"""Making room: what happens by itself, and what the user is asked, one key for each remedy."""

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest

from foldline.agent import Agent
from foldline.agent.session.auto_compact import TOO_LONG, offer_remedies
from foldline.agent.session.compaction_state import AUTO_OFF
from foldline.compaction import CompactionContext, pause_reason
from foldline.compaction.automation import FREED_LITTLE
from foldline.llm import ContextOverflow, LLMError, ModelInfo
from foldline.protocol import (
    BaseMessage,
    Compaction,
    Edit,
    FoldlineError,
    RequestRecord,
    Undo,
    Usage,
    UserMessage,
    events,
    operations,
    text_parts,
)
from foldline.view.outline import CompactionOutline
from foldline.view.rules import broken
from support.agents import (
    PlayedLLM,
    Watch,
    agent_in,
    reload_session,
    reply,
    tool_reply,
    write_lines,
)
from support.history import call, history
from support.projections import compactions_of
from support.reading_sessions import agent_with_entries, reading_entries

WORDS = "all there is to know about it, again and again, "


def long(number: int, times: int = 120) -> str:
    return f"prompt {number}: " + WORDS * times


async def filled(
    tmp_path: Path, *, prompts: int = 4, **options: Any
) -> tuple[Agent, Watch, PlayedLLM]:
    """A session of about 1.5k tokens a prompt."""
    llm = PlayedLLM(window=options.pop("window", 32_768))
    agent, watch = agent_in(tmp_path, llm, **options)
    for number in range(prompts):
        await agent.prompt(long(number))
    return agent, watch, llm


async def answered(
    watch: Watch, agent: Agent, key: str, count: int = 1
) -> events.ChoiceRequested:
    """Wait for the question and answer it."""
    choice = await watch.first(events.ChoiceRequested, count)
    agent.executor.submit(operations.Choose(choice=choice.choice, key=key))
    return choice  # type: ignore[no-any-return]


def too_long() -> ContextOverflow:
    return ContextOverflow("The server refused the request as too long.", status=400)


# --- off is off ---------------------------------------------------------------------------------------


async def test_with_compaction_off_an_overflow_asks_and_each_key_is_a_remedy(
    tmp_path: Path,
) -> None:
    agent, watch, llm = await filled(tmp_path, mode="off", interactive=True)
    for number in range(6):
        write_lines(tmp_path / f"f{number}.txt", 40)
    llm.script.extend(
        [tool_reply(*[("read", {"path": f"f{n}.txt"})], stem=f"s{n}") for n in range(6)]
    )
    llm.script.extend([reply("read"), too_long(), reply("it went through")])
    await agent.prompt("read them")
    asked = asyncio.create_task(agent.prompt("and now?"))
    choice = await answered(watch, agent, "h")
    assert (await asked).text == "it went through"
    assert choice.title.startswith(
        "Automatic compaction is off. The next request takes about"
    )
    assert choice.detail.startswith("Largest items: entry ")
    assert [option.key for option in choice.options] == ["c", "h", "x", "t"]
    assert all(len(option.label) > 5 for option in choice.options)
    [compaction] = compactions_of(agent.session.projection)
    assert (compaction.reason, compaction.strategy) == (
        "manual",
        "ToolResultHidingCompaction",
    )
    assert broken(agent.session.projection) == []
    await agent.aclose()


@pytest.mark.parametrize(
    ("key", "does"), [("c", CompactionOutline), ("x", Edit), ("t", CompactionOutline)]
)
async def test_each_remedy_makes_the_refused_request_smaller_and_sends_it_again(
    tmp_path: Path, key: str, does: type
) -> None:
    agent, watch, llm = await filled(tmp_path, mode="off", interactive=True)
    llm.script.extend([too_long(), reply("it went through")])
    asked = asyncio.create_task(agent.prompt("and now?"))
    await answered(watch, agent, key)
    assert (await asked).text == "it went through"
    changes = agent.session.projection.markers
    assert [type(change) for change in changes] == [does]
    assert len(llm.requests[-1].messages) < len(llm.requests[-2].messages)
    assert llm.requests[-1].messages[-1].text == "and now?"
    await agent.aclose()


async def test_what_the_model_has_not_seen_yet_is_not_offered_to_be_dropped(
    tmp_path: Path,
) -> None:
    small, big = "a line of a file\n" * 30, "a line of a file\n" * 300
    built = history().system("s").user("go").step("read", small, path="a")
    built.assistant(calls=[call("read", path="b"), call("read", path="c")]).result(
        big
    ).result(big)
    async with agent_with_entries(
        tmp_path, tuple(built.entries), PlayedLLM(), interactive=True
    ) as (
        agent,
        watch,
    ):
        asked = asyncio.create_task(offer_remedies(agent.state.compaction, "Full."))
        choice = await answered(watch, agent, "x")
        await asked
        assert "Drop 2–3 (read)" in next(
            each.label for each in choice.options if each.key == "x"
        )
        fates = [agent.session.projection.fate(index).kind for index in (2, 3, 5, 6)]
        assert fates == ["dropped", "dropped", "live", "live"]


async def test_a_question_left_changes_nothing_and_says_what_can_be_done(
    tmp_path: Path,
) -> None:
    agent, watch, llm = await filled(tmp_path, mode="off", interactive=True)
    view = list(agent.session.projection.view)
    llm.script.append(too_long())
    asked = asyncio.create_task(agent.prompt("and now?"))
    await answered(watch, agent, "")
    with pytest.raises(
        FoldlineError, match=rf"{AUTO_OFF} Largest items: entry .*/compact"
    ):
        await asked
    assert agent.session.projection.view[: len(view)] == view
    assert agent.session.projection.markers == []
    await agent.aclose()


async def test_with_nobody_to_answer_nothing_is_asked(tmp_path: Path) -> None:
    agent, watch, llm = await filled(tmp_path, mode="off")
    llm.script.append(too_long())
    with pytest.raises(FoldlineError, match="Automatic compaction is off"):
        await agent.prompt("and now?")
    assert watch.of(events.ChoiceRequested) == []
    await agent.aclose()


async def test_esc_on_the_question_ends_the_turn_and_leaves_nobody_waiting(
    tmp_path: Path,
) -> None:
    agent, watch, llm = await filled(tmp_path, mode="off", interactive=True)
    llm.script.append(too_long())
    asked = asyncio.create_task(agent.prompt("and now?"))
    choice = await watch.first(events.ChoiceRequested)
    agent.executor.submit(operations.Interrupt())
    with pytest.raises(FoldlineError, match="Cancelled"):
        await asked
    assert watch.of(events.ChoiceResolved)[-1].key == ""
    agent.executor.submit(
        operations.Choose(choice=choice.choice, key="c")
    )  # too late: no harm
    again = asyncio.create_task(
        agent.prompt("still there?")
    )  # what was refused does not fit now, either
    await answered(watch, agent, "c", count=2)
    assert (await again).text == "done"
    await agent.aclose()


# --- automation that has stopped ----------------------------------------------------------------------


async def stopped(tmp_path: Path, **options: Any) -> tuple[Agent, Watch, PlayedLLM]:
    """A request that fills the window by itself: two compactions of no use."""
    for n in range(7):
        write_lines(tmp_path / f"f{n}.txt", 10)
    steps = [
        tool_reply(("read", {"path": f"f{n}.txt"}), stem=f"s{n}") for n in range(7)
    ]
    llm = PlayedLLM(*steps, "all read", window=16_384)
    agent, watch = agent_in(tmp_path, llm, compaction="summary", **options)
    return agent, watch, llm


async def test_two_compactions_of_no_use_ask_what_to_do_and_name_the_largest(
    tmp_path: Path,
) -> None:
    agent, watch, _ = await stopped(tmp_path, interactive=True)
    turn = asyncio.create_task(agent.prompt("read them all " + WORDS * 1_050))
    choice = await answered(watch, agent, "")
    await turn
    assert pause_reason(agent.session.projection)
    assert choice.title.startswith(FREED_LITTLE)
    assert "(user, " in choice.detail
    assert (
        len(watch.of(events.ChoiceRequested)) == 1
    )  # left once, not asked again at each step
    assert len(agent.session.projection.all_compactions) == 2
    await agent.aclose()


# --- a compaction the user took back ------------------------------------------------------------------------


async def test_a_compaction_taken_back_is_not_made_again_by_itself(
    tmp_path: Path,
) -> None:
    agent, _, llm = await filled(tmp_path, prompts=10, window=16_384)
    compactions = len(agent.session.projection.all_compactions)
    assert compactions >= 1
    await agent.executor.wait_for(agent.executor.submit(operations.UndoCompaction()))
    before = [message.key for message in llm.requests[-1].messages]
    agent.state.models.llm.info = ModelInfo(id="played", window=17_500)  # type: ignore[misc]
    await agent.prompt("and now?")
    assert len(agent.session.projection.all_compactions) == compactions
    assert [message.key for message in llm.requests[-1].messages][: len(before)] != []
    await agent.compact()
    assert len(agent.session.projection.all_compactions) == compactions + 1
    await agent.aclose()


async def test_undo_brings_the_earlier_request_back_as_an_exact_prefix_also_after_ten_turns(
    tmp_path: Path,
) -> None:
    agent, _, llm = await filled(tmp_path, prompts=5)
    earlier = llm.requests[-1].messages
    await agent.compact()
    for number in range(10):
        await agent.prompt(f"small {number}")
    assert llm.requests[-1].messages[: len(earlier)] != earlier
    await agent.executor.wait_for(agent.executor.submit(operations.UndoCompaction()))
    await agent.prompt("and now?")
    assert llm.requests[-1].messages[: len(earlier)] == earlier
    said_since = [message.text for message in llm.requests[-1].messages[len(earlier) :]]
    assert [text for text in said_since if text.startswith("small")] == [
        f"small {n}" for n in range(10)
    ]
    assert reload_session(agent).projection.view == agent.session.projection.view
    await agent.aclose()


async def test_an_undo_past_the_threshold_is_the_users_to_confirm_with_both_sizes_shown(
    tmp_path: Path,
) -> None:
    agent, watch, _ = await filled(tmp_path, prompts=5, interactive=True)
    await agent.compact()
    agent.state.models.llm.info = ModelInfo(id="played", window=8_000)  # type: ignore[misc]
    small = agent.state.budget.size()
    left = agent.executor.submit(operations.UndoCompaction())
    choice = await answered(watch, agent, "")
    await agent.executor.wait_for(left)
    [compaction] = [
        entry for entry in agent.session.entries if isinstance(entry, Compaction)
    ]
    assert (
        choice.title == f"Undo compaction {compaction.index}?" and choice.opened_by_user
    )
    assert f"from {small:,} to " in choice.detail and "8,000" in choice.detail
    assert [option.key for option in choice.options] == ["u", "n"]
    left = agent.executor.submit(operations.UndoCompaction())
    await answered(watch, agent, "n", count=2)
    await agent.executor.wait_for(left)
    assert not any(isinstance(entry, Undo) for entry in agent.session.entries)
    taken = agent.executor.submit(operations.UndoCompaction())
    await answered(watch, agent, "u", count=3)
    await agent.executor.wait_for(taken)
    assert isinstance(agent.session.projection.newest_change, Undo)
    await agent.aclose()


# --- another model ----------------------------------------------------------------------------------


async def test_switching_to_a_smaller_window_compacts_first_with_the_model_that_still_can(
    tmp_path: Path,
) -> None:
    other = PlayedLLM("from the small one", window=10_240)
    other.info = ModelInfo(id="small", window=10_240)
    agent, watch, llm = await filled(
        tmp_path, prompts=6, compaction="summary", connect=lambda _: other
    )
    finished = await agent.executor.wait_for(
        agent.executor.submit(operations.SwitchModel(model="small"))
    )
    assert finished.outcome == "done"
    types = [entry.type for entry in agent.session.entries[-2:]]
    assert types == ["compaction", "model"]
    assert len(llm.summary_requests) >= 1
    assert (other.requests, other.summary_requests) == ([], [])
    assert agent.state.budget.size() < agent.state.budget.limits.threshold
    assert (await agent.prompt("hello")).text == "from the small one"
    assert len(watch.of(events.CompactionEnd)) == 1
    await agent.aclose()


async def test_switching_to_a_window_that_nothing_fits_keeps_the_old_model(
    tmp_path: Path,
) -> None:
    other = PlayedLLM(window=4_096)
    other.info = ModelInfo(id="tiny", window=4_096)
    agent, _, llm = await filled(tmp_path, prompts=1, connect=lambda _: other)
    agent.executor.submit(
        operations.EditView(target=agent.session.entries[-3].index, action="pin")
    )
    await agent.prompt(long(9, 500))
    finished = await agent.executor.wait_for(
        agent.executor.submit(operations.SwitchModel(model="tiny"))
    )
    assert finished.outcome == "failed"
    assert finished.error is not None
    assert "4,096" in finished.error
    assert agent.state.models.llm is llm
    assert other.closed == 1
    await agent.aclose()


async def test_a_switch_to_a_model_that_counts_more_tokens_gives_up_no_more_than_it_has_to(
    tmp_path: Path,
) -> None:
    built = history().system("You are a coding agent.")
    for n in range(30):
        text = "".join(f"value_{row} = compute({row}) + offset\n" for row in range(250))
        built.user(f"Read f{n}.txt").step("read", text, path=f"f{n}.txt").assistant(
            f"Read f{n}.txt."
        )
    sent = built.projection().meter.sent
    usage = Usage(input=int(sent * 0.72), output=10)  # far fewer than the estimate
    built.user("Is that all?").assistant("That is all.", usage=usage, model="played")
    built.add(RequestRecord(digest="", model="played", estimated=sent, usage=usage))
    other = PlayedLLM()
    other.info = ModelInfo(id="other", window=32_768)
    llm = PlayedLLM(window=131_072)
    async with agent_with_entries(
        tmp_path, tuple(built.entries), llm, connect=lambda _: other
    ) as (agent, _):
        finished = await agent.executor.wait_for(
            agent.executor.submit(operations.SwitchModel(model="other"))
        )
        assert finished.outcome == "done"
        assert [
            compaction.rung for compaction in agent.session.projection.all_compactions
        ] == ["strategy"]
        assert agent.state.budget.size() < agent.state.budget.limits.threshold


async def test_a_switch_whose_compaction_is_thrown_away_says_what_does_not_fit(
    tmp_path: Path,
) -> None:
    other = PlayedLLM()
    other.info = ModelInfo(id="other", window=8_192)
    options: dict[str, Any] = {
        "mode": "ask",
        "interactive": True,
        "connect": lambda _: other,
    }
    async with agent_with_entries(
        tmp_path, reading_entries(8), PlayedLLM(window=16_384), **options
    ) as (
        agent,
        watch,
    ):
        switch = agent.executor.submit(operations.SwitchModel(model="other"))
        ready = await watch.first(events.ProposalReady)
        agent.executor.submit(operations.DiscardProposal(proposal=ready.proposal))
        finished = await agent.executor.wait_for(switch)
        assert finished.error is not None
        assert re.match(
            r"The next request takes about 1\d,\d{3} tokens, more than the 8,192",
            finished.error,
        )


async def test_with_compaction_off_a_switch_that_does_not_fit_is_refused_and_changes_nothing(
    tmp_path: Path,
) -> None:
    other = PlayedLLM(window=5_000)
    agent, _, llm = await filled(
        tmp_path, prompts=6, mode="off", connect=lambda _: other
    )
    finished = await agent.executor.wait_for(
        agent.executor.submit(operations.SwitchModel(model="small"))
    )
    assert finished.error is not None
    assert "automatic compaction is off" in finished.error
    assert (agent.state.models.llm, agent.session.projection.all_compactions) == (
        llm,
        [],
    )
    await agent.aclose()


async def test_another_model_writes_the_summaries_where_one_is_set(
    tmp_path: Path,
) -> None:
    writer = PlayedLLM(window=8_192)
    writer.info = ModelInfo(id="writer", window=8_192)
    agent, _, llm = await filled(tmp_path, summariser=writer)
    await agent.compact()
    [compaction] = compactions_of(agent.session.projection)
    assert (compaction.model, compaction.rung) == ("writer", "strategy")
    assert len(writer.summary_requests) == 1
    assert llm.summary_requests == []
    await agent.aclose()
    assert (llm.closed, writer.closed) == (1, 1)


async def test_by_itself_a_full_window_hides_old_results_and_by_hand_it_is_summarised(
    tmp_path: Path,
) -> None:
    llm = PlayedLLM("on it", window=16_384, summaries=("notes",))
    async with agent_with_entries(
        tmp_path, reading_entries(9), llm, compaction=None, draft_ahead=False
    ) as (
        agent,
        _,
    ):
        assert agent.state.budget.is_full()
        await agent.prompt("go on")
        [compaction] = compactions_of(agent.session.projection)
        assert (compaction.strategy, compaction.summary, llm.summary_requests) == (
            "AdaptiveCompaction",
            "",
            [],
        )
        assert any(item.fate == "hidden" for item in agent.session.projection.view)
        await agent.compact()
        by_hand = compactions_of(agent.session.projection)[-1]
        assert by_hand.strategy == "SummaryCompaction"
        assert by_hand.summary.startswith("notes")
        assert broken(agent.session.projection) == []


# --- phase ----------------------------------------------------------------------------------------


async def test_a_completed_todo_above_the_soft_mark_compacts_between_two_steps(
    tmp_path: Path,
) -> None:
    plan = [
        {"content": "read", "status": "pending"},
        {"content": "write", "status": "pending"},
    ]
    done = [
        {"content": "read", "status": "completed"},
        {"content": "write", "status": "pending"},
    ]
    write_lines(tmp_path / "f.txt", 130)
    llm = PlayedLLM(window=16_384)
    agent, _ = agent_in(tmp_path, llm, draft_ahead=False)
    while agent.state.budget.limits.soft_mark - agent.state.budget.size() > 1_600:
        await agent.prompt(long(1, 60))
    llm.script.extend(
        [
            tool_reply(
                ("todo", {"todos": plan}), ("read", {"path": "f.txt"}), stem="a"
            ),
            tool_reply(("todo", {"todos": done}), stem="b"),
            reply("both steps done"),
        ]
    )
    assert not agent.state.budget.past_soft_mark
    await agent.prompt("go on")
    reasons = [
        compaction.reason for compaction in agent.session.projection.all_compactions
    ]
    assert reasons == ["phase"]
    compaction = agent.session.projection.all_compactions[0]
    before = [
        entry for entry in agent.session.entries if entry.index < compaction.index
    ]
    assert before[-1].type == "tool_result"
    await agent.aclose()


async def test_a_phase_compaction_that_fails_leaves_a_full_window_to_be_compacted_in_the_same_turn(
    tmp_path: Path,
) -> None:
    todos = [
        [{"content": "read", "status": status}] for status in ("pending", "completed")
    ]
    write_lines(tmp_path / "f.txt", 130)
    llm = PlayedLLM(window=16_384, summaries=(LLMError("The server is down."),))
    agent, watch = agent_in(tmp_path, llm, draft_ahead=False, compaction="summary")
    while agent.state.budget.limits.soft_mark - agent.state.budget.size() > 1_600:
        await agent.prompt(long(1, 60))
    llm.script.append(
        tool_reply(("todo", {"todos": todos[0]}), ("read", {"path": "f.txt"}), stem="a")
    )
    llm.script.append(tool_reply(("todo", {"todos": todos[1]}), stem="b"))
    llm.script.extend(
        tool_reply(("read", {"path": "f.txt"}), stem=f"c{n}") for n in range(3)
    )
    await agent.prompt("go on")
    assert [end.reason for end in watch.of(events.CompactionEnd) if end.error] == [
        "phase"
    ]
    assert [
        compaction.reason for compaction in agent.session.projection.all_compactions
    ] == ["threshold"]
    await agent.aclose()


async def test_below_the_soft_mark_a_completed_todo_compacts_nothing(
    tmp_path: Path,
) -> None:
    plan = [{"content": "read", "status": "pending"}]
    done = [{"content": "read", "status": "completed"}]
    llm = PlayedLLM(
        tool_reply(("todo", {"todos": plan}), stem="a"),
        tool_reply(("todo", {"todos": done}), stem="b"),
        "ok",
    )
    agent, _ = agent_in(tmp_path, llm)
    await agent.prompt("small")
    assert agent.session.projection.all_compactions == []
    await agent.aclose()


async def test_a_new_prompt_above_the_soft_mark_is_a_good_moment(
    tmp_path: Path,
) -> None:
    agent, _, _ = await filled(tmp_path, prompts=1, window=16_384, draft_ahead=False)
    number = 1
    while not agent.state.budget.past_soft_mark:
        await agent.prompt(long(number, 60))
        number += 1
    assert agent.session.projection.all_compactions == []
    await agent.prompt("small")
    assert [
        compaction.reason for compaction in agent.session.projection.all_compactions
    ] == ["phase"]
    await agent.aclose()


async def test_a_phase_compaction_that_frees_little_leaves_the_cached_prefix_alone(
    tmp_path: Path,
) -> None:
    agent, _, _ = await filled(tmp_path, prompts=1, window=16_384)
    number = 1
    while not agent.state.budget.past_soft_mark:
        await agent.prompt(long(number, 60))
        number += 1
    agent.state.compaction.strategy = LeavesOutOneMessage()
    await agent.prompt("small")
    assert agent.session.projection.all_compactions == []
    await agent.aclose()


class LeavesOutOneMessage:
    async def compact(self, ctx: CompactionContext) -> list[BaseMessage]:
        first = next(
            at for at, message in enumerate(ctx.history) if message.type == "assistant"
        )
        return [message for at, message in enumerate(ctx.history) if at != first]


async def test_no_compaction_follows_another_without_a_step_where_the_prompt_fits(
    tmp_path: Path,
) -> None:
    agent, _, _ = await filled(tmp_path, prompts=5, window=16_384)
    await agent.compact()
    free = agent.state.budget.limits.threshold - agent.state.budget.size()
    prompt = long(9, free // 11 + 40)
    assert agent.state.budget.is_full([UserMessage(parts=text_parts(prompt))])
    await agent.prompt(prompt)
    assert [
        compaction.reason for compaction in agent.session.projection.all_compactions
    ] == ["manual"]
    await agent.aclose()


async def test_a_prompt_that_can_never_fit_is_refused_before_it_stands_in_the_history(
    tmp_path: Path,
) -> None:
    agent, _, llm = await filled(tmp_path, prompts=1)
    start = TOO_LONG.partition("{")[0]
    with pytest.raises(FoldlineError, match=f"(?i){start}.* of 32,768"):
        await agent.prompt(WORDS * 4_000)
    assert len(llm.requests) == 1
    assert (
        len(
            [entry for entry in agent.session.entries if isinstance(entry, UserMessage)]
        )
        == 1
    )
    await agent.aclose()


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize("compaction", ["adaptive", "summary"])
@pytest.mark.parametrize("times", [560, 900, 1_000])
async def test_one_compaction_makes_room_for_a_long_prompt_where_it_can(
    tmp_path: Path, compaction: str, times: int
) -> None:
    """Also where that leaves less than is usually kept, or the window, not the threshold, has room."""
    agent, *_ = await filled(tmp_path, window=16_384, compaction=compaction)
    assert (await agent.prompt(long(9, times))).text == "done"
    [compaction] = compactions_of(agent.session.projection)
    assert compaction.rung == "strategy", "no turn is left out for it"
    assert agent.session.entries.index(compaction) < len(agent.session.entries) - 3, (
        "before the prompt"
    )
    assert broken(agent.session.projection) == []
    await agent.aclose()
