"""The failure ladder: one rung after another until the view fits, each announced, no turn dropped in vain."""

from collections.abc import Sequence

import pytest

from foldline.compaction import (
    WORDS,
    CompactionContext,
    CompactionFailed,
    CompactionStrategy,
    DigestCompaction,
    HidingThenSummaryCompaction,
    Proposal,
    SimpleCompaction,
    SummaryCompaction,
    TruncateTurns,
    propose,
)
from foldline.compaction.fallbacks import (
    NOTHING_TO_COMPACT,
    REJECTED_BY,
    STRATEGY_FAILED,
    TOO_LARGE,
    TRYING,
)
from foldline.compaction.rewrite import NOT_SMALLER, REQUEST_MISSING, faults
from foldline.compaction.summary_writer import NO_SECTIONS
from foldline.compaction.truncation import ClipGiants
from foldline.llm import ContextOverflow, LLMError
from foldline.protocol import (
    BaseMessage,
    Compaction,
    FoldlineError,
    Reason,
    Usage,
    events,
)
from foldline.view.budget import Budget
from foldline.view.rules import broken
from support.history import History, call, history
from support.llm import ScriptedLLM, Step, overflow, refusal

LINE = "what the command said, line after line: all is well\n"
BUDGET = Budget(
    window=16_384,
    reserve_tokens=2_048,
    keep_recent_tokens=700,
    max_summary_tokens=1_600,
    soft_ratio=0.75,
)


def steps(count: int, lines: int, request: str = "read it all") -> History:
    """One long turn: `count` reads of `lines` lines, each seen, then an answer."""
    built = history().system("s").user(request)
    for nth in range(count):
        built.step("read", LINE * lines, path=f"{nth}.py")
    return built


async def climb(
    built: History,
    *script: Step,
    reason: Reason = "threshold",
    strategy: CompactionStrategy | None = None,
    budget: Budget = BUDGET,
    heard: list[events.CompactionProgress] | None = None,
) -> Proposal | None:
    return await propose(
        built.projection(),
        strategy=strategy or SummaryCompaction(),
        llm=ScriptedLLM(*script),
        budget=budget,
        reason=reason,
        progress=(lambda _: None) if heard is None else heard.append,
    )


async def commit(built: History, proposal: Proposal | None) -> Compaction:
    """Add the proposed compaction to the history, check every invariant and return its entry."""
    assert proposal is not None
    before = built.projection()
    after = built.add(proposal.entry).projection()
    assert broken(after) == []
    assert after.tokens < before.tokens
    assert proposal.after == tuple(
        item.message
        if item.index != after.last_index
        else item.message.model_copy(update={"index": -1})
        for item in after.view
    )
    return proposal.entry


async def test_a_summary_request_rejected_as_too_long_is_repeated_in_chunks() -> None:
    built = steps(12, 60)
    compaction = await commit(
        built, await climb(built, overflow(), *(f"notes {n}" for n in range(9)))
    )
    assert compaction.rung == "chunks"
    assert compaction.summary.startswith("notes")


async def test_old_results_are_hidden_first_without_a_model() -> None:
    built = steps(20, 60)
    compaction = await commit(built, await climb(built, refusal()))
    assert (compaction.rung, compaction.strategy) == (
        "hide",
        "ToolResultHidingCompaction",
    )
    assert compaction.summary == ""
    fates = [built.projection().fate(index).kind for index in range(3, 43, 2)]
    assert fates == ["hidden"] * 15 + ["live"] * 5


async def test_later_instructions_move_to_the_front_of_the_view_as_proposed() -> None:
    built = steps(10, 60).instructions("Count money in cents.")
    for nth in range(10, 20):
        built.step("read", LINE * 60, path=f"{nth}.py")
    compaction = await commit(built, await climb(built, refusal()))
    assert compaction.rung == "hide"
    assert [item.kind for item in built.projection().view[:3]] == [
        "system",
        "developer",
        "user",
    ]


async def test_giant_results_are_clipped_if_hiding_is_not_enough() -> None:
    built = steps(5, 220)
    compaction = await commit(built, await climb(built, refusal()))
    assert compaction.rung == "clip"
    assert {built.projection().fate(index).kind for index in (3, 5, 7, 9)} == {
        "clipped"
    }
    assert built.projection().fate(11).kind == "live"  # no request has carried it yet


