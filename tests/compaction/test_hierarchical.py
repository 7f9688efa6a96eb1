"""Three levels: messages are shortened, turns become notes, topics become milestones; each made once."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from foldline.compaction import (
    DigestCompaction,
    HierarchicalCompaction,
    Proposal,
    RedraftOptions,
    SummaryCompaction,
    propose,
)
from foldline.compaction.note_writer import REMEMBERED, Memory
from foldline.compaction.notes import MILESTONES, TURNS, Note, Record, parsed
from foldline.compaction.strategy import CompactionStrategy
from foldline.compaction.summary_text import notes_of
from foldline.context.budget import Budget
from foldline.context.invariants import broken
from foldline.context.projection import Projection, project
from foldline.context.tokens import estimate_tokens
from foldline.llm import LLM
from foldline.llm.offline import OfflineLLM
from foldline.protocol import Reason, dump_entry, parse_entry
from support.history import History, call, history, modified
from support.llm import BAD_DRAFTS, HANG, ScriptedLLM, overflow
from support.noting import NotingLLM
from support.projections import folds_of

WORK = "what the command said, line after line: all is well\n" * 12
"""About 150 tokens."""
BUDGET = Budget(
    window=32_768, reserve_tokens=4_096, keep_recent_tokens=100, max_summary_tokens=1_600, soft_ratio=0.75
)
ROOMY = replace(BUDGET, max_summary_tokens=6_000)
"""A summary in which every note stays."""
TIGHT = replace(BUDGET, max_summary_tokens=500)


def session(turns: int, built: History | None = None, name: str = "request") -> History:
    built = built or history().system("You are careful.")
    for turn in range(turns):
        built.turn(f"{name} {turn}", f"raw answer to {name} {turn}. {WORK}")
    return built


async def proposed(
    built: History | Projection,
    llm: LLM,
    strategy: CompactionStrategy | None = None,
    *,
    budget: Budget = BUDGET,
    reason: Reason = "threshold",
    focus: str | None = None,
    options: RedraftOptions | None = None,
) -> Proposal:
    proposal = await propose(
        built if isinstance(built, Projection) else built.projection(),
        strategy=strategy or HierarchicalCompaction(),
        llm=llm,
        budget=budget,
        reason=reason,
        focus=focus,
        options=options,
    )
    assert proposal is not None
    assert proposal.entry.rung == "strategy", proposal.troubles
    return proposal


async def folded(
    built: History, llm: LLM, strategy: CompactionStrategy | None = None, **options: object
) -> Record:
    """Proposes and commits; the summary by its levels."""
    proposal = await proposed(built, llm, strategy, **options)
    before = built.projection()
    after = built.add(proposal.entry).projection()
    assert broken(after) == []
    assert after.tokens < before.tokens
    return parsed(proposal.notes)


def texts(notes: tuple[Note, ...]) -> str:
    return "\n".join(note.text for note in notes)


# --- the levels -----------------------------------------------------------------------------------------


async def test_each_turn_becomes_a_note_under_its_entries_and_the_sections_stand_over_all() -> None:
    built, llm = session(4), NotingLLM()
    record = await folded(built, llm, budget=ROOMY)
    assert record.overview == "## Goal\n- overview 2"
    assert [(note.first, note.last, note.text) for note in record.turns] == [
        (1, 2, "- Asked: request 0"),
        (3, 4, "- Asked: request 1"),
        (5, 6, "- Asked: request 2"),
    ]
    assert record.milestones == ()
    assert len(llm.requests) == 2


async def test_the_overview_is_made_from_the_notes_and_not_from_the_turns() -> None:
    llm = NotingLLM()
    await folded(session(4), llm)
    assert "- Asked: request 1" in llm.prompts[-1]
    assert "raw answer" not in llm.prompts[-1]


async def test_where_room_is_short_older_notes_become_milestones_and_the_newest_stay() -> None:
    llm = NotingLLM()
    record = await folded(session(60), llm, budget=TIGHT)
    assert record.milestones
    assert record.turns
    assert record.turns[-1].text == "- Asked: request 58"
    assert record.milestones[0].first == 1
    assert record.milestones[-1].last < record.turns[0].first
    assert "raw answer" not in "".join(llm.asked_for("topic"))
    assert "- Asked: request 0" in llm.asked_for("topic")[0]


async def test_consecutive_turns_about_the_same_files_become_one_milestone() -> None:
    built = history().system("s")
    for nth in range(40):
        built.turn(f"look at src/cart/basket.py, totals {nth}", WORK)
    for nth in range(40):
        built.turn(f"fix docs/guide/install.md, wording {nth}", WORK)
    built.turn("and now?", WORK).turn("then?", WORK)
    llm = NotingLLM()
    await folded(built, llm, budget=replace(BUDGET, max_summary_tokens=1_500))
    mixed = ["basket" in topic and "install" in topic for topic in llm.asked_for("topic")]
    assert len(mixed) > 1
    assert not any(mixed)


async def test_many_tiny_turns_share_requests() -> None:
    built = history().system("s")
    for nth in range(60):
        built.turn(f"say {nth}", f"said {nth}, and a little more than that, to be polite about it")
    llm = NotingLLM()
    await folded(built, llm)
    assert len(llm.asked_for("turn")) > 50
    assert len(llm.requests) <= 5


# --- what is there already is not made again ------------------------------------------------------------


async def test_a_second_fold_reads_the_notes_of_the_first_one_and_none_of_its_turns() -> None:
    built, llm, strategy = session(4), NotingLLM(), HierarchicalCompaction()
    first = await folded(built, llm, strategy, budget=ROOMY)
    llm.forget()
    session(3, built, "later")
    second = await folded(built, llm, strategy, budget=ROOMY)
    everything = "\n".join(llm.prompts)
    assert second.turns[:3] == first.turns
    assert "raw answer to request 0" not in everything
    assert "- Asked: request 0" in everything
    assert [text.splitlines()[0] for text in llm.asked_for("turn")] == [
        "[User]: request 3",
        "[User]: later 0",
        "[User]: later 1",
    ]


async def test_after_a_restart_older_notes_are_promoted_from_the_summarys_text() -> None:
    built = session(12)
    tight = replace(BUDGET, max_summary_tokens=700)
    first = await folded(built, NotingLLM(), budget=tight)
    session(20, built, "later")
    reopened = History()
    for entry in built.entries:
        reopened.add(parse_entry(dump_entry(entry)))
    llm = NotingLLM()
    second = await folded(reopened, llm, HierarchicalCompaction(), budget=tight)
    assert first.turns[-1].text in "".join(llm.asked_for("topic"))
    assert first.turns[-1] not in second.turns
    assert second.milestones[0].first == 1
    assert "request 0" not in "".join(llm.asked_for("turn"))


async def test_the_earlier_summary_is_an_input_of_every_later_one() -> None:
    built, llm = session(8), NotingLLM()
    for nth in range(4):
        await folded(built, llm, budget=TIGHT)
        notes = notes_of(folds_of(built.projection())[-1].summary)
        session(8, built, f"later {nth}")
        await folded(built, llm, budget=TIGHT)
        assert notes in llm.prompts[-1]
        session(8, built, f"even later {nth}")


async def test_another_cut_asks_only_for_the_turn_it_divides_anew() -> None:
    built, llm, strategy = session(6).user("read it"), NotingLLM(), HierarchicalCompaction()
    for nth in range(4):
        built.step("read", WORK, path=f"{nth}.py")
    await proposed(built, llm, strategy)
    llm.forget()
    await proposed(built, llm, strategy, options=RedraftOptions(first_kept_index=9))
    assert llm.asked_for("turn") == []
    await proposed(built, llm, strategy, options=RedraftOptions(first_kept_index=16))
    assert [text.splitlines()[0] for text in llm.asked_for("turn")] == ["[User]: read it"]


async def test_a_fold_after_an_undo_asks_only_for_the_overview() -> None:
    built, llm, strategy = session(40), NotingLLM(), HierarchicalCompaction()
    first = await folded(built, llm, strategy, budget=TIGHT)
    llm.forget()
    second = await folded(built.undo(), llm, strategy, budget=TIGHT)
    assert (second.milestones, second.turns) == (first.milestones, first.turns)
    assert len(llm.requests) == 1


async def test_a_draft_that_was_cancelled_goes_on_where_it_stopped() -> None:
    built, strategy = session(200), HierarchicalCompaction()
    full = NotingLLM()
    await proposed(built, full)
    first, second, *_ = [prompt for prompt in full.prompts if "<turn " in prompt]
    assert len(full.requests) > 3
    hanging = ScriptedLLM(full.answer_to(first), HANG)
    task = asyncio.create_task(proposed(built, hanging, strategy))
    await hanging.silent.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    llm = NotingLLM()
    await proposed(built, llm, strategy)
    assert llm.prompts[0] == second
    assert len(llm.requests) == len(full.requests) - 1


async def test_what_is_remembered_is_bounded() -> None:
    memory = Memory()
    for nth in range(REMEMBERED + 10):
        memory.put(str(nth), "note")
    assert (memory.get("9"), memory.get("10")) == (None, "note")


# --- what the reader asks for ---------------------------------------------------------------------------


async def test_a_focus_reaches_the_overview_with_passages_from_notes_made_without_it() -> None:
    built, llm, strategy = session(3), NotingLLM(), HierarchicalCompaction()
    built.turn("deploy it", f"The staging port is 7431. {WORK}").turn("more", WORK)
    await proposed(built, llm, strategy)
    llm.forget()
    await proposed(built, llm, strategy, focus="staging port")
    [prompt] = llm.prompts
    assert prompt.endswith("Additional focus: staging port")
    assert "The staging port is 7431." in prompt.partition("<passages>")[2]


async def test_guidance_and_the_overview_of_the_earlier_draft_reach_the_next_one() -> None:
    built, llm, strategy = session(6), NotingLLM(), HierarchicalCompaction()
    first = await proposed(built, llm, strategy)
    llm.forget()
    options = RedraftOptions(guidance="name the owner", earlier_draft=first.notes)
    await proposed(built, llm, strategy, options=options)
    [prompt] = llm.prompts
    draft = prompt.partition("<draft>")[2]
    assert "name the owner" in prompt
    assert "overview 2" in draft
    assert TURNS not in draft


async def test_a_chinese_conversation_is_asked_about_in_chinese() -> None:
    built = history().system("s")
    for nth in range(30):
        built.turn(f"请修改第 {nth} 个配置文件", "已经改好了，测试全部通过。" * 20)
    llm = NotingLLM()
    record = await folded(built, llm, budget=TIGHT)
    assert {"写一条笔记", "合并成一个里程碑", "重写总览"} == {
        words for words in ("写一条笔记", "合并成一个里程碑", "重写总览") for p in llm.prompts if words in p
    }
    assert "请修改第 28 个配置文件" in texts(record.turns)


# --- the size -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "wordy", ["- Done: " + "all of it, " * 600, "word " * 20_000], ids=["line", ", book"]
)
@pytest.mark.parametrize("most", [200, 500, 1_600])
async def test_the_summary_keeps_to_its_size_also_where_the_model_does_not(wordy: str, most: int) -> None:
    built, llm = session(60), ScriptedLLM(always=wordy)
    proposal = await proposed(built, llm, budget=replace(BUDGET, max_summary_tokens=most))
    assert estimate_tokens(proposal.notes) <= most
    assert len(llm.requests) <= 16


async def test_an_answer_that_does_not_tell_the_turns_apart_is_one_note_on_all_of_them() -> None:
    llm = ScriptedLLM("They asked for four things.", "## Goal\n- go on")
    record = await folded(session(5), llm, budget=ROOMY)
    assert record.turns == (Note("They asked for four things.", 1, 8),)


@pytest.mark.parametrize("kind", BAD_DRAFTS)
async def test_a_bad_note_is_repaired_once(kind: str) -> None:
    llm = NotingLLM(BAD_DRAFTS[kind])
    await proposed(session(5), llm)
    assert llm.prompts[1].startswith(llm.prompts[0])


async def test_milestones_that_the_model_writes_into_its_overview_are_left_out() -> None:
    llm = NotingLLM("- Asked: x", f"## Goal\n- go on\n\n{MILESTONES}\n### Entries 1–9\n- invented")
    record = await folded(session(5), llm, budget=ROOMY)
    assert (record.overview, record.milestones) == ("## Goal\n- go on", ())


async def test_names_and_paths_of_modifying_calls_reach_the_notes_also_of_a_giant_message() -> None:
    built = session(2).user("change it all")
    body = "x = 1\n" * 100_000
    edits = [{"path": f"src/part{nth}.py", "text": "y\n" * 50} for nth in range(40)]
    built.assistant(calls=[call("write", path="src/giant.py", content=body), call("multi_edit", edits=edits)])
    built.result("ok", files=[modified("src/giant.py")]).result("ok").assistant("Changed.")
    session(3, built, "later")
    llm = NotingLLM()
    await folded(built, llm)
    read = "\n".join(llm.asked_for("turn"))
    assert "write(path='src/giant.py'" in read
    assert all(f"src/part{nth}.py" in read for nth in range(40))
    assert estimate_tokens(read) < 8_000


# --- beside other strategies ----------------------------------------------------------------------------


async def test_an_earlier_summary_of_another_strategy_becomes_the_oldest_milestone() -> None:
    built = session(4)
    await folded(built, ScriptedLLM("## Goal\n- port the cart"), SummaryCompaction())
    session(4, built, "later")
    llm = NotingLLM()
    record = await folded(built, llm, budget=ROOMY)
    assert "## Goal\n- port the cart" in llm.prompts[-1]
    assert record.milestones == (Note("**Goal**\n- port the cart"),)


async def test_a_later_fold_of_another_strategy_takes_all_levels_along() -> None:
    built = session(40)
    first = await folded(built, NotingLLM(), budget=TIGHT)
    session(4, built, "later")
    llm = ScriptedLLM("## Goal\n- all of it")
    await proposed(built, llm, SummaryCompaction(), budget=TIGHT)
    assert first.rendered() in llm.prompts[0]
    digest = await proposed(built, ScriptedLLM(), DigestCompaction(), budget=ROOMY)
    for note in (*first.milestones, *first.turns):
        assert note.text.removeprefix("- ") in digest.notes


async def test_an_edited_summary_is_read_back_as_it_was_edited() -> None:
    built = session(4)
    proposal = await proposed(built, NotingLLM(), budget=ROOMY)
    edited = proposal.revised(notes=proposal.notes.replace("- Asked: request 1", "- Asked: mine"))
    built.add(edited.entry)
    session(4, built, "later")
    record = await folded(built, NotingLLM(), budget=ROOMY)
    assert "- Asked: mine" in texts(record.turns)


async def test_a_split_turn_keeps_its_request_and_its_next_part_is_told_from_there_on() -> None:
    built, strategy = session(2).user("read it all"), HierarchicalCompaction()
    for nth in range(6):
        built.step("read", WORK * 3, path=f"{nth}.py")
    first = await folded(built, NotingLLM(), strategy, budget=ROOMY)
    for nth in range(6, 12):
        built.step("read", WORK * 3, path=f"{nth}.py")
    second = await folded(built, NotingLLM(), strategy, budget=ROOMY)
    assert (
        [message.text for message in built.projection().requests_in_view] == ["read it all"]
        if hasattr(built.projection(), "requests_in_view")
        else "read it all" in [item.message.text for item in built.projection().view]
    )
    assert second.turns[-1].first == first.turns[-1].last + 1


# --- windows --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("window", [2_048, 4_096, 16_384])
async def test_no_request_is_larger_than_the_models_window(window: int) -> None:
    built = session(100).user("paste").assistant("x " * 200_000)
    built.step("bash", "E   AssertionError: 4 != 5\n" * 20_000, command="pytest")
    session(3, built, "later")
    llm = NotingLLM(window=window)
    await folded(built, llm, budget=replace(BUDGET, max_summary_tokens=400))
    for request in llm.requests:
        assert request.max_output is not None
        sent = sum(estimate_tokens(message.text) for message in request.messages)
        assert sent + request.max_output <= window


async def test_a_request_refused_as_too_long_is_asked_in_smaller_ones() -> None:
    built = session(60)
    llm = NotingLLM(overflow())
    await folded(built, llm)
    assert len(llm.prompts[1]) < len(llm.prompts[0])
    assert len(set(llm.prompts)) == len(llm.prompts)


async def test_the_offline_model_writes_levels_that_only_quote(tmp_path: Path) -> None:
    built = history().system("s")
    for nth in range(30):
        built.user(f"Fix module_{nth}.py, the test must pass.")
        built.step(
            "edit", "ok", path=f"src/module_{nth}.py", old="a" * 600, files=[modified(f"src/module_{nth}.py")]
        )
        built.assistant(f"module_{nth} is fixed because the index was off by one. {WORK}")

    async def at_once(_: float) -> None:
        return None

    record = await folded(built, OfflineLLM(32_768, pace=0, sleep=at_once), budget=TIGHT)
    assert "edit · src/module_28.py" in texts(record.turns)
    assert "module_" in texts(record.milestones)
    assert "module_29" in record.overview
    assert project(built.entries).view[-1].message.text == built.entries[-2].text
