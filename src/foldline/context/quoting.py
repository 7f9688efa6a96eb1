"""Quoting: one line of a text, shortened. What is left out is marked by `…`."""

from .facts import sentences
from .tokens import estimate_tokens

_OUTCOME, _COMMAND = 260, 160
"""Longest quotations of an answer's opening and of an output's last line, in characters."""


def one_line(text: str) -> str:
    return " ".join(text.split())


def clip(text: str, length: int) -> str:
    """The beginning of a line, up to a blank where there is one near, and `…`."""
    if len(text) <= length:
        return text
    cut = text.rfind(" ", length - 30, length)
    return text[: cut if cut > 0 else length - 1].rstrip() + "…"


def within(text: str, tokens: int) -> str:
    """The beginning of a line within so many tokens; at least one character."""
    if estimate_tokens(text) <= tokens:
        return text
    low, high = 0, len(text)
    while low < high:
        middle = (low + high + 1) // 2
        if estimate_tokens(text[:middle] + "…") <= tokens:
            low = middle
        else:
            high = middle - 1
    return text[:low].rstrip() + "…"


def opening(text: str) -> str:
    """The first lines of an answer that say something, headings and fences left out."""
    found: list[str] = []
    for sentence in sentences(text):
        if not sentence.startswith(("#", "```", "|", "---")) and not sentence.endswith((":", "：")):
            found.append(one_line(sentence))
            if sum(map(len, found)) > 80:
                break
    return clip(" … ".join(found) or one_line(next(sentences(text), text)), _OUTCOME)


def ending(text: str) -> str:
    """The last line of an output that says something."""
    for line in reversed(text[-4000:].splitlines()):
        if any(char.isalnum() for char in line):
            return clip(one_line(line), _COMMAND)
    return ""


def arrow(*parts: str) -> str:
    return " → ".join(part for part in parts if part)