async def test_the_digest_compacts_if_nothing_is_left_to_clip() -> None:
    built = history().system("s")
    for turn in range(16):
        built.turn(f"request {turn}", LINE * 60)
    compaction = await commit(built, await climb(built, refusal()))
    assert (compaction.rung, compaction.strategy) == ("digest", "DigestCompaction")
    assert "request 0" in compaction.summary


async def test_hide_then_summary_summarises_in_the_same_run_if_hiding_is_not_enough() -> (
    None
):
    built = history().system("s")
    for turn in range(16):
        built.turn(f"request {turn}", LINE * 60)
    built.user("read them")
    for nth in range(6):
        built.step("read", LINE * 4, path=f"{nth}.py")
    proposal = await climb(
        built.assistant("read"), "notes", strategy=HidingThenSummaryCompaction()
    )
    compaction = await commit(built, proposal)
    assert (compaction.rung, compaction.strategy) == (
        "strategy",
        "HidingThenSummaryCompaction",
    )
    assert compaction.summary.startswith("notes")


class KeepsAll:
    """Summarise the first turn and keep everything else."""

    async def compact(self, ctx: CompactionContext) -> Sequence[BaseMessage]:
        return [ctx.history[0], *ctx.history[3:]]


async def test_an_oversized_strategy_result_shrinks_without_a_summary_of_a_summary() -> (
    None
):
    built = history().system("s").turn("first", "one")
    built.user("go on")
    for nth in range(20):
        built.step("read", LINE * 60, path=f"{nth}.py")
    proposal = await climb(built, strategy=KeepsAll())
    compaction = await commit(built, proposal)
    assert compaction.rung == "hide"
    assert built.projection().fate(1).kind == "truncated"


async def test_no_turn_is_dropped_if_dropping_would_not_make_the_view_fit() -> None:
    """Pinned results fill the window: neither hidden, clipped, digested nor left out."""
    small = Budget(8_192, 1_024, 300, 800, 0.75)
    built = history().system("s")
    for turn in range(4):
        built.user(f"pinned {turn}").step(
            "read", LINE * 115, path=f"{turn}.py"
        ).assistant("kept")
        built.edit("pin", built.last - 1)
    for turn in range(4):
        built.turn(f"request {turn}", LINE * 60)
    built.user("and now?")
    compaction = await commit(built, await climb(built, "short notes", budget=small))
    projection = built.projection()
    assert compaction.rung == "strategy"
    assert "truncated" not in {
        projection.fate(entry.index).kind for entry in built.entries
    }
    assert projection.view[-1].message.text == "and now?"


async def test_unseen_results_before_a_new_prompt_survive_dropping_turns() -> None:
    built = history().system("s")
    for turn in range(8):
        built.turn(f"request {turn}", LINE * 40)
    built.user("read it").step("read", LINE * 10, path="a.py").user("and go on")
    view = [item.message for item in built.projection().view]
    ctx = CompactionContext(view, 0, 16_384, 2_048, ScriptedLLM())
    after = await TruncateTurns(target=200).compact(ctx)
    assert after is not None
    assert faults(view, after, frozenset()) == []
    assert [message.text for message in after][-4:] == [
        "read it",
        "",
        LINE * 10,
        "and go on",
    ]


@pytest.mark.parametrize("answered", [False, True])
async def test_clipping_spares_a_request_that_is_smaller_than_the_new_view(
    answered: bool,
) -> None:
    built = history().system("s").user("first").assistant("a long answer " * 900)
    for _ in range(4):
        built.user("go on").assistant("a short answer " * 200)
    built.user("a long request " * 500)
    if answered:
        built.assistant("done")
    view = [item.message for item in built.projection().view]
    ctx = CompactionContext(view, 0, 16_384, 2_048, ScriptedLLM())
    after = await ClipGiants(room=1_000, clips_talk=True).compact(ctx)
    assert after is not None
    assert after[2].text != view[2].text
    assert faults(view, after, frozenset()) == []


