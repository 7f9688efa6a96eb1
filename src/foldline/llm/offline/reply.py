"""The offline model's answers, computed only from a request's messages."""

import json
import re
from collections.abc import Sequence
from typing import NamedTuple

from foldline.llm.base import Request, SummarySource
from foldline.memory.digest import digest
from foldline.protocol import (
    AssistantMessage,
    BaseMessage,
    ToolCallPart,
    ToolResultMessage,
    UserMessage,
    is_typed,
)
from foldline.text.numbers import many
from foldline.text.shorten import clip
from foldline.view.items import is_summary

from .grammar import SENTENCES, Action, Step, orders_in

UNCLEAR = "I did not understand: {clauses}."
STOPPED = "I stopped there, and did not run {calls}."
RECALLED = "I received {count}. Quoted from them:\n\n{notes}"
NOTHING_BEFORE = "There are no earlier messages."
SUMMARY_TOKENS = 2_000
"""Maximum size of a summary, in tokens, unless the request sets a limit."""
RECALL_TOKENS = 900
"""Maximum size of an answer to a question such as "what did we do", in tokens."""
_LINES = 8
_WIDTH = 160
"""Maximum length of a line quoted from a result, in characters.

`_LINES` is the maximum number of such lines.
"""
_TRIES = 3
_NOT_RUN = re.compile(r"(?i)\W*(?:foldline: )?not run\b")
_EXIT = re.compile(r"\[(?:no output, )?exit (\d{1,3})\]")
_PART_READ = re.compile(r"\[(?:Portion .*?, )?lines \d+–\d+ of (\d+).*\]")
FinishedCall = tuple[Action, ToolResultMessage]


class Reply(NamedTuple):
    """The text and the calls of an answer."""

    text: str
    calls: tuple[ToolCallPart, ...] = ()


def reply_to(request: Request, room: int) -> Reply:
    """Answer a request, using at most `room` tokens."""
    messages = request.messages
    start = max(
        (at for at, message in enumerate(messages) if is_typed(message)), default=-1
    )
    if request.summarises or (messages and start < 0 and not request.tools):
        source = request.summarises or SummarySource(messages)
        limit = min(room, request.max_output or SUMMARY_TOKENS)
        return Reply(
            digest(source.messages, previous=None, focus=source.focus, max_tokens=limit)
        )
    orders = orders_in(_request(messages[start]) if start >= 0 else "")
    finished = _finished_calls(messages[start + 1 :])
    calls, not_begun = _next_calls(orders.steps if request.tools else (), finished)
    clauses = "; ".join(
        f"“{clip(' '.join(clause.split()), 120)}”" for clause in orders.unclear[:3]
    )
    unclear = [UNCLEAR.format(clauses=clauses)] if clauses else []
    is_first = not any(
        isinstance(message, AssistantMessage) or is_summary(message)
        for message in messages
    )
    if calls:
        paragraphs = [f"I call {_titles(calls)}."]
    elif finished:
        stopped = [STOPPED.format(calls=_titles(not_begun))] if not_begun else []
        paragraphs = [
            *(_report(*pair) for pair in _newest(finished)),
            *stopped,
            *unclear,
        ]
    elif orders.recall is not None:
        paragraphs = [_recalled(messages[: max(start, 0)], orders.recall, room)]
    else:
        paragraphs = [*unclear, SENTENCES["abilities"]]
    if is_first or SENTENCES["abilities"] in paragraphs:
        paragraphs.append(
            SENTENCES["identity"]
        )  # last: a digest quotes the beginning of an answer
    # Entry indices are never reused, so ids made from the newest index are unique in the session.
    call_id = f"call_{max([len(messages), *(message.index for message in messages)])}"
    parts = [
        ToolCallPart(
            call_id=f"{call_id}_{n}",
            name=tool,
            arguments=json.dumps(arguments, ensure_ascii=False),
        )
        for n, (tool, arguments) in enumerate(calls)
    ]
    return Reply("\n\n".join(paragraphs), tuple(parts))


def _request(message: BaseMessage) -> str:
    """Return the text that contains the user's request.

    If the prompt calls a custom command, this is the command's expansion.
    """
    attached = message.attached if isinstance(message, UserMessage) else ()
    for part in attached:
        if part.origin == "command":
            lines = part.text.strip().splitlines()
            return "\n".join(lines[1:-1])
    return message.text


