"""Right of the timeline: when the shown request left, what it weighed, what was new in it. Pure."""

from typing import Final

from foldline.context.asked import Asked
from foldline.context.budget import Size
from foldline.context.files import folded_count
from foldline.context.moments import Against, Moment, against_before, as_of_request
from foldline.context.numbers import many
from foldline.context.projection import Projection
from foldline.protocol import AssistantMessage, Compaction, Entry, RequestRecord
from foldline.tui import numbers
from foldline.tui.blocks import Span, clean_line
from foldline.tui.blocks.cells import Spans
from foldline.tui.inspector.chart import SHOWN
from foldline.tui.inspector.past import Verdict

_GAP: Final = "   "
_ON_ITS_WAY: Final = "on its way …"


def now_words(now: Projection, size: Size, activity: str) -> tuple[Spans, ...]:
    """Of the next request, which nobody has counted yet."""
    number = len(now.requests) + 1
    in_flight = "in flight" in activity
    state = "in flight" if in_flight else "not sent yet"
    newest = now.entries[-1] if in_flight else None
    tokens = numbers.tokens(size.tokens, estimated=size.estimated)
    if size.estimated:
        weight = f"{tokens} estimated" + ("; reported when it ends" if in_flight else "")
    else:
        weight = f"{tokens}: the last report, and an estimate of what came since"
    lines: list[Spans] = [_head(f"request {number}", newest, now.model, state), ((weight, "text"),)]
    if number > 1:
        before = now.requests[number - 2]
        was = sizes_words(before, on_record=now.records_requests)
        lines.append(((f"request {number - 1}: {was}", "text"),))
        since = as_of_request(now, number - 1).length
        lines.append(((against_words(against_before(now, number - 1, since)), "muted"),))
    return tuple(lines)


def request_words(
    now: Projection, moment: Moment, then: Projection | None, proof: Verdict | None
) -> tuple[Spans, ...]:
    """Of a request that left; without `then`, the history as it was, that is being put together."""
    asked = moment.asked
    assert asked is not None, "a request is asked"
    entry = now.entries[asked.position]
    model, state = None, ""
    match entry:
        case RequestRecord():
            model, state = entry.model, f"failed: {clean_line(entry.error)}" if entry.error else ""
        case AssistantMessage():
            model = entry.model
        case _:
            pass
    lines: list[Spans] = [_head(moment.name, entry, model, state, failed=bool(state))]
    lines.append(((sizes_words(asked, on_record=moment.sent is not None), "text"),))
    lines.append((_proof_words(moment, then, proof),))
    if moment.number > 1 and then is not None:
        since = as_of_request(now, moment.number - 1).length
        lines.append(((against_words(against_before(then, moment.number - 1, since)), "muted"),))
    return tuple(lines)


def fold_words(now: Projection, moment: Moment, then: Projection | None, diff_key: str) -> tuple[Spans, ...]:
    """Of a fold: what it made of how much."""
    entry = now.entry(moment.number)
    if not isinstance(entry, Compaction):
        return (_head(moment.name, entry, None, ""),)
    lines: list[Spans] = [_head(moment.name, entry, entry.model, entry.reason)]
    if entry.tokens_before and entry.tokens_after:
        lines.append(
            ((f"{numbers.tokens(entry.tokens_before)} → {numbers.tokens(entry.tokens_after)}", "text"),)
        )
    if then is None:
        lines.append(((_ON_ITS_WAY, "muted"),))
        return tuple(lines)
    written = len(entry.written)
    folded = folded_count(then, entry)
    if written:
        lines.append(
            ((f"{many(folded, 'entry', 'entries')} → {many(written, 'summary', 'summaries')}", "text"),)
        )
    lines.append(((f"{diff_key} shows what it changed", "muted"),))
    return tuple(lines)


def sizes_words(asked: Asked, *, on_record: bool) -> str:
    """`26,871 reported, 26,604 estimated (−1.0 %)`, or what of it is known.

    An estimate that is not `on_record` is of what the history holds: other agents keep their system prompt
    and their tools to themselves.
    """
    if asked.error is None:
        return f"~{asked.estimated:,} estimated, nothing reported"
    if not on_record:
        return f"{asked.reported:,} reported; what the history holds of it: ~{asked.estimated:,}"
    return f"{asked.reported:,} reported, {asked.estimated:,} estimated ({off_by(asked.error)})"


def off_by(error: float) -> str:
    """`−1.0 %`: how far an estimate is off."""
    value = round(error * 100, 1)
    return f"{'−' if value < 0 else '+' if value > 0 else '±'}{abs(value):.1f} %"


def against_words(against: Against) -> str:
    """`against 84: 2 items added, nothing above them changed`."""
    if not against.added and not against.changed_by:
        return f"against {against.number}: the same once more"
    added = f"against {against.number}: {many(against.added, 'item')} added"
    if not against.changed_by:
        return f"{added}, nothing above {'it' if against.added == 1 else 'them'} changed"
    by = ", ".join(map(str, against.changed_by[:3])) + (" …" if len(against.changed_by) > 3 else "")
    return f"{added}, above changed by {by}"


def brief(moment: Moment | None, now: Projection, size: Size) -> str:
    """The same in a few words, for a narrow frame."""
    if moment is None:
        return f"request {len(now.requests) + 1} {numbers.tokens(size.tokens, estimated=size.estimated)}"
    if moment.asked is None:
        return moment.name
    return f"{moment.name} {numbers.tokens(moment.asked.tokens, estimated=moment.asked.is_estimated)}"


def _head(name: str, entry: Entry | None, model: str | None, state: str, *, failed: bool = False) -> Spans:
    parts: list[Span] = [(f"{SHOWN} ", "accent"), (name, "bold")]
    if entry is not None and entry.at is not None:
        parts.append((f"{_GAP}{entry.at.astimezone():%H:%M:%S}", "text"))
    if model:
        parts.append((f"{_GAP}{clean_line(model)}", "text"))
    if state:
        parts.append((f"{_GAP}{state}", "alert" if failed else "text"))
    return tuple(parts)


def _proof_words(moment: Moment, then: Projection | None, proof: Verdict | None) -> Span:
    if then is None:
        return _ON_ITS_WAY, "muted"
    if moment.sent is None:
        return "no record of it: this is what the history gives", "muted"
    if proof is None:
        return "its record is compared …", "muted"
    return (
        ("as sent, proved by its record", "live") if proof.holds else (f"not proved: {proof.words}", "alert")
    )
