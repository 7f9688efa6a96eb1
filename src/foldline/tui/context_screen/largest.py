"""The heaviest items of the next request, each with what can be done about it. Pure; reads the few entries it
lists and no others."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

from foldline.context.numbers import many
from foldline.context.outline import MessageOutline
from foldline.context.projection import Projection
from foldline.context.tally import kind_of as category_of
from foldline.context.view import IN_VIEW, ViewItem, hidden_placeholder, item_from
from foldline.context.weight import Category, Schemas, item_weight
from foldline.protocol import BaseMessage, DeveloperMessage, ToolResultMessage
from foldline.tui.blocks import Key, Span, clean_line, cut_left
from foldline.tui.context_screen.keys import KEYS
from foldline.tui.fates import GUTTER_SIGNS, gutter_sign, letter
from foldline.tui.keys.table import name_of
from foldline.tui.panels.edit_hints import change_words
from foldline.tui.panels.words import call_of, call_title, kind_of, message_words

LISTED: Final = 20
"""How many items are listed."""
_PATH: Final = 18
"""Cells that the path of an instruction file has."""
_TOOLS: Final = -2
"""Keys of tool schemas are this number and those below it."""


@dataclass(frozen=True, slots=True)
class Planned:
    """What a compaction by hand would give now, by its plan. Sizes in tokens."""

    before: int
    after: int
    entries: int
    """How many would leave the view."""
    taken: Collection[Key] = ()
    """Items it would take."""
    clipped: Collection[Key] = ()
    """Large results it would shorten."""
    taken_tokens: int = 0
    """What of the request it would take away, its summary not counted."""


@dataclass(frozen=True, slots=True)
class Item:
    """One of the heaviest things in the next request, and what can be done about it."""

    key: Key
    """(entry, nth); of tool schemas a number below -1."""
    number: str
    """The entry's, as it is shown; empty where it is none."""
    signs: tuple[Span, Span]
    """Letter and gutter sign of its state."""
    kind: str
    words: str
    is_path: bool
    tokens: int
    estimated: bool
    remedy: str
    """What can be done, in a few words: `z hides −8.5k`."""
    advice: str = ""
    """The same in a sentence, where no key is to be priced."""
    taken: bool = False
    """Whether a compaction now would take it."""
    category: Category = "notes"
    """The row of the table it counts in, its pictures apart."""
    server: str = ""
    """Of tool schemas: who lends them; empty for our own."""

    @property
    def entry(self) -> int | None:
        """The entry it is."""
        return self.key[0] if self.key[0] >= 0 else None


def largest(
    projection: Projection,
    schemas: Sequence[Schemas],
    planned: Planned | None,
    cwd: str = "",
    count: int = LISTED,
) -> tuple[Item, ...]:
    """The heaviest first."""
    scale = projection.calibration.scale(projection.model)
    newest = _newest_request(projection)
    found = [
        _item(projection, item, newest, planned, scale, cwd)
        for item in projection.tally.heaviest(count, scale)
    ]
    found += [_tools(each, number, scale) for number, each in enumerate(schemas)]
    return tuple(sorted(found, key=lambda item: -item.tokens)[:count])


def server_advice(server: str) -> str:
    """How to do without the tools of a server."""
    if not server:
        return "The schemas of Foldline's own tools go with every request."
    name = clean_line(server)
    return f"enabled = false in [mcp.{name}] takes these tools out of every request."


def _tools(schemas: Schemas, number: int, scale: float) -> Item:
    whose = clean_line(schemas.server)
    return Item(
        key=(_TOOLS - number, 0),
        number="",
        signs=((" ", ""), GUTTER_SIGNS["whole"]),
        kind="tools",
        words=many(schemas.tools, "schema") + (f" of the server {whose}" if whose else " of Foldline"),
        is_path=False,
        tokens=round(schemas.tokens * scale),
        estimated=True,
        remedy=f"off: [mcp.{whose}]" if whose else "in every request",
        advice=server_advice(schemas.server),
        category="tools",
        server=schemas.server,
    )


