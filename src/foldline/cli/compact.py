"""`foldline compact`: compacts a session, or shows the plan only."""

import os
from contextlib import AsyncExitStack, aclosing, closing
from dataclasses import dataclass, replace
from pathlib import Path

from foldline.agent.settings.schema import Amount
from foldline.agent.settings.settings import (
    Settings,
    connect_llm,
    connect_summariser,
    known_window,
)
from foldline.compaction import (
    Plan,
    Proposal,
    dependencies,
    plan,
    plans_by_cut,
    propose,
    strategy_for,
)
from foldline.history import EVENTS, Session, typed_path
from foldline.history.paths import check_new
from foldline.llm import LLM, WithStandIn
from foldline.past.compactions import describe_compaction
from foldline.past.files import file_lists
from foldline.protocol import Compaction, FoldlineError, Reason, events
from foldline.termination import run_async
from foldline.text.numbers import about_tokens, many, tokens
from foldline.view.budget import Budget, budget_for
from foldline.view.items import is_preamble
from foldline.view.projection import Projection
from foldline.view.weight import view_size

from .output import Json, entries_of, note, say, say_heading, say_json
from .settings import session_window, settings_here
from .sources import SourceSession, read_source, write_copy


def compact(
    source: str,
    strategy: str | None,
    focus: str | None,
    window: int | None,
    keep: Amount | None,
    dry_run: bool,
    out: str | None,
    model: str | None,
    as_json: bool,
    format_name: str | None,
) -> int:
    session = read_source(source, format_name)
    settings = settings_here(
        session.header.cwd, model=model, context__window=window, compaction__strategy=strategy,
        compaction__keep_recent_tokens=keep,
        offline__pace=0,  # no user watches the offline model write
    )  # fmt: skip
    target = typed_path(out) if out else None
    if target is not None:
        check_new(target)
    # A manual compaction keeps less than `keep_recent_tokens`, but an explicit --keep is used as given.
    reason: Reason = "manual" if keep is None else "threshold"
    outcome = run_async(
        compact_source(
            session, settings, focus, reason=reason, dry_run=dry_run, out=target
        )
    )
    if as_json:
        say_json(outcome_json(outcome))
    else:
        say_outcome(session, outcome)
    return 0


@dataclass(frozen=True, slots=True)
class CompactOutcome:
    """The result of `foldline compact`: a plan, a draft, or a committed compaction."""

    strategy: str
    budget: Budget
    projection: Projection
    planned: Plan | None = None
    plans_by_cut: bool = True
    """Whether the strategy follows the plan.

    If not, the strategy itself selects the entries.
    """
    proposal: Proposal | None = None
    entry: Compaction | None = None
    """The proposal's entry. Its index is set only after it is committed."""
    written_to: Path | None = None
    dry_run: bool = False


WINDOW_TOO_SMALL = (
    "The context window of {window:,} tokens is too small: the system prompt and instructions take about "
    "{fixed:,} tokens and are never compacted. Set a larger window with --window."
)
NOT_COMMITTED = "not committed: {path} belongs to another agent. Use --out FILE to write a compacted copy."
DRY_RUN = "dry run: no model was called, and nothing was changed."
NO_DRY_PLAN = "a dry run can only show the plan of a strategy that cuts the view. Nothing was changed."
NOTHING_OLD = (
    "Nothing to compact: nothing in the view of {tokens} tokens is old enough. "
    "Nothing was changed."
)


async def compact_source(
    source: SourceSession,
    settings: Settings,
    focus: str | None,
    *,
    reason: Reason,
    dry_run: bool,
    out: Path | None,
) -> CompactOutcome:
    async with AsyncExitStack() as opened:
        llm = await opened.enter_async_context(
            aclosing(connect_llm(settings, os.environ))
        )
        writes = source.is_foldline and out is None and not dry_run
        session = Session.open(source.path) if writes else source.session()
        opened.enter_context(closing(session))
        projection = session.projection
        budget = await _budget(projection, settings, llm, dry_run)
        _check_room(projection, budget)
        own = connect_summariser(settings, os.environ)
        writer: LLM = llm
        if own is not None:
            writer = WithStandIn(await opened.enter_async_context(aclosing(own)), llm)
        strategy_dependencies = dependencies(writer, Path(session.cwd), session=session)
        strategy = strategy_for(settings.strategy(strategy_dependencies), "manual")
        outcome = CompactOutcome(
            strategy=type(strategy).__name__,
            budget=budget,
            projection=projection,
            planned=plan(projection, budget, reason),
            plans_by_cut=plans_by_cut(strategy),
            dry_run=dry_run,
        )
        if dry_run or (outcome.planned is None and outcome.plans_by_cut):
            return outcome
        if writes:
            session.claim()  # so that a locked session fails before a request costs money
        await writer.prepare()
        proposal = await propose(
            projection,
            strategy=strategy,
            llm=writer,
            budget=budget,
            reason="manual",
            planned=outcome.planned,
            focus=focus,
            session=session.id if source.is_foldline else "",
            progress=_report,
        )
        if proposal is None:
            return replace(outcome, planned=None)
        entry = proposal.entry
        outcome = replace(outcome, proposal=proposal, entry=entry)
        if out is not None:
            entry = write_copy(out, source.header, source.entries, entry)
            return replace(outcome, entry=entry, written_to=out)
        if not writes:
            return outcome
        [committed] = await session.append(entry, durable=True)
        assert isinstance(committed, Compaction)
        if source.path.name == EVENTS:
            session.save_meta()
        return replace(outcome, entry=committed, written_to=source.path)


