"""`foldline compact`: compacts a session from the command line, or only says what that would do."""

import os
from contextlib import AsyncExitStack, aclosing, closing
from dataclasses import dataclass, replace
from pathlib import Path

from foldline.agent.settings import Settings, connect_embedder, connect_llm, connect_summariser, known_window
from foldline.agent.settings_schema import Amount
from foldline.compaction import Plan, Proposal, dependencies, plan, plans_by_cut, propose, strategy_for
from foldline.context.budget import Budget, budget_for
from foldline.context.compactions import describe_compaction
from foldline.context.files import file_lists
from foldline.context.numbers import about_tokens, many, tokens
from foldline.context.projection import Projection
from foldline.context.view import is_preamble
from foldline.context.weight import view_size
from foldline.history import EVENTS, Session, typed_path
from foldline.history.paths import check_new
from foldline.llm import LLM, WithStandIn
from foldline.protocol import Compaction, FoldlineError, Reason, events
from foldline.termination import run_async

from .output import Json, entries_of, note, say, say_heading, say_json
from .settings import session_window, settings_here
from .sources import Source, read_source, write_copy


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
    found = read_source(source, format_name)
    settings = settings_here(
        found.header.cwd, model=model, context__window=window, compaction__strategy=strategy,
        compaction__keep_recent_tokens=keep,
        offline__pace=0,  # nobody watches it being written
    )  # fmt: skip
    target = typed_path(out) if out else None
    if target is not None:
        check_new(target)
    # An amount to keep that was asked for is kept; without one, compacting by hand keeps less.
    reason: Reason = "manual" if keep is None else "threshold"
    outcome = run_async(compact_source(found, settings, focus, reason=reason, dry_run=dry_run, out=target))
    if as_json:
        say_json(outcome_json(outcome))
    else:
        say_outcome(found, outcome)
    return 0


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of it: a plan only, a proposal, or a proposal that was committed."""

    strategy: str
    budget: Budget
    projection: Projection
    planned: Plan | None = None
    plans_by_cut: bool = True
    """Whether the plan is what the strategy would do; others decide by themselves what goes."""
    proposal: Proposal | None = None
    entry: Compaction | None = None
    """The proposal's entry; with its index where it was committed."""
    written_to: Path | None = None
    dry_run: bool = False