async def test_clipping_shortens_a_request_that_is_larger_than_the_new_view() -> None:
    built = history().system("s").user("a long request " * 5_000)
    view = [item.message for item in built.projection().view]
    ctx = CompactionContext(view, 0, 16_384, 2_048, ScriptedLLM())
    after = await ClipGiants(room=4_000, clips_talk=True).compact(ctx)
    assert after is not None
    assert after[1].text != view[1].text
    assert faults(view, after, frozenset()) == []


async def test_truncated_turns_are_not_reported_as_summarised() -> None:
    class SummarisesFirstMessage:
        async def compact(self, ctx: CompactionContext) -> Sequence[BaseMessage]:
            from foldline.compaction.summary_text import framed

            return [ctx.history[0], framed("the first turn"), *ctx.history[3:]]

    built = history().system("s").turn("first", LINE * 20)
    for turn in range(16):
        built.turn(f"request {turn}", LINE * 60)
    built.user("and now?")
    compaction = await commit(
        built, await climb(built, strategy=SummarisesFirstMessage())
    )
    projection = built.projection()
    assert compaction.rung == "truncate"
    assert projection.fate(1).kind == "summarised"
    assert projection.fate(3).kind == "truncated"
    assert [item.kind for item in projection.view][:2] == ["system", "summary"]
    assert projection.view[-1].message.text == "and now?"


class Raises:
    async def compact(self, ctx: CompactionContext) -> None:
        raise KeyError("oops")


class Rubbish:
    async def compact(self, ctx: CompactionContext) -> list[str]:
        return ["not a message"]


class DropsTheRequest:
    async def compact(self, ctx: CompactionContext) -> Sequence[BaseMessage]:
        return ctx.history[:-1]


class ChangesNothing:
    async def compact(self, ctx: CompactionContext) -> Sequence[BaseMessage]:
        return ctx.history


@pytest.mark.parametrize("reason", ["manual", "phase", "threshold"])
@pytest.mark.parametrize(
    ("strategy", "says"),
    [
        (SummaryCompaction(), "The key was refused: check OPENAI_API_KEY."),
        (Raises(), STRATEGY_FAILED.format("Raises", "KeyError", "'oops'")),
        (Rubbish(), STRATEGY_FAILED.format("Rubbish", "AttributeError", "")[:-2]),
        (
            DropsTheRequest(),
            REJECTED_BY.format(
                "DropsTheRequest", REQUEST_MISSING.format("unanswered", 5)
            ),
        ),
        (ChangesNothing(), REJECTED_BY.format("ChangesNothing", NOT_SMALLER)[:-1]),
    ],
)
async def test_no_fallback_follows_a_failed_strategy_while_the_window_has_room(
    strategy: CompactionStrategy, says: str, reason: Reason
) -> None:
    built = history().system("s").turn("a", LINE * 60).turn("b", LINE * 60).user("and?")
    llm = ScriptedLLM(refusal())
    with pytest.raises(FoldlineError) as failure:
        await propose(
            built.projection(), strategy=strategy, llm=llm, budget=BUDGET, reason=reason
        )
    assert says in str(failure.value)
    assert "\n" not in str(failure.value)


async def test_chunks_follow_another_strategy_only_in_a_full_window() -> None:
    class TooLong:
        async def compact(self, ctx: CompactionContext) -> None:
            raise overflow()

    with pytest.raises(ContextOverflow):
        await climb(steps(6, 20).assistant("read"), strategy=TooLong(), reason="manual")
    compaction = await commit(
        full := steps(20, 60),
        await climb(full, *(f"notes {n}" for n in range(9)), strategy=TooLong()),
    )
    assert (compaction.rung, compaction.strategy) == ("chunks", "SummaryCompaction")


async def test_an_overflow_clips_a_single_giant_unseen_result() -> None:
    """The request that carried it was rejected; clipped with a handle, it still reaches the model."""
    built = (
        history().system("s").user("read it").step("read", LINE * 700, path="giant.log")
    )
    assert await climb(built, reason="threshold") is None
    compaction = await commit(built, await climb(built, reason="overflow"))
    assert compaction.rung == "clip"
    assert built.projection().fate(3).kind == "clipped"
    assert "history_read(3)" in built.projection().view[-1].message.text


