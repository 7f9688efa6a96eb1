"""What opens a session: the system prompt, and the instruction files of the folder."""

from pathlib import Path

from foldline.compaction import load_prompt
from foldline.history import Session
from foldline.protocol import BaseMessage, DeveloperMessage, SystemMessage, text_parts

INSTRUCTION_FILES = ("AGENTS.md", "CLAUDE.md")
"""Read in this order; one that says the same as an earlier one is left out."""
_MOST_BYTES = 64_000


def opening(cwd: Path) -> list[BaseMessage]:
    """The messages before the first prompt. Nothing volatile: no time, no listing (invariant 9)."""
    prompt = f"{load_prompt('system')}\n\nWorking folder: {cwd}"
    messages: list[BaseMessage] = [SystemMessage(parts=text_parts(prompt))]
    seen: set[str] = set()
    for name in INSTRUCTION_FILES:
        text = _read(cwd / name)
        if text and text not in seen:
            seen.add(text)
            body = f"Instructions from {name} of this folder:\n\n{text}"
            messages.append(DeveloperMessage(origin="instructions", source=name, parts=text_parts(body)))
    return messages


def moved_notice(session: Session) -> list[BaseMessage]:
    """Where the folder was moved since the system prompt named it: says so, once in a view."""
    if not session.moved_from:
        return []
    known = any(_source(item.message) == session.cwd for item in session.projection.view)
    body = f"The working folder was moved from {session.moved_from}: it is {session.cwd} now."
    return [] if known else [DeveloperMessage(source=session.cwd, parts=text_parts(body))]


def _source(message: BaseMessage) -> str | None:
    return message.source if isinstance(message, DeveloperMessage) else None


def _read(path: Path) -> str:
    """The file's text; empty where there is none. Of a huge one the beginning, and that it goes on."""
    try:
        with path.open("rb") as file:
            data = file.read(_MOST_BYTES + 1)
    except OSError:
        return ""
    text = data[:_MOST_BYTES].decode("utf-8", "ignore" if len(data) > _MOST_BYTES else "replace").strip()
    return f"{text}\n\n[{path.name} goes on: `read` shows it whole]" if len(data) > _MOST_BYTES else text