def _item(
    projection: Projection,
    item: ViewItem,
    newest: Key | None,
    planned: Planned | None,
    scale: float,
    cwd: str,
) -> Item:
    message, weight = item.message, item_weight(projection, item)
    kind, words, is_path = _words(projection, message, cwd)
    remedy, advice = _remedy(projection, item, message, newest, scale)
    if planned is not None and item.key in planned.clipped:
        remedy = f"{remedy} · compaction clips"
    sign = GUTTER_SIGNS["name"] if item.written else gutter_sign(item.fate)
    return Item(
        key=item.key,
        number=str(item.index),
        signs=((" ", "") if item.written else letter(item.fate), sign),
        kind=kind,
        words=words,
        is_path=is_path,
        tokens=weight.tokens,
        estimated=weight.estimated,
        remedy=remedy,
        advice=advice,
        taken=planned is not None and item.key in planned.taken,
        category=category_of(item),
    )


def _words(projection: Projection, message: BaseMessage, cwd: str) -> tuple[str, str, bool]:
    """Kind, text, and whether the text is a path."""
    if isinstance(message, ToolResultMessage):
        title, is_path = call_title(call_of(projection, message), cwd)
        return clean_line(message.name)[:12] or "result", title, is_path
    return kind_of(message), message_words(message)[0], False


def _remedy(
    projection: Projection, item: ViewItem, message: BaseMessage, newest: Key | None, scale: float
) -> tuple[str, str]:
    """What can be done about an item in a few words, and as a sentence where that is not a key."""
    if item.is_preamble:
        return _about_preamble(message)
    if item.written:
        return "rewritten next time", f"{item.index} is a summary: the next compaction writes it anew."
    if item.pinned:
        return f"{_key('pin')} unpins", ""
    if item.key == newest:
        return "the request, always kept", ""
    if isinstance(message, ToolResultMessage):
        placeholder = item.outline.tokens_with(hidden_placeholder(message))
        if item.fate != "live":
            return f"{_key('hide')} shows {_change(item.outline.tokens - item.tokens, scale)}", ""
        if placeholder < item.tokens:  # it may be longer than a short result
            return f"{_key('hide')} hides {_change(placeholder - item.tokens, scale)}", ""
    return f"{_key('drop')} drops {change_words(-_group(projection, item))}", ""


def _about_preamble(message: BaseMessage) -> tuple[str, str]:
    if isinstance(message, DeveloperMessage):
        path = clean_line(message.source or "its file")
        advice = f"{path} goes with every request; a shorter one helps each new session."
        return f"shorten {cut_left(path, _PATH)}", advice
    return "opens every request", "The system prompt opens every request: no edit applies to it."


def _group(projection: Projection, item: ViewItem) -> int:
    """What the view has of the item's tool group weighs, as the rows say it."""
    return sum(_weighed(projection, index, item) for index in projection.group(item.index))


def _weighed(projection: Projection, index: int, item: ViewItem) -> int:
    if index == item.index:
        return item_weight(projection, item).tokens
    fate, outline = projection.fate(index).kind, projection.outline(index)
    if fate == "live" and isinstance(outline, MessageOutline):
        return item_weight(projection, item_from(outline, projection.entries)).tokens
    if fate not in IN_VIEW:
        return 0
    found = next((each for each in projection.view if each.index == index), None)
    return 0 if found is None else item_weight(projection, found).tokens


def _newest_request(projection: Projection) -> Key | None:
    """What the user asked last: a compaction keeps it verbatim."""
    return next((item.key for item in reversed(projection.view) if item.outline.type == "user"), None)


def _change(tokens: int, scale: float) -> str:
    return change_words(round(tokens * scale))


def _key(command: str) -> str:
    return name_of(KEYS, command)