async def compact_source(
    source: Source, settings: Settings, focus: str | None, *, reason: Reason, dry_run: bool, out: Path | None
) -> Outcome:
    async with AsyncExitStack() as opened:
        llm = await opened.enter_async_context(aclosing(connect_llm(settings, os.environ)))
        writes = source.ours and out is None and not dry_run
        session = Session.open(source.path) if writes else source.session()
        opened.enter_context(closing(session))
        projection = session.projection
        budget = await _budget(projection, settings, llm, dry_run)
        _check_room(projection, budget)
        own = connect_summariser(settings, os.environ)
        writer: LLM = llm
        if own is not None:
            writer = WithStandIn(await opened.enter_async_context(aclosing(own)), llm)
        embedder = connect_embedder(settings, os.environ)
        given = dependencies(writer, Path(session.cwd), session=session, embedder=embedder)
        strategy = strategy_for(settings.strategy(given), "manual")
        outcome = Outcome(
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
            session.claim()  # before the model is asked: whoever may not write should not pay
        await writer.prepare()
        proposal = await propose(
            projection,
            strategy=strategy,
            llm=writer,
            budget=budget,
            reason="manual",
            planned=outcome.planned,
            focus=focus,
            session=session.id if source.ours else "",
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


async def _budget(projection: Projection, settings: Settings, llm: LLM, dry_run: bool) -> Budget:
    """The limits of the model the session was held with; of the configured one where that is not known."""
    held_with = session_window(projection, settings)
    window = held_with.tokens
    if held_with.assumed:
        asked = llm.info.window if dry_run else await known_window(llm)
        window = max(asked, projection.window_proof(projection.model).largest)
    chosen = settings.budget_settings(window, projection.model or llm.info.id)
    return budget_for(window, llm.info.max_output, chosen)


def _check_room(projection: Projection, budget: Budget) -> None:
    """Raises FoldlineError where what is never compacted fills the window alone."""
    scale = projection.scale
    fixed = round(scale * sum(item.tokens for item in projection.view if is_preamble(item.message)))
    if fixed + budget.max_summary_tokens >= budget.threshold:
        raise FoldlineError(
            f"The window of {budget.window:,} tokens is too small: the system prompt and instructions, which "
            f"are never compacted, take about {fixed:,}; set a larger one with --window."
        )


def _report(progress: events.CompactionProgress | events.Retrying) -> None:
    said = str(progress) if isinstance(progress, events.Retrying) else progress.detail
    if said:
        note(said)


def outcome_json(outcome: Outcome) -> Json:
    """The shape programs rely on. Where nothing was drafted, the plan's numbers stand in; null where only the
    strategy would know."""
    planned, proposal, entry = outcome.planned, outcome.proposal, outcome.entry
    size = view_size(outcome.projection).tokens
    counts = proposal or planned
    result: Json = {
        "strategy": outcome.strategy,
        "reason": "manual",
        "rung": None,
        "tokens_before": size,
        "tokens_after": planned.tokens_expected if planned else size,
        "first_kept_index": planned.cut.first_kept_index if planned and planned.cut else None,
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
        result |= entry.model_dump(mode="json", include=_OF_ENTRY)
    if outcome.dry_run and not outcome.plans_by_cut:
        result |= dict.fromkeys(("tokens_after", "first_kept_index", "kept", "compacted"))
    return result


_OF_ENTRY = {
    "strategy", "rung", "tokens_before", "tokens_after", "first_kept_index", "summary", "facts", "lost",
    "details", "model",
}  # fmt: skip
"""Fields of a drafted compaction that take the place of the plan's."""


def say_outcome(source: Source, outcome: Outcome) -> None:
    if outcome.entry is None or outcome.proposal is None:
        _say_plan(source, outcome)
        return
    entry = outcome.entry
    done = f"{entries_of(outcome.proposal.compacted)} compacted · kept from entry {entry.first_kept_index} on"
    if not entry.summary:
        done = f"{describe_compaction(outcome.projection, entry)}, no summary written"
    say_heading(
        f"{source.name} · {tokens(entry.tokens_before)} → {tokens(entry.tokens_after)} tokens · {done}"
    )
    if entry.summary:
        say(f"\n{entry.summary}\n")
    if outcome.written_to is None:
        stays = f"{source.path} is only read and stays as it is"
        note(f"not committed: {stays}; --out FILE writes a compacted copy.")
    elif outcome.written_to == source.path:
        note(f"committed as entry {entry.index} of {source.name}.")
    else:
        where = f"the compaction as entry {entry.index}"
        note(f"written to {outcome.written_to}, {where}; {source.path} stays as it is.")


def _say_plan(source: Source, outcome: Outcome) -> None:
    size = view_size(outcome.projection)
    before, planned = tokens(size.tokens, estimated=size.estimated), outcome.planned
    window = f"{outcome.budget.window:,} tokens, full at {outcome.budget.threshold:,}"
    if outcome.dry_run and not outcome.plans_by_cut:
        say_heading(
            f"{source.name} · the view has {before} tokens; only {outcome.strategy} knows what would go"
        )
        say(f"  {'window':<9} {window}")
        note(
            "a dry run: it shows the plan of strategies that cut, and this one does not. Nothing was changed."
        )
        return
    if planned is None:
        say(f"Nothing to compact: the view of {before} tokens holds nothing old enough. Nothing was changed.")
        return
    after = about_tokens(planned.tokens_expected)
    say_heading(f"{source.name} · compacting would take {before} to {after} tokens")
    summarised = f"{entries_of(planned.compacted)} into 1 summary"
    rows = [
        ("strategy", outcome.strategy),
        ("window", window),
        ("compacted", summarised if planned.cut else "only what is large clipped"),
        ("kept", many(planned.kept, "item")),
    ]
    if planned.cut:
        rows.append(("cut", f"◆ entry {planned.cut.first_kept_index}, the first one kept verbatim"))
        if planned.cut.request is not None:
            rows.append(("request", f"entry {planned.cut.request.index} stays verbatim: its turn is split"))
    for name, value in rows:
        say(f"  {name:<9} {value}")
    note("a dry run: no model was asked, and nothing was changed.")
