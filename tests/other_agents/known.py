"""Known differences between a request and the view: for each agent, sentences, and what they cover."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from .comparison import Difference


@dataclass(frozen=True)
class Known:
    """One known difference: it covers those that all its patterns match.

    `sent` is looked for in the item of the request and `viewed` in that of the view; an empty pattern says
    that there is no item. `more` is looked for in what a text of the request has besides items of the view.
    """

    sentence: str
    sent: str = ""
    viewed: str = ""
    more: str | None = None

    def covers(self, difference: Difference) -> bool:
        if difference.moved:
            return False
        if (self.more is None) != (difference.more is None):
            return False
        if self.more is not None:
            return re.search(self.more, difference.more or "", re.DOTALL) is not None
        sent = difference.sent.text if difference.sent else ""
        return _matches(self.sent, sent) and _matches(
            self.viewed, "\n".join(i.text for i in difference.viewed)
        )


def _matches(pattern: str, text: str) -> bool:
    if not pattern:
        return not text
    return re.search(pattern, text, re.DOTALL) is not None


NO_SYSTEM_PROMPT = "The system prompt is not in the file."
ONE_MESSAGE = "The question to which its summary is the answer is one message with it in the view."

KNOWN: dict[str, tuple[Known, ...]] = {
    "claude-code": (
        Known(
            "The line for billing above the system prompt is not in the view.",
            more=r"\Ax-anthropic-billing",
        ),
    ),
    "codex": (
        Known(
            "The system prompt in the file also describes tools that were not offered.",
            sent=r"\AYou are a coding agent running in the Codex CLI",
            viewed=r"\AYou are a coding agent running in the Codex CLI",
        ),
        Known(
            "The file of a session that was handed over has no system prompt.",
            sent=r"\AYou are a coding agent running in the Codex CLI",
        ),
    ),
    "opencode": (
        Known(NO_SYSTEM_PROMPT, sent=r"\AYou are opencode"),
        Known(ONE_MESSAGE, sent=r"\A<summary>"),
        Known(
            ONE_MESSAGE,
            sent=r"\AWhat did we do so far\?\Z",
            viewed=r"\AWhat did we do so far\?",
        ),
    ),
    "gemini-cli": (
        Known(NO_SYSTEM_PROMPT, sent=r"\AYou are a non-interactive CLI agent"),
        Known(
            "After a resume Gemini CLI sends each result twice; the view has it once.",
            sent=r"\A(?!You are)",
        ),
    ),
    "qwen-code": (
        Known(NO_SYSTEM_PROMPT, sent=r"\AYou are Qwen Code"),
        Known(
            "The list of skills before the first message is not in the file.",
            more=r"\A<system-reminder>\nThe following skills",
        ),
    ),
    "copilot": (
        Known(
            "The words around the summary, and around the prompts in it, are left out.",
            more=r"\AThe conversation history has been",
        ),
        Known(
            "The file has a shorter text of a failed call than the model got.",
            sent=r"\APath .* does not exist",
            viewed=r"\APath does not exist\Z",
        ),
    ),
    "mistral-vibe": (
        Known(
            "The system prompt is in the store only after a compaction.",
            sent=r"\AYou help users",
        ),
    ),
    "cline": (
        Known(
            "The rules below the system prompt are not in the file.", more=r"\A# Rules"
        ),
        Known(
            "Cline sends the beginning and the end of a long result; the file has all of it.",
            sent=r"\.\.\.\[truncated \d+ chars\]",
            viewed=r"\"query\"",
        ),
    ),
    "klaude-code": (
        Known(NO_SYSTEM_PROMPT, sent=r"\AYou are an interactive CLI agent"),
    ),
    "oh-my-pi": (
        Known(NO_SYSTEM_PROMPT, sent=r"\A<conventions>"),
        Known(
            "The reminder of the date and the folder is not in the file.",
            more=r"\A<system-reminder>\nToday:",
        ),
    ),
}


def explained(
    agent: str, differences: Iterable[Difference]
) -> tuple[list[str], list[Difference]]:
    """The sentences for the known differences among these, each once, and the unknown ones."""
    sentences: dict[str, None] = {}
    unknown: list[Difference] = []
    for difference in differences:
        known = next(
            (each for each in KNOWN.get(agent, ()) if each.covers(difference)), None
        )
        if known is None:
            unknown.append(difference)
        else:
            sentences[known.sentence] = None
    return list(sentences), unknown