async def test_an_overflow_clips_many_unseen_results_to_equal_shares() -> None:
    """No single result is a giant, but their sum is."""
    built = history().system("s").user("read them all")
    built.assistant(calls=[call("read", path=f"{n}.py") for n in range(10)])
    for _ in range(10):
        built.result(LINE * 150)
    compaction = await commit(built, await climb(built, reason="overflow"))
    projection = built.projection()
    assert compaction.rung == "clip"
    assert {projection.fate(index).kind for index in range(3, 13)} == {"clipped"}
    assert BUDGET.window // 4 < projection.tokens < BUDGET.window // 2 + 500


async def test_an_overflow_that_no_rung_resolves_yields_no_proposal() -> None:
    built = history().system("s").user(LINE * 2_000)
    assert await climb(built, reason="overflow") is None


async def test_every_rung_is_announced_with_the_failure_of_the_previous_rung() -> None:
    built = history().system("s")
    for turn in range(16):
        built.turn(f"request {turn}", LINE * 60)
    heard: list[events.CompactionProgress] = []
    proposal = await climb(built, refusal(), heard=heard)
    assert proposal is not None
    assert proposal.troubles == ("The key was refused: check OPENAI_API_KEY.",)
    told = [event for event in heard if event.detail]
    assert [event.rung for event in told] == ["digest"]
    assert (
        told[0].detail
        == f"The key was refused: check OPENAI_API_KEY. {TRYING.format(WORDS['digest'])}"
    )


class FindsNothing:
    async def compact(self, ctx: CompactionContext) -> None:
        return None


class LeavesNearlyAll:
    async def compact(self, ctx: CompactionContext) -> Sequence[BaseMessage]:
        return [*ctx.history[:1], *ctx.history[3:]]


@pytest.mark.parametrize(
    ("strategy", "why"),
    [
        (FindsNothing(), f"{NOTHING_TO_COMPACT} "),
        (LeavesNearlyAll(), TOO_LARGE.partition("}")[2]),
    ],
)
async def test_a_rung_is_announced_with_the_size_the_previous_rung_left(
    strategy: CompactionStrategy, why: str
) -> None:
    heard: list[events.CompactionProgress] = []
    assert await climb(turns(20), strategy=strategy, heard=heard) is not None
    told = [event.detail for event in heard if event.detail]
    assert told and all(why in detail for detail in told)


def turns(count: int) -> History:
    """Finished turns of 60 lines each: 16 are above the threshold, 20 above the window."""
    built = history().system("s")
    for turn in range(count):
        built.turn(f"request {turn}", LINE * 60)
    return built.user("and?")


@pytest.mark.parametrize("strategy", [Raises(), DropsTheRequest(), ChangesNothing()])
async def test_a_failed_strategy_is_named_and_the_ladder_continues_in_a_full_window(
    strategy: CompactionStrategy,
) -> None:
    built = turns(20)
    proposal = await climb(built, strategy=strategy)
    compaction = await commit(built, proposal)
    assert proposal is not None
    assert compaction.rung == "digest"
    assert type(strategy).__name__ in proposal.troubles[0]


@pytest.mark.parametrize("reason", ["manual", "threshold"])
@pytest.mark.parametrize("strategy", [Raises(), DropsTheRequest(), ChangesNothing()])
async def test_a_failing_custom_strategy_changes_nothing_while_the_next_request_fits(
    strategy: CompactionStrategy, reason: Reason
) -> None:
    with pytest.raises(CompactionFailed, match=type(strategy).__name__):
        await climb(turns(16), strategy=strategy, reason=reason)


@pytest.mark.parametrize("count", [16, 20])
async def test_a_refused_key_stops_a_manual_compaction_even_in_a_full_window(
    count: int,
) -> None:
    with pytest.raises(LLMError, match="key was refused"):
        await climb(turns(count), refusal(), reason="manual")


async def test_a_model_whose_window_cannot_hold_a_summary_is_not_called() -> None:
    built = history().system("s")
    for turn in range(4):
        built.turn(f"request {turn}", LINE * 30)
    llm = ScriptedLLM(window=1_024)
    view = built.projection()
    with pytest.raises(CompactionFailed, match=r"compaction\.model"):
        await propose(
            view, strategy=SummaryCompaction(), llm=llm, budget=BUDGET, reason="manual"
        )
    assert llm.requests == []
    compaction = await propose(
        view, strategy=DigestCompaction(), llm=llm, budget=BUDGET, reason="manual"
    )
    assert compaction is not None