def _finished_calls(messages: Sequence[BaseMessage]) -> list[FinishedCall]:
    results = {
        message.call_id: message
        for message in messages
        if isinstance(message, ToolResultMessage)
    }
    calls = [
        call
        for message in messages
        if isinstance(message, AssistantMessage)
        for call in message.calls
    ]
    pairs = [
        (Action(call.name, call.parsed()), results.get(call.call_id)) for call in calls
    ]
    return [(action, result) for action, result in pairs if result]


def _newest(finished: Sequence[FinishedCall]) -> list[FinishedCall]:
    return list({str(action): (action, result) for action, result in finished}.values())


def _next_calls(
    steps: Sequence[Step], finished: Sequence[FinishedCall]
) -> tuple[Step, Step]:
    """Return the calls to make now, and those for the rest of the request.

    Finished calls are recognised by their names and arguments, so that they are not repeated after a
    compaction in the middle of the turn.
    """
    planned = [(action, number) for number, step in enumerate(steps) for action in step]
    position = 0
    for action, _ in finished:
        following = range(position, len(planned))
        position = next(
            (at + 1 for at in following if planned[at][0] == action), position
        )
    begun = planned[position - 1][1] + 1 if position else 0
    not_begun = tuple(action for step in steps[begun:] for action in step)
    refused = [action for action, result in finished if _NOT_RUN.match(result.text)]
    newest_refused = [
        action for action, result in _newest(finished) if _NOT_RUN.match(result.text)
    ]
    retries = tuple(
        action for action in newest_refused if steps and refused.count(action) <= _TRIES
    )
    changes = [pair for pair in finished if pair[0].tool in ("write", "edit")]
    has_failed = any(
        result.is_error and action not in refused for action, result in changes
    )
    return (
        retries if retries or has_failed or not not_begun else steps[begun]
    ), not_begun


def _recalled(messages: Sequence[BaseMessage], topic: str, room: int) -> str:
    """Return a digest of these messages.

    It shows the user what a compaction has preserved.
    """
    limit = max(min(room - 200, RECALL_TOKENS), 50)
    notes = digest(messages, previous=None, focus=topic or None, max_tokens=limit)
    count = many(sum(bool(message.text.strip()) for message in messages), "message")
    return RECALLED.format(count=count, notes=notes) if notes else NOTHING_BEFORE


def _report(action: Action, result: ToolResultMessage) -> str:
    """Describe a result by its outcome, its size and its first lines.

    For a command, the last lines are quoted instead.
    """
    lines = result.text.rstrip().splitlines()
    is_command = action.tool == "bash"
    note = (_EXIT if is_command else _PART_READ).fullmatch(
        lines[-1].strip() if lines else ""
    )
    if note:
        lines.pop()
    outcome = "failed, " if result.is_error else ""
    if is_command and (note or not result.is_error):
        outcome = f"exit status {note[1] if note else 0}, "
    size = many(len(lines), "line") if lines else "no output"
    total = f" of {note[1]}" if note and not is_command else ""
    report = f"{_titles([action])}: {outcome}{size}{total}"
    if lines:
        shown = "\n".join(
            clip(line, _WIDTH)
            for line in (lines[-_LINES:] if is_command else lines[:_LINES])
        )
        # The fence must be longer than any in the result.
        fence = "`" * (max([2, *map(len, re.findall(r"`+", shown))]) + 1)
        report += f"\n\n{fence}text\n{shown}\n{fence}"
    return report + (f"\n… +{len(lines) - _LINES}" if len(lines) > _LINES else "")


def _titles(actions: Sequence[Action]) -> str:
    """Describe calls in a few words, formatted as inline code: `read a.py`."""
    titles = []
    for tool, arguments in actions:
        values = [
            arguments[key]
            for key in arguments
            if key in ("path", "pattern", "command", "query")
        ]
        words = [tool, *(clip(" ".join(str(value).split()), 80) for value in values)]
        titles.append("`" + " ".join(words).replace("`", "'") + "`")
    return ", ".join(titles)