async def _budget(
    projection: Projection, settings: Settings, llm: LLM, dry_run: bool
) -> Budget:
    """Return the budget for the window of the session's model.

    If that window is unknown, the configured model is used.
    """
    session_model_window = session_window(projection, settings)
    window = session_model_window.tokens
    if session_model_window.assumed:
        llm_window = llm.info.window if dry_run else await known_window(llm)
        window = max(
            llm_window, projection.meter.window_proof(projection.meter.model).largest
        )
    budget_settings = settings.budget_settings(window)
    return budget_for(window, llm.info.max_output, budget_settings)


def _check_room(projection: Projection, budget: Budget) -> None:
    """Check that the window has space for the instructions and a summary.

    Raises:
        FoldlineError: the window is too small.
    """
    scale = projection.meter.scale
    fixed = round(
        scale
        * sum(item.tokens for item in projection.view if is_preamble(item.message))
    )
    if fixed + budget.max_summary_tokens >= budget.threshold:
        raise FoldlineError(WINDOW_TOO_SMALL, window=budget.window, fixed=fixed)


def _report(progress: events.CompactionProgress | events.Retrying) -> None:
    sentence = (
        str(progress) if isinstance(progress, events.Retrying) else progress.detail
    )
    if sentence:
        note(sentence)


def outcome_json(outcome: CompactOutcome) -> Json:
    """Return the object for `--json` output.

    Without a draft, the object contains the plan's numbers, or null if the strategy does not follow the plan.
    """
    planned = outcome.planned
    proposal = outcome.proposal
    entry = outcome.entry
    size = view_size(outcome.projection).tokens
    counts = proposal or planned
    result: Json = {
        "strategy": outcome.strategy,
        "reason": "manual",
        "rung": None,
        "tokens_before": size,
        "tokens_after": planned.tokens_expected if planned else size,
        "first_kept_index": planned.cut.first_kept_index
        if planned and planned.cut
        else None,
        "kept": counts.kept if counts else len(outcome.projection.view),
        "compacted": counts.compacted if counts else 0,
        "summary": "",
        "facts": 0,
        "lost": 0,
        "details": file_lists(outcome.projection).model_dump(mode="json"),
        "model": None,
        "model_calls": proposal.model_calls if proposal else 0,
        "committed": outcome.written_to is not None,
        "index": entry.index if entry and outcome.written_to else None,
        "path": str(outcome.written_to) if outcome.written_to else None,
        "dry_run": outcome.dry_run,
        "window": outcome.budget.window,
    }
    if entry:
        result |= entry.model_dump(mode="json", include=_ENTRY_FIELDS)
    if outcome.dry_run and not outcome.plans_by_cut:
        result |= dict.fromkeys(
            ("tokens_after", "first_kept_index", "kept", "compacted")
        )
    return result


_ENTRY_FIELDS = {
    "strategy", "rung", "tokens_before", "tokens_after", "first_kept_index", "summary", "facts", "lost",
    "details", "model",
}  # fmt: skip
"""Names of the drafted compaction's fields that replace the plan's fields of the same names."""


def say_outcome(source: SourceSession, outcome: CompactOutcome) -> None:
    if outcome.entry is None or outcome.proposal is None:
        _say_plan(source, outcome)
        return
    entry = outcome.entry
    description = f"{entries_of(outcome.proposal.compacted)} compacted"
    description += f" · kept from entry {entry.first_kept_index} on"
    if not entry.summary:
        description = (
            f"{describe_compaction(outcome.projection, entry)}, no summary written"
        )
    sizes = f"{tokens(entry.tokens_before)} → {tokens(entry.tokens_after)} tokens"
    say_heading(f"{source.name} · {sizes} · {description}")
    if entry.summary:
        say(f"\n{entry.summary}\n")
    if outcome.written_to is None:
        note(NOT_COMMITTED.format(path=source.path))
    elif outcome.written_to == source.path:
        note(f"committed as entry {entry.index} of {source.name}.")
    else:
        copy = f"{outcome.written_to}, with the compaction as entry {entry.index}"
        note(f"written to {copy}; {source.path} is unchanged.")


NO_PLAN = "does not plan ahead"


def _say_plan(source: SourceSession, outcome: CompactOutcome) -> None:
    size = view_size(outcome.projection)
    before = tokens(size.tokens, estimated=size.estimated)
    planned = outcome.planned
    window = f"{outcome.budget.window:,} tokens, full at {outcome.budget.threshold:,}"
    if outcome.dry_run and not outcome.plans_by_cut:
        say_heading(
            f"{source.name} · the view has {before} tokens; {outcome.strategy} {NO_PLAN}"
        )
        say(f"  {'window':<9} {window}")
        note(NO_DRY_PLAN)
        return
    if planned is None:
        say(NOTHING_OLD.format(tokens=before))
        return
    after = about_tokens(planned.tokens_expected)
    say_heading(f"{source.name} · compacting would reduce {before} to {after} tokens")
    summarised = f"{entries_of(planned.compacted)} into 1 summary"
    rows = [
        ("strategy", outcome.strategy),
        ("window", window),
        ("compacted", summarised if planned.cut else "only large items clipped"),
        ("kept", many(planned.kept, "item")),
    ]
    if planned.cut:
        rows.append(
            (
                "cut",
                f"◆ entry {planned.cut.first_kept_index}, the first one kept verbatim",
            )
        )
        if planned.cut.request is not None:
            rows.append(
                (
                    "request",
                    f"entry {planned.cut.request.index} stays verbatim: its turn is split",
                )
            )
    for name, value in rows:
        say(f"  {name:<9} {value}")
    note(DRY_RUN)