# --- the cache-preserving form -------------------------------------------------------------------------


def with_warm_cache(cached: int = 900) -> History:
    """Build a session whose last request was served from the provider's cache."""
    built = history().system("s").user("earlier")
    for nth in range(5):
        built.step("read", LINE * 60, path=f"{nth}.py")
    reported = Usage(input=built.projection().tokens, cached=cached, output=5)
    built.assistant("read", usage=reported, model="scripted").asked()
    return built.turn("small", "turn").user("and now?")


@pytest.mark.parametrize("strategy", [SummaryCompaction(), SimpleCompaction()])
async def test_a_warm_cache_request_is_the_view_up_to_the_cut_plus_one_instruction(
    strategy: CompactionStrategy,
) -> None:
    built = with_warm_cache()
    before = [item.message for item in built.projection().view]
    llm = ScriptedLLM("notes from the cache")
    proposal = await propose(
        built.projection(), strategy=strategy, llm=llm, budget=BUDGET, reason="manual"
    )
    compaction = await commit(built, proposal)
    [request] = llm.requests
    view = [item.message for item in built.projection().view]
    assert compaction.summary.startswith("notes from the cache")
    *prefix, instruction = request.messages
    assert prefix == before[: len(prefix)]
    assert instruction.text.startswith("<summary-request>")
    assert "Tools are off" in instruction.text
    assert request.tools_off
    assert (
        compaction.first_kept_index >= prefix[-1].index
    )  # the same where it is the request of a split turn
    assert view[0] == prefix[0]


@pytest.mark.parametrize(
    "cold", ["no cache reported", "another model", "the view has changed"]
)
async def test_a_cold_cache_leads_to_the_text_form(cold: str) -> None:
    built = with_warm_cache(cached=0 if cold == "no cache reported" else 900)
    llm = ScriptedLLM("notes")
    if cold == "another model":
        llm.info = type(llm.info)(id="another", window=100_000)
    if cold == "the view has changed":
        built.edit("hide", 3)
    await propose(
        built.projection(),
        strategy=SummaryCompaction(),
        llm=llm,
        budget=BUDGET,
        reason="manual",
    )
    assert ["<conversation>" in prompt for prompt in llm.prompts] == [True]


@pytest.mark.parametrize(
    "refused",
    [
        LLMError("Unknown role.", status=400),
        overflow(),
    ],
    ids=["refused", "too long"],
)
async def test_the_text_form_follows_if_the_model_ignores_the_instruction(
    refused: Step,
) -> None:
    built = with_warm_cache()
    llm = ScriptedLLM(refused, "notes")
    proposal = await propose(
        built.projection(),
        strategy=SummaryCompaction(),
        llm=llm,
        budget=BUDGET,
        reason="manual",
    )
    assert proposal is not None
    assert (proposal.entry.rung, proposal.entry.summary.split("\n")[0]) == (
        "strategy",
        "notes",
    )
    assert "<conversation>" in llm.prompts[1]


A_CALL = (
    history().assistant("let me look", calls=[call("read", "c1", path="x")]).entries[0]
)
SNIPPET = "```python\nimport os\n" + "print(os.environ)\n" * 20 + "```"


@pytest.mark.parametrize(
    "unusable", [A_CALL, SNIPPET], ids=["a tool call", "none of the sections"]
)
async def test_an_unusable_draft_is_first_repaired_on_the_same_prefix(
    unusable: Step,
) -> None:
    built = with_warm_cache()
    llm = ScriptedLLM(unusable, "notes")
    proposal = await propose(
        built.projection(),
        strategy=SummaryCompaction(),
        llm=llm,
        budget=BUDGET,
        reason="manual",
    )
    assert proposal is not None
    first, second = llm.requests
    assert second.messages[:-1] == first.messages[:-1]
    assert second.messages[-1].text.startswith(first.messages[-1].text)
    assert "could not be used" in second.messages[-1].text
    assert second.tools == first.tools


