"""Notes on turns, milestones and overviews, as the offline model writes them: lines quoted, none made up."""

import re
from collections.abc import Iterator, Sequence

from foldline.context.digest import digest_conversation, one_line, within
from foldline.context.language import SECTIONS, Section, parse_summary, render_summary
from foldline.context.tokens import estimate_tokens

_TAGGED = re.compile(
    r'^<(turn|topic) number="(\d+)" tokens="(\d+)">\n(.*?)\n</\1>$', re.MULTILINE | re.DOTALL
)
_LABEL = re.compile(r"\[\w[\w ]*\]: ")
_LISTED = re.compile(r"\w+ · [^→]*$")
"""Files that were only looked at: a summary has lists of its own for them."""
_HEADING = re.compile(r"^### (?:Entr(?:y|ies) .*|Earlier)$", re.MULTILINE)
_LINE = re.compile(r"^- (Asked|Done|Decided|Failed|Open|Keep): (.+)$", re.MULTILINE)
_BOLD = re.compile(r"^\*\*(.+)\*\*$", re.MULTILINE)
"""A heading of a summary that has become a note."""
_ABOVE_LEVELS = re.compile(r"^## (?:Milestones|Turns)$", re.MULTILINE)
_LIMIT = re.compile(r"At most about (\d+) tokens|最多约 (\d+) 个")

_LABELS: dict[Section, str] = {
    SECTIONS.goal: "Asked",
    SECTIONS.constraints: "Keep",
    SECTIONS.done: "Done",
    SECTIONS.ahead: "Open",
    SECTIONS.progress: "Open",
    SECTIONS.blocked: "Failed",
    SECTIONS.decisions: "Decided",
    SECTIONS.critical: "Keep",
}
_SECTIONS = {label: section for section, label in _LABELS.items()} | {"Failed": SECTIONS.critical}
"""Where a line stands in a summary: of several sections, the last above."""
_WORTH = {"Done": 3.0, "Decided": 2.5, "Failed": 2.0, "Asked": 1.8, "Keep": 1.5, "Open": 0.5}
_HEADINGS_TOKENS = 60
"""Of a digest's sections, which a note does not have."""
_LEAST_DIGEST = 120
_SAME = 40
"""Characters in which two lines begin alike that say the same."""


def asks_for_notes(conversation: str) -> bool:
    """Whether a request wants notes on turns, or milestones."""
    return _TAGGED.match(conversation.lstrip()) is not None


def is_notes(conversation: str) -> bool:
    """Whether what is to be summarised are notes already."""
    return _HEADING.match(conversation.lstrip()) is not None


def notes_on(conversation: str, focus: str | None) -> str:
    """A note for each turn or topic, under its number."""
    parts = []
    for level, number, tokens, text in _TAGGED.findall(conversation):
        lines = list(_of_turn(text, int(tokens), focus) if level == "turn" else _of_notes(text))
        kept = _best(lines, int(tokens), of_turn=level == "turn") or [
            ("Asked", within(_LABEL.sub("", one_line(text)), int(tokens)))
        ]
        parts += [f"### {level.capitalize()} {number}", *(f"- {label}: {said}" for label, said in kept)]
    return "\n".join(parts)


def overview_of(
    notes: str, passages: str, previous: str | None, instructions: str, focus: str | None, max_tokens: int
) -> str:
    """The sections over all: those of the earlier overview, then what the notes say."""
    limit = _LIMIT.search(instructions)
    most = min(max_tokens, int(limit[1] or limit[2])) if limit else max_tokens
    lines: dict[Section, list[str]] = {}
    asked = [said for label, said in _of_notes(notes) if label == "Asked"]
    lines[SECTIONS.goal] = asked[-1:]
    # Of the earlier summary without its levels, where they stay beside what is written.
    earlier = _ABOVE_LEVELS.split(previous or "", maxsplit=1)[0] if limit else previous or ""
    for section, line in parse_summary(earlier):
        lines.setdefault(section, []).append(line)
    if previous is None:
        lines[SECTIONS.goal] += asked[:1]
    lines.pop(SECTIONS.progress, None)
    newest = _HEADING.split(notes)[-1]
    for label, said in _of_notes(notes):
        listed = label == "Keep" and _LISTED.match(said)
        if label != "Asked" and not listed and (label != "Open" or said in newest):
            lines.setdefault(_SECTIONS[label], []).append(said)
    return digest_conversation(passages, render_summary(lines), focus, most)


def _of_turn(text: str, tokens: int, focus: str | None) -> Iterator[tuple[str, str]]:
    digest = digest_conversation(text, None, focus, max(_LEAST_DIGEST, 2 * tokens + _HEADINGS_TOKENS))
    lines = list(parse_summary(digest))
    done = [line for section, line in lines if section is SECTIONS.done]
    for section, line in lines:
        if section is SECTIONS.goal and any(other.startswith(line[:_SAME]) for other in done):
            continue  # what was asked, and what came of it, is one line there
        if section is not SECTIONS.critical or not _LISTED.match(line):
            yield _LABELS[section], line


def _of_notes(text: str) -> list[tuple[str, str]]:
    found = [(label, said) for label, said in _LINE.findall(text)]
    if found:
        return found
    sections = parse_summary(_BOLD.sub(r"## \1", text))
    return [(_LABELS[section], line) for section, line in sections if line not in ("```", "---")]


def _best(lines: Sequence[tuple[str, str]], tokens: int, *, of_turn: bool) -> list[tuple[str, str]]:
    """What is worth most within so many tokens, in its order; newer lines before older ones."""
    last = max(len(lines) - 1, 1)
    worth = {**_WORTH, "Asked": 5.0} if of_turn else _WORTH
    ranked = sorted(range(len(lines)), key=lambda place: worth[lines[place][0]] + place / last, reverse=True)
    kept: dict[int, tuple[str, str]] = {}
    seen: set[str] = set()
    for place in ranked:
        label, said = lines[place]
        cost = estimate_tokens(f"- {label}: {said}\n")
        if not kept and cost > tokens:
            said = within(said, max(1, tokens - 4))
            cost = tokens
        if cost <= tokens and said[:_SAME] not in seen:
            kept[place] = (label, said)
            seen.add(said[:_SAME])
            tokens -= cost
    return [kept[place] for place in sorted(kept)]
