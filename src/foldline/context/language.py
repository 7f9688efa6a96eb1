"""Which language a conversation is held in, as far as prompts care."""

import re
from collections.abc import Container, Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

from foldline.protocol import BaseMessage, UserMessage

Language = Literal["en", "zh"]

_HAN = re.compile(r"[\u4e00-\u9fff]")
_KANA_OR_HANGUL = re.compile(r"[\u3040-\u30ff\uac00-\ud7af]")
_HAN_WEIGHT = 3
"""An ideograph says about as much as three Latin letters; code and paths in a Chinese prompt are Latin."""


def language_of(messages: Sequence[BaseMessage]) -> Language:
    """`zh` where the user writes Chinese; `en` for every other language, whose prompts say to follow it."""
    typed = [m.typed for m in messages if isinstance(m, UserMessage) and m.typed]
    text = "\n".join(typed or [message.text for message in messages])
    han = len(_HAN.findall(text))
    if _KANA_OR_HANGUL.search(text) and len(_KANA_OR_HANGUL.findall(text)) * 4 > han:
        return "en"
    return "zh" if han * _HAN_WEIGHT > len(text) - han else "en"


NONE = "(none)"
"""Stands in a section that has nothing."""


class Section(NamedTuple):
    name: str
    heading: str
    share: float
    """Of the room for lines, how much the section may take before the others have had theirs."""


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
"""Stands before Done, In Progress and Blocked."""

_RECAP_GOAL = "primary request and intent"  # Claude Code's; before it stands an introduction
# What models call the sections, Claude Code's and ours in other languages included; the turn prefix's too.
_CALLED: Mapping[Section, str] = {
    SECTIONS.goal: f"goals|original request|{_RECAP_GOAL}|目标|原始请求|目標|목표",
    SECTIONS.constraints: "constraints|约束与偏好|约束和偏好|约束|制約|제약",
    SECTIONS.done: "progress|early progress|进展|进度|早期进展|已完成|完了",
    SECTIONS.progress: "current work|进行中|進行中",
    SECTIONS.blocked: "受阻|阻塞|被阻塞",
    SECTIONS.decisions: "关键决策|关键决定|重要な決定",
    SECTIONS.ahead: "pending tasks|optional next step|下一步|后续步骤|次のステップ",
    SECTIONS.critical: "context for suffix|关键上下文|后续所需上下文|analysis|key technical concepts|"
    "files and code sections|errors and fixes|problem solving|all user messages",
}
_NAMES = {
    name: section
    for section, names in _CALLED.items()
    for name in (section.name.casefold(), *names.split("|"))
}

_APPENDED = re.compile(
    r"<(last-user-messages|read-files|modified-files|kept-below|pinned-lines|ledger)>.*?(?:</\1>|\Z)",
    re.DOTALL,
)
"""What every compaction appends anew from the history."""
_OPEN, _CLOSE = "<summary>\n", "\n</summary>"
_STANDING = "<standing-constraints>"
_REMARK = "[foldline: "
"""Begins what we say of a list or a text ourselves."""
_HEADING = re.compile(r"#{1,6}[ \t]+(.+)")
_BARE_HEADING = re.compile(r"(?:\d{1,2}\.[ \t]+)?(\w[\w ]{3,40}):")  # Claude Code's; only names we know
_NAMED = re.compile(r"(?:[#*_ ]|\d{1,2}[.)、])*([^\n:：(（*_]+)")
"""What a line is headed by, whatever marks stand before and behind it."""
_OWN_HEADING = re.compile(r"#{2,6}[ \t]+\S.*|\*\*[^*]+\*\*[:：]?")
_ENOUGH_HEADINGS = 3
"""The fewest sections that a prompt of ours asks for."""
_TAG = re.compile(r"</?[a-z][a-z-]{0,40}>")
_MARK = re.compile(r"(?:[-*+•]|\d{1,3}[.)])[ \t]+(?:\[([ xX])\][ \t]+)?")


def within_frame(text: str) -> str:
    """A summary without the frame it stands in; as it is where it has none, as in imported sessions."""
    start, end = text.find(_OPEN), text.rfind(_CLOSE)
    return text[start + len(_OPEN) : end] if 0 <= start <= end - len(_OPEN) else text


def parse_summary(text: str) -> Iterator[tuple[Section, str]]:
    """A summary's lines with their sections; list marks, file lists and quoted messages left out.

    Lines before the first heading are goals, in a recap of Claude Code's critical context; so is what stands
    under an unknown heading. Of a framed summary only what is within its frame counts.
    """
    section = SECTIONS.critical if f"{_RECAP_GOAL}:" in text.casefold() else SECTIONS.goal
    for line in _APPENDED.sub("", within_frame(text)).splitlines():
        line = line.strip()
        heading = _HEADING.fullmatch(line) or _BARE_HEADING.fullmatch(line)
        name = heading[1].strip().strip("*:：").casefold() if heading else ""
        if name in _NAMES or (name and line.startswith("#")):
            section = _NAMES.get(name, SECTIONS.critical)
            continue
        if line == _STANDING:
            section = SECTIONS.constraints
        mark = _MARK.match(line)
        line = line[mark.end() if mark else 0 :].strip()
        if line and line != NONE and not _TAG.fullmatch(line) and not line.startswith(_REMARK):
            yield (SECTIONS.done if mark and mark[1] in ("x", "X") else section), line


def is_sectioned(text: str, asked: Container[str] = ()) -> bool:
    """Whether notes stand under headings: one of those that were `asked` for (in small letters) or that we
    know, on any level, with a number or in bold; or several of their own, as in languages we do not know."""
    own = 0
    for line in map(str.strip, text.splitlines()):
        named = _NAMED.match(line)
        name = named[1].strip() if named else ""
        known = name and (name.casefold() in asked or name.casefold() in _NAMES)
        if known and (line[0] in "#*_" or not name[0].islower()):  # `done` alone ends a loop of the shell
            return True
        own += _OWN_HEADING.fullmatch(line) is not None
    return own >= _ENOUGH_HEADINGS


def render_summary(lines: Mapping[Section, Sequence[str]]) -> str:
    """The sections that are given, in their order, each with its lines as a list."""
    parts: list[str] = []
    for section in SECTIONS:
        if section in lines:
            if section.heading.startswith("###") and _PARENT not in parts:
                parts.append(_PARENT)
            parts += [section.heading, *(f"- {line}" for line in lines[section])]
    return "\n".join(parts)