async def test_two_unusable_drafts_lead_to_the_text_form() -> None:
    built = with_warm_cache()
    llm = ScriptedLLM(A_CALL, SNIPPET, SNIPPET, "## Goal\n- to finish")
    proposal = await propose(
        built.projection(),
        strategy=SummaryCompaction(),
        llm=llm,
        budget=BUDGET,
        reason="manual",
    )
    assert proposal is not None
    assert ["<conversation>" in prompt for prompt in llm.prompts] == [
        False,
        False,
        True,
        True,
    ]
    assert NO_SECTIONS.rstrip(".") in llm.prompts[3]
    assert "print(" not in proposal.entry.summary


LONG_NOTES = (
    "The service looks up and inserts in two transactions, so two retries pass. " * 6
)
PLAIN = (
    "So far the files were read one after the other, and all of them say that all is well. "
    * 6
)


@pytest.mark.parametrize(
    "draft",
    [
        f"## Next Steps\n{LONG_NOTES}\n## Goal\n- to finish",
        f"# Goal\n- to finish\n##### Done\n{LONG_NOTES}",
        f"**Goal:** to finish\n\n**Key Decisions:** {LONG_NOTES}",
        f"1. Goal\n- to finish\n2. Key Decisions\n{LONG_NOTES}",
        f"Goal: to finish\nDone: {LONG_NOTES}",
        f"## 目标\n- 完成\n## 下一步\n{LONG_NOTES}",
        f"## Objectif\n- finir\n## Décisions\n{LONG_NOTES}\n## Prochaines étapes\n- tester",
    ],
    ids=[
        "another order",
        "other levels",
        "bold",
        "numbers",
        "bare",
        "Chinese",
        "French",
    ],
)
async def test_notes_are_accepted_under_headings_of_any_form(draft: str) -> None:
    llm = ScriptedLLM(draft)
    built = steps(
        12, 60
    )  # one turn: the sections asked for are those of its first part
    proposal = await propose(
        built.projection(),
        strategy=SummaryCompaction(),
        llm=llm,
        budget=BUDGET,
        reason="manual",
    )
    assert proposal is not None
    assert len(llm.requests) == 1
    assert "two transactions" in proposal.entry.summary


@pytest.mark.parametrize(
    "draft", [PLAIN, SNIPPET, "for f in *; do\n  echo $f\ndone\n" * 20]
)
async def test_a_full_window_is_compacted_even_without_a_usable_draft(
    draft: str,
) -> None:
    built = steps(20, 60)
    compaction = await commit(built, await climb(built, *[draft] * 9))
    assert (compaction.rung, compaction.summary) == ("hide", "")
    assert built.projection().tokens < BUDGET.threshold


async def test_a_refused_key_is_not_retried_in_the_other_form() -> None:
    llm = ScriptedLLM(refusal())
    with pytest.raises(LLMError, match="key was refused"):
        await propose(
            with_warm_cache().projection(),
            strategy=SummaryCompaction(),
            llm=llm,
            budget=BUDGET,
            reason="manual",
        )
    assert len(llm.requests) == 1


async def test_both_forms_carry_focus_and_guidance() -> None:
    from foldline.compaction import RedraftOptions

    for built in (with_warm_cache(), with_warm_cache(cached=0)):
        llm = ScriptedLLM("notes")
        await propose(
            built.projection(),
            strategy=SummaryCompaction(),
            llm=llm,
            budget=BUDGET,
            reason="manual",
            focus="the parser",
            options=RedraftOptions(
                guidance="name the tests", earlier_draft="the old draft"
            ),
        )
        [prompt] = llm.prompts
        assert "Additional focus: the parser" in prompt
        assert "name the tests" in prompt
        assert "<draft>\nthe old draft\n</draft>" in prompt


async def test_a_compaction_that_fails_on_every_rung_explains_why() -> None:
    class Refuses:
        async def compact(self, ctx: CompactionContext) -> None:
            raise CompactionFailed("my own reason")

    built = history().system("s").user("only this")
    with pytest.raises(CompactionFailed, match="my own reason"):
        await climb(built, strategy=Refuses(), reason="manual")
