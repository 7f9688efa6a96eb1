"""The language of a conversation, and the sections of a summary in all languages."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

from foldline.protocol import UserMessage
from foldline.text.patterns import lazy_pattern
from foldline.view.items import Messages

from .cues import RECAP_GOAL, SECTION_NAMES

Language = Literal["en", "zh"]

_HAN = lazy_pattern(r"[\u4e00-\u9fff]")
_KANA_OR_HANGUL = lazy_pattern(r"[\u3040-\u30ff\uac00-\ud7af]")
_HAN_WEIGHT = 3
"""How many other characters an ideograph outweighs when the language is determined.

The reason is that code and paths in a Chinese prompt are written in Latin letters.
"""
_KANA_WEIGHT = 4
"""Text counts as Japanese if it contains more than one kana for this many ideographs."""


def language_of(messages: Messages) -> Language:
    """Return `zh` if the user writes Chinese, otherwise `en`.

    The English prompts tell the model to use the user's language.
    """
    typed = [
        message.typed
        for message in messages
        if isinstance(message, UserMessage) and message.typed
    ]
    text = "\n".join(typed or [message.text for message in messages])
    han_count = len(_HAN.findall(text))
    kana_count = len(_KANA_OR_HANGUL.findall(text))
    if kana_count * _KANA_WEIGHT > han_count:
        return "en"
    return "zh" if han_count * _HAN_WEIGHT > len(text) - han_count else "en"


# -- sections ----------------------------------------------------------------------------------------

NONE = "(none)"
"""The content of a section without any lines."""


class Section(NamedTuple):
    """A section of a summary."""

    name: str
    heading: str
    share: float
    """Share of the available tokens for lines in this section.

    Unused tokens are available to all sections.
    """


class _Sections(NamedTuple):
    goal: Section
    constraints: Section
    done: Section
    progress: Section
    blocked: Section
    decisions: Section
    ahead: Section
    critical: Section


SECTIONS = _Sections(
    Section("Goal", "## Goal", 0.16),
    Section("Constraints & Preferences", "## Constraints & Preferences", 0.2),
    Section("Done", "### Done", 0.18),
    Section("In Progress", "### In Progress", 0.1),
    Section("Blocked", "### Blocked", 0.06),
    Section("Key Decisions", "## Key Decisions", 0.12),
    Section("Next Steps", "## Next Steps", 0.08),
    Section("Critical Context", "## Critical Context", 0.1),
)
_PARENT = "## Progress"
"""The heading above Done, In Progress and Blocked."""


def _sections_by_name() -> dict[str, Section]:
    sections = {}
    for section in SECTIONS:
        sections[section.name.casefold()] = section
        for name in SECTION_NAMES[section.name].split("|"):
            sections[name] = section
    return sections


_BY_NAME = _sections_by_name()

# -- reading -----------------------------------------------------------------------------------------

_APPENDED = lazy_pattern(
    r"<(last-user-messages|read-files|modified-files|kept-below|pinned-lines|ledger)>.*?(?:</\1>|\Z)",
    re.DOTALL,
)
"""Matches the lists that every compaction appends from the history."""
_OPEN = "<summary>\n"
_CLOSE = "\n</summary>"
_STANDING = "<standing-constraints>"
_REMARK = "[foldline: "
"""Beginning of Foldline's own notes in a list or in text."""
_HEADING = lazy_pattern(r"#{1,6}[ \t]+(.+)")
_BARE_HEADING = lazy_pattern(r"(?:\d{1,2}\.[ \t]+)?(\w[\w ]{3,40}):")
"""Matches a line that may be a heading in a summary by Claude Code.

It is a heading only if its name is known.
"""
_HEADING_TEXT = lazy_pattern(r"(?:[#*_ ]|\d{1,2}[.)、])*([^\n:：(（*_]+)")
"""Matches the text of a heading, without list marks or trailing punctuation."""
_TAG = lazy_pattern(r"</?[a-z][a-z-]{0,40}>")
_LIST_MARK = lazy_pattern(r"(?:[-*+•]|\d{1,3}[.)])[ \t]+(?:\[([ xX])\][ \t]+)?")


def within_frame(text: str) -> str:
    """Return the content of a summary without the frame.

    The summaries in imported sessions have no frame.
    """
    start = text.find(_OPEN)
    end = text.rfind(_CLOSE)
    content_start = start + len(_OPEN)
    if start >= 0 and end >= content_start:
        return text[content_start:end]
    return text


def parse_summary(text: str) -> Iterator[tuple[Section, str]]:
    """Yield the lines of a summary, with their sections.

    List marks and appended lists are left out. Lines before the first heading are goals. In a summary by
    Claude Code, they are critical context, and so are lines under an unknown heading. Text outside the frame
    is ignored.
    """
    section = (
        SECTIONS.critical if f"{RECAP_GOAL}:" in text.casefold() else SECTIONS.goal
    )
    for line in map(str.strip, _APPENDED.sub("", within_frame(text)).splitlines()):
        section_begun = _section_begun_by(line)
        if section_begun is not None:
            section = section_begun
            continue
        if line == _STANDING:
            section = SECTIONS.constraints
        mark = _LIST_MARK.match(line)
        item = line[mark.end() :].strip() if mark else line
        if not item or item == NONE or _TAG.fullmatch(item) or item.startswith(_REMARK):
            continue
        is_ticked = mark is not None and mark[1] in ("x", "X")
        yield SECTIONS.done if is_ticked else section, item


def _section_begun_by(line: str) -> Section | None:
    heading = _HEADING.fullmatch(line) or _BARE_HEADING.fullmatch(line)
    if heading is None:
        return None
    name = heading[1].strip().strip("*:：").casefold()
    if name and line.startswith("#"):
        return _BY_NAME.get(name, SECTIONS.critical)
    return _BY_NAME.get(name)


def is_sectioned(text: str) -> bool:
    """Return whether notes are divided by headings.

    One Markdown heading is enough, in any language. A bold or numbered line counts if its name is known.
    """
    lines = [line.strip() for line in text.splitlines()]
    return any(_HEADING.fullmatch(line) or _is_known_heading(line) for line in lines)


def _is_known_heading(line: str) -> bool:
    match = _HEADING_TEXT.match(line)
    name = match[1].strip() if match else ""
    if name.casefold() not in _BY_NAME:
        return False
    return line[0] in "*_" or not name[0].islower()  # `done` alone ends a shell loop


def render_summary(lines: Mapping[Section, Sequence[str]]) -> str:
    """Return the text of these sections.

    The lines of each section form a list.
    """
    parts = []
    for section in SECTIONS:
        if section not in lines:
            continue
        if section.heading.startswith("###") and _PARENT not in parts:
            parts.append(_PARENT)
        parts.append(section.heading)
        parts += [f"- {line}" for line in lines[section]]
    return "\n".join(parts)
