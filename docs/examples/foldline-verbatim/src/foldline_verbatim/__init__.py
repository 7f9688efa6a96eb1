"""A compaction strategy that leaves out and never rephrases."""

from collections.abc import Iterator, Sequence

from foldline import estimate_text_tokens
from foldline.compaction import CompactionContext
from foldline.protocol import (
    AssistantMessage,
    BaseMessage,
    SystemMessage,
    ToolResultMessage,
    UserMessage,
    text_parts,
)

LONGEST = 160
HEAD = (
    "Quoted from the earlier session, the rest left out. `history_read` opens an entry."
)


class Verbatim:
    """Quotes prompts, then calls in one line each with their outcome, then answers, while there is room.

    The newest come first. It reads the originals each time, so that it never quotes a quote.
    """

    async def compact(self, ctx: CompactionContext) -> Sequence[BaseMessage] | None:
        if not ctx.cut_position:
            return None  # nothing is old enough
        before, tail = ctx.history[: ctx.cut_position], ctx.history[ctx.cut_position :]
        first = {m.index for m in ctx.preamble}
        request = max(
            (m.index for m in ctx.history if isinstance(m, UserMessage)), default=-1
        )
        stays = [m for m in before if m.index in ctx.pins or m.index == request]
        there = first | {m.index for m in (*stays, *tail)}
        quoted = [
            *quotes([m for index, m in ctx.originals.items() if index not in there])
        ]
        room, chosen = ctx.max_summary_tokens, set[int]()
        for place in sorted(
            range(len(quoted)), key=lambda place: (quoted[place][0], -place)
        ):
            cost = estimate_text_tokens(quoted[place][1]) + 1
            if cost <= room:
                room -= cost
                chosen.add(place)
        text = "\n".join([HEAD, *(quoted[place][1] for place in sorted(chosen))])
        summary = SystemMessage(origin="summary", parts=text_parts(text))
        return [*ctx.preamble, summary, *stays, *tail]


def quotes(messages: Sequence[BaseMessage]) -> Iterator[tuple[int, str]]:
    """Yield the lines in their order, each with its rank: 0 is chosen first."""
    results = {m.call_id: m for m in messages if isinstance(m, ToolResultMessage)}
    for message in messages:
        if isinstance(message, UserMessage) and message.typed.strip():
            yield 0, f"[user · entry {message.index}] {message.typed.strip()}"
        if isinstance(message, AssistantMessage) and message.text.strip():
            yield 2, f"[assistant · entry {message.index}] {message.text.strip()}"
        for call in message.calls if isinstance(message, AssistantMessage) else ():
            outcome = status(results.get(call.call_id))
            yield (
                1,
                f"[{call.name} · entry {message.index}] {call.arguments[:LONGEST]} → {outcome}",
            )


def status(result: ToolResultMessage | None) -> str:
    """Return the outcome of a call: `exit 1`, `312 lines`, or the last line of an error."""
    if result is None:
        return "no result"
    last = (result.text.strip().splitlines() or [""])[-1]
    return result.details.brief or (
        f"failed: {last[:LONGEST]}" if result.is_error else "ok"
    )
