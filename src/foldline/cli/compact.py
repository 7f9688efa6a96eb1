"""`foldline compact`: fold a session from the command line, or only say what a fold would do."""

import os
from dataclasses import dataclass, replace
from pathlib import Path

from foldline.agent.settings import (
    Settings,
    connect_embedder,
    connect_llm,
    connect_summariser,
    known_window,
)
from foldline.agent.settings_schema import Amount
from foldline.compaction import (
    Dependencies,
    Plan,
    Proposal,
    dependencies,
    plan,
    plans_by_cut,
    propose,
    strategy_for,
)
from foldline.context.budget import Budget, budget_for
from foldline.context.files import describe_compaction, file_lists
from foldline.context.numbers import about_tokens, tokens
from foldline.context.projection import Projection
from foldline.context.view import is_preamble
from foldline.context.weight import view_size
from foldline.history import EVENTS, Session, typed_path
from foldline.llm import LLM
from foldline.protocol import Compaction, FoldlineError, Reason, events

from .copying import check_new, write_copy
from .loop import run_async
from .output import note, say, say_heading, say_json
from .sources import Source, read_source
from .windows import session_window, settings_here


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


def run(
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
    outcome = run_async(_compact(found, settings, focus, by_hand=keep is None, dry_run=dry_run, out=target))
    if as_json:
        say_json(outcome_json(outcome))
    else:
        _say(found, outcome)
    return 0


async def _compact(
    source: Source, settings: Settings, focus: str | None, *, by_hand: bool, dry_run: bool, out: Path | None
) -> Outcome:
    llm = connect_llm(settings, os.environ)
    writer = llm
    try:
        session = _session(source, writing=not dry_run and out is None)
        projection = session.projection
        budget = await _budget(projection, settings, llm, dry_run)
        _check_room(projection, budget)
        # An amount to keep that was asked for is kept; without one, a fold by hand keeps less than others.
        reason: Reason = "manual" if by_hand else "threshold"
        writer = connect_summariser(settings, os.environ) or llm
        strategy = strategy_for(settings.strategy(_dependencies(settings, writer, session)), "manual")
        outcome = Outcome(type(strategy).__name__, budget, projection, dry_run=dry_run)
        outcome = replace(
            outcome, planned=plan(projection, budget, reason), plans_by_cut=plans_by_cut(strategy)
        )
        if dry_run or (outcome.planned is None and outcome.plans_by_cut):
            return outcome
        writes = session if source.ours and out is None else None
        if writes is not None:
            writes.claim()  # before the model is asked: whoever may not write should not pay
        try:
            await writer.prepare()
            proposal = await propose(
                projection,
                strategy=strategy,
                llm=writer,
                budget=budget,
                reason=reason,
                focus=focus,
                progress=_tell,
            )
            if proposal is None:
                return replace(outcome, planned=None)
            entry = proposal.entry.model_copy(update={"reason": "manual"})
            outcome = replace(outcome, proposal=proposal, entry=entry)
            return await _commit(source, outcome, entry, writes, out)
        finally:
            session.close()
    finally:
        await llm.aclose()
        if writer is not llm:
            await writer.aclose()


def _dependencies(settings: Settings, writer: LLM, session: Session) -> Dependencies:
    embedder = connect_embedder(settings, os.environ)
    return dependencies(writer, Path(session.cwd), session=session, embedder=embedder)


def _session(source: Source, *, writing: bool) -> Session:
    """Ours is opened to be written to, everything else to be looked at."""
    return Session.open(source.path) if source.ours and writing else source.session()


async def _commit(
    source: Source, outcome: Outcome, entry: Compaction, writes: Session | None, out: Path | None
) -> Outcome:
    if out is not None:
        entry = write_copy(out, source.header, source.entries, entry)
        return replace(outcome, entry=entry, written_to=out)
    if writes is None:
        return outcome
    [committed] = await writes.append(entry, durable=True)
    assert isinstance(committed, Compaction)
    if source.path.name == EVENTS:
        writes.save_meta()
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
    """Raises FoldlineError where what is never folded fills the window by itself."""
    scale = projection.calibration.scale(projection.model)
    fixed = round(scale * sum(item.tokens for item in projection.view if is_preamble(item.message)))
    if fixed + budget.max_summary_tokens >= budget.threshold:
        raise FoldlineError(
            f"The window of {budget.window:,} tokens is too small: the system prompt and instructions, which "
            f"are never folded, take about {fixed:,}; set a larger one with --window."
        )


def _tell(progress: events.CompactionProgress | events.Retrying) -> None:
    if isinstance(progress, events.Retrying):
        note(str(progress))
    elif progress.detail:
        note(progress.detail)


# --- results ----------------------------------------------------------------------------------------


def outcome_json(outcome: Outcome) -> dict[str, object]:
    """The shape programs rely on. Where nothing was drafted, the plan's numbers stand in; null where only the
    strategy would know."""
    planned, proposal, entry = outcome.planned, outcome.proposal, outcome.entry
    size = view_size(outcome.projection).tokens
    first_kept = planned.cut.first_kept_index if planned and planned.cut else None
    details = entry.details if entry else file_lists(outcome.projection)
    unknown = {"tokens_after": None, "first_kept_index": None, "kept": None, "folded": None}
    return {
        "strategy": entry.strategy if entry else outcome.strategy,
        "reason": "manual",
        "rung": entry.rung if entry else None,
        "tokens_before": entry.tokens_before if entry else size,
        "tokens_after": entry.tokens_after if entry else planned.tokens_expected if planned else size,
        "first_kept_index": entry.first_kept_index if entry else first_kept,
        "kept": proposal.kept if proposal else planned.kept if planned else len(outcome.projection.view),
        "folded": proposal.folded if proposal else planned.folded if planned else 0,
        "summary": entry.summary if entry else "",
        "facts": entry.facts if entry else 0,
        "lost": entry.lost if entry else 0,
        "details": details.model_dump(mode="json"),
        "model": entry.model if entry else None,
        "model_calls": proposal.model_calls if proposal else 0,
        "committed": outcome.written_to is not None,
        "index": entry.index if entry and outcome.written_to else None,
        "path": str(outcome.written_to) if outcome.written_to else None,
        "dry_run": outcome.dry_run,
        "window": outcome.budget.window,
        **(unknown if outcome.dry_run and not outcome.plans_by_cut else {}),
    }


def _say(source: Source, outcome: Outcome) -> None:
    size = view_size(outcome.projection)
    before = tokens(size.tokens, estimated=size.estimated)
    if outcome.entry is None or outcome.proposal is None:
        if outcome.dry_run and not outcome.plans_by_cut:
            _say_without_plan(source, outcome, before)
        elif outcome.planned is None:
            say(
                f"Nothing to fold: the view of {before} tokens holds nothing old enough. Nothing was changed."
            )
        else:
            _say_plan(source, outcome, outcome.planned, before)
        return
    entry = outcome.entry
    sizes = f"{tokens(entry.tokens_before)} → {tokens(entry.tokens_after)} tokens"
    say_heading(f"{source.name} · {sizes} · {_done(outcome.projection, entry, outcome.proposal)}")
    if entry.summary:
        say(f"\n{entry.summary}\n")
    match outcome.written_to:
        case None:
            note(
                f"not committed: {source.path} is only read and stays as it is; "
                "--out FILE writes a folded copy."
            )
        case path if path == source.path:
            note(f"committed as entry {entry.index} of {source.name}.")
        case path:
            note(f"written to {path}, the fold as entry {entry.index}; {source.path} stays as it is.")


def _say_without_plan(source: Source, outcome: Outcome, before: str) -> None:
    say_heading(f"{source.name} · the view has {before} tokens; only {outcome.strategy} knows what would go")
    say(f"  {'window':<9} {_window(outcome.budget)}")
    note("a dry run: it shows the plan of strategies that cut, and this one does not. Nothing was changed.")


def _window(budget: Budget) -> str:
    return f"{budget.window:,} tokens, full at {budget.threshold:,}"


def _say_plan(source: Source, outcome: Outcome, planned: Plan, before: str) -> None:
    say_heading(
        f"{source.name} · a fold would take {before} to {about_tokens(planned.tokens_expected)} tokens"
    )
    rows = [
        ("strategy", outcome.strategy),
        ("window", _window(outcome.budget)),
        (
            "folded",
            f"{_entries(planned.folded)} into 1 summary" if planned.cut else "only what is large clipped",
        ),
        ("kept", f"{planned.kept} item{'' if planned.kept == 1 else 's'}"),
    ]
    if planned.cut:
        rows.append(("cut", f"◆ entry {planned.cut.first_kept_index}, the first one kept verbatim"))
        if planned.cut.request is not None:
            rows.append(("request", f"entry {planned.cut.request.index} stays verbatim: its turn is split"))
    for name, value in rows:
        say(f"  {name:<9} {value}")
    note("a dry run: no model was asked, and nothing was changed.")


def _done(projection: Projection, entry: Compaction, proposal: Proposal) -> str:
    if not entry.summary:
        return f"{describe_compaction(projection, entry)}, no summary written"
    return f"{_entries(proposal.folded)} folded · kept from entry {entry.first_kept_index} on"


def _entries(count: int) -> str:
    return f"{count} entr{'y' if count == 1 else 'ies'}"
