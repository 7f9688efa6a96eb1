"""The text of a summary: what a model or the digest wrote, and what is appended from the history itself."""

import re
from collections.abc import Iterable, Sequence

from foldline.context.facts import constraints
from foldline.context.tokens import estimate_tokens
from foldline.protocol import (
    BaseMessage,
    DeveloperMessage,
    FoldDetails,
    SystemMessage,
    UserMessage,
    text_parts,
)

from .prompts import load_prompt

_SUMMARY = re.compile(r"<summary>\n(.*)\n</summary>", re.DOTALL)
_APPENDIX = re.compile(r"\n*<(standing-constraints|read-files|modified-files)>\n(.*?)\n</\1>", re.DOTALL)
_LIST_SHARE = 4
"""Each appended list takes at most a quarter of the summary's tokens; the newest items stay."""


def framed(summary: str) -> SystemMessage:
    """The message that carries a summary in the view: delimited, and marked as data (DESIGN §6)."""
    harmless = summary.replace("</summary>", "[/summary]")
    frame = load_prompt("summary-frame").replace("{summary}", harmless)
    return SystemMessage(origin="summary", parts=text_parts(frame))


def unframed(message: BaseMessage) -> str:
    """The summary a message carries; its whole text where it has no frame, as in imported sessions."""
    found = _SUMMARY.search(message.text)
    return found.group(1) if found else message.text


def notes_of(summary: str) -> str:
    """The summary without the lists that are appended anew each time."""
    return _APPENDIX.sub("", summary).strip()


def appendix_of(summary: str) -> str:
    """Those lists, as they stand at the end of a summary; empty or begun by an empty line."""
    return "".join(f"\n\n{found[0].strip()}" for found in _APPENDIX.finditer(summary))


def with_appendix(
    notes: str, folded: Sequence[BaseMessage], previous: str, details: FoldDetails, max_tokens: int
) -> str:
    """The notes, then what is quoted, not paraphrased: standing constraints and the file lists."""
    room = max_tokens // _LIST_SHARE
    standing = dict.fromkeys([*_appended(previous, "standing-constraints"), *_constraints(folded)])
    sections = (
        ("standing-constraints", list(standing)),
        ("read-files", list(details.read_files)),
        ("modified-files", list(details.modified_files)),
    )
    fitting = ((tag, _newest(lines, room)) for tag, lines in sections)
    blocks = [_block(tag, lines) for tag, lines in fitting if lines]
    return "\n\n".join([notes.strip(), *blocks])


def _constraints(messages: Iterable[BaseMessage]) -> list[str]:
    return [
        sentence
        for message in messages
        if isinstance(message, DeveloperMessage)
        or (isinstance(message, UserMessage) and message.origin == "typed")
        for sentence in constraints(message.text)
    ]


def _appended(summary: str, tag: str) -> list[str]:
    return [
        line
        for found in _APPENDIX.finditer(summary)
        if found.group(1) == tag
        for line in found.group(2).splitlines()
    ]


def _newest(lines: list[str], max_tokens: int) -> list[str]:
    """The newest lines that fit; a single line too long for what is left makes no older one disappear."""
    kept: list[str] = []
    for line in reversed(lines):
        tokens = estimate_tokens(line) + 1
        if tokens <= max_tokens:
            max_tokens -= tokens
            kept.append(line)
    return kept[::-1]


def _block(tag: str, lines: list[str]) -> str:
    return "\n".join([f"<{tag}>", *lines, f"</{tag}>"])
