"""The lines of a plain chat: what happened. Pure."""

import re
from typing import Final

from foldline.context import numbers
from foldline.context.harmless import clean_line
from foldline.context.permissions import approval_words
from foldline.context.projection import Projection
from foldline.context.rewind_points import rewind_words
from foldline.protocol import Approval, Clear, ModelChange, Revert, Title, ToolResultMessage, Undo
from foldline.protocol.events import CompactionEnd, CompactionStart
from foldline.tui.state import Room, rung_words

_LONGEST_TITLE = 200
"""Characters of a call's title: a listener can stop a line, but not skip within it."""


def call_words(name: str, title: str) -> str:
    """`[bash] pytest -q …`: a call that runs."""
    title = clean_line(title)
    if len(title) > _LONGEST_TITLE:
        title = f"{title[:_LONGEST_TITLE]}…"
    return f"[{clean_line(name)}] {title} …".replace("  ", " ")


def result_words(result: ToolResultMessage, tokens: int) -> str:
    """`exit 1, 2.2k tokens`: what came of a call."""
    said = clean_line(result.details.brief).removesuffix("✗").strip() or "done"
    failed = "failed: " if result.is_error and not said.startswith("exit") else ""
    return f"{failed}{said}, {numbers.tokens(tokens)} tokens"


def fold_words(start: CompactionStart) -> str:
    """`[fold] threshold, 116.2k tokens …`: a fold that is being made."""
    after = f", about {numbers.tokens(start.expected_after)} expected" if start.expected_after else ""
    return f"[fold] {start.reason}, {numbers.tokens(start.tokens_before)} tokens{after}, Ctrl+C cancels …"


def folded_words(end: CompactionEnd) -> str:
    """`27.4k tokens, 123 entries folded`: what came of a fold."""
    if end.error is not None:
        return "failed, nothing has changed"
    if end.aborted:
        return "cancelled, nothing has changed"
    if end.nothing:
        return "nothing to fold"
    if end.proposed:
        return "drafted"
    how = rung_words(end.rung)
    sizes = f"{numbers.tokens(end.tokens_before)} → {numbers.tokens(end.tokens_after)} tokens"
    return f"{sizes}, {end.folded} entries folded{f', {how}' if how else ''}; /undo takes it back"


def entry_words(entry: Undo | Clear | Revert | ModelChange | Approval | Title, projection: Projection) -> str:
    """What a marker says, as a sentence of its own."""
    match entry:
        case Undo():
            target = projection.entry(entry.target)
            named = {"compaction": "fold", "revert": "rewind"}
            kind = named.get(target.type, target.type) if target is not None else "change"
            return f"The {kind} {entry.target} is undone: the model has again what it had before."
        case Clear():
            return "The context is cleared; the history keeps everything."
        case Revert():
            return f"Rewound: {clean_line(rewind_words(projection, entry))}."
        case ModelChange():
            return f"The model is {clean_line(entry.model)} from here on."
        case Approval():
            return f"Approvals: {clean_line(approval_words(entry))}."
        case Title():
            return f"The session is called “{clean_line(entry.title)}”."


def room_words(room: Room) -> list[str]:
    """The window and what fills it, a line for each share."""
    whole = (
        f"{numbers.tokens(room.size)} of {numbers.short_tokens(room.window, estimated=room.assumed)} tokens"
    )
    lines = [f"The next request takes {whole}, {numbers.percent(room.size, room.window)}."]
    shares = (
        ("System prompt, tools, instructions", room.weights.system),
        ("Summaries and pins", room.weights.summaries),
        ("Verbatim", room.weights.folding + room.weights.verbatim),
    )
    lines += [
        f"{name}: {numbers.tokens(tokens)}, {numbers.percent(tokens, room.size)}." for name, tokens in shares
    ]
    if room.threshold is not None:
        lines.append(f"It is folded from {numbers.tokens(room.threshold)} on.")
    return lines


_END: Final = re.compile(r"\n|[.!?:;][\"'”’)\]]*[ \t]+|[。！？；：]")
"""Where a piece may end: a line, a sentence, a clause that is long enough to be spoken alone."""
_LONG: Final = 400
"""Characters after which a piece ends between two words, for text that has no sentences."""


class SentenceBuffer:
    """Holds what is streamed until it can be said."""

    def __init__(self) -> None:
        self._held = ""

    def add(self, text: str) -> str:
        """What can be said now that this has come; often nothing."""
        searched = max(len(self._held) - 8, 0)  # an end may begin in what is held
        self._held += text
        ends = [found.end() for found in _END.finditer(self._held, searched)]
        if ends:
            return self._take(ends[-1])
        if len(self._held) > _LONG:
            return self._take(self._held.rfind(" ") + 1 or len(self._held))
        return ""

    def rest(self) -> str:
        """What is left when nothing more comes."""
        return self._take(len(self._held))

    def _take(self, end: int) -> str:
        said, self._held = self._held[:end], self._held[end:]
        return said
