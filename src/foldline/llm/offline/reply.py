"""What the offline model answers to a request, as text and tool calls. Pure and deterministic.

Everything is derived from the messages of the request: there is no other memory, so that what a compaction
took out of the view is really gone. Results are quoted.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass

from foldline.context.digest import clip, digest, digest_conversation
from foldline.context.numbers import many
from foldline.context.view import is_summary
from foldline.protocol import (
    AssistantMessage,
    BaseMessage,
    DeveloperMessage,
    ToolCallPart,
    ToolResultMessage,
    UserMessage,
    is_typed,
)
from foldline.sequences import grouped

from ..base import Request
from .grammar import Action, Orders, Step, orders_in
from .notes import asks_for_notes, is_notes, notes_on, overview_of

SUMMARY_TOKENS = 2_000
"""Of a summary, where the request sets no limit."""
RECALL_TOKENS = 900
"""Of an answer to "what did we do"."""
_LINES, _WIDTH = 8, 160
"""Of a result, how many lines are quoted, and how many characters of each."""


@dataclass(frozen=True, slots=True)
class Reply:
    text: str
    calls: tuple[ToolCallPart, ...] = ()


def reply_to(request: Request, room: int) -> Reply:
    """The answer to a request; `room` is what the window leaves for it, in tokens."""
    limit = min(room, request.max_output or room)
    last = request.messages[-1] if request.messages else None
    if isinstance(last, UserMessage | DeveloperMessage):
        notes = _summary(request, last, min(limit, request.max_output or SUMMARY_TOKENS))
        if notes is not None:
            return Reply(notes)
    return _Conversation(request, limit).reply()


# --- summaries --------------------------------------------------------------------------------------

_CONVERSATION = re.compile(r"<conversation>\n?(.*)\n?</conversation>", re.DOTALL)
_PREVIOUS = re.compile(r"<previous-summary>\n?(.*)\n?</previous-summary>", re.DOTALL)
_PASSAGES = re.compile(r"<passages>\n?(.*?)\n?</passages>", re.DOTALL)
_FOCUS = re.compile(r"^Additional focus:[ \t]*(.+)$", re.MULTILINE)
_SUMMARY_WANTED = re.compile(r"\bsummar(?:y|i[sz]e)|\bnotes\b|总结|摘要|笔记", re.IGNORECASE)


def _summary(request: Request, asking: BaseMessage, most: int) -> str | None:
    """Notes on the conversation that a message quotes, or on the messages before it; None where it asks for
    none."""
    conversation = None if request.tools else _CONVERSATION.search(asking.text)
    if not conversation and (is_typed(asking) or not _SUMMARY_WANTED.search(asking.text)):
        return None
    after = asking.text[conversation.end() :] if conversation else asking.text
    found = _PREVIOUS.search(after) if conversation else None
    earlier, instructions = (found[1], after[found.end() :]) if found else (None, after)
    focused = _FOCUS.search(instructions)
    focus = focused[1].strip() if focused else None
    if not conversation:
        return digest(request.messages[:-1], previous=None, focus=focus, max_tokens=most)
    if asks_for_notes(conversation[1]):
        return notes_on(conversation[1], focus)
    if is_notes(conversation[1]):
        passages = _PASSAGES.search(after)
        quoted = passages[1] if passages else ""
        return overview_of(conversation[1], quoted, earlier, instructions, focus, most)
    return digest_conversation(conversation[1], earlier, focus, most)


# --- the conversation -------------------------------------------------------------------------------

_CHANGING = frozenset({"write", "edit"})
_NOT_RUN = re.compile(r"\W*(?:foldline: )?not run\b", re.IGNORECASE)
_TRIES = 3


class _Conversation:
    """The newest request of the user, and how far it has been followed."""

    def __init__(self, request: Request, limit: int) -> None:
        self._messages = request.messages
        self._has_tools = bool(request.tools)
        self._limit = limit
        typed = [at for at, message in enumerate(request.messages) if is_typed(message)]
        self._at = typed[-1] if typed else -1
        self._text = request.messages[self._at].text if typed else ""
        self._groups = _finished_groups(request.messages[self._at + 1 :])
        self._is_first = not any(isinstance(m, AssistantMessage) or is_summary(m) for m in self._messages)

    def reply(self) -> Reply:
        orders = orders_in(self._text)
        steps = orders.steps if self._has_tools else ()
        begun = self._begun(steps)
        if again := self._not_run(steps[:begun]):
            return self._call(again)
        done = [pair for group in self._groups for pair in group]
        failed = any(
            result.is_error and call.name in _CHANGING and not _NOT_RUN.match(result.text)
            for call, result in done
        )
        if begun < len(steps) and not failed:
            return self._call(steps[begun])
        return self._answer(self._report(orders, steps[begun:]) if done else self._without_tools(orders))

    # How far: calls are recognised by name and arguments, so that a compaction in mid-turn repeats nothing.

    def _begun(self, steps: Sequence[Step]) -> int:
        """How many steps were begun: those up to the last whose calls are in the view."""
        begun = 0
        for group in self._groups:
            called = {_key(call.name, call.parsed()) for call, _ in group}
            matching = (n for n in range(begun, len(steps)) if any(_key(*a) in called for a in steps[n]))
            begun = next(matching, begun - 1) + 1
        return begun

    def _not_run(self, steps: Sequence[Step]) -> list[Action]:
        """Calls that were answered "not run, call again", the window being full; tried three times."""
        pairs = (pair for group in self._groups for pair in group)
        answers = grouped((_key(call.name, call.parsed()), result.text) for call, result in pairs)
        asked = {_key(*action): action for step in steps for action in step}
        return [
            action
            for key, action in asked.items()
            if 0 < len(texts := answers.get(key, [])) <= _TRIES and _NOT_RUN.match(texts[-1])
        ]

    def _call(self, actions: Sequence[Action]) -> Reply:
        # Entry indices are never re-used: ids made from the newest one are unique in the session.
        newest = max([len(self._messages), *(message.index for message in self._messages)])
        calls = tuple(
            ToolCallPart(
                call_id=f"call_{newest}_{number}",
                name=action.tool,
                arguments=json.dumps(action.arguments, ensure_ascii=False),
            )
            for number, action in enumerate(actions)
        )
        return Reply(self._answer(f"I call {', '.join(map(_title, actions))}.").text, calls)

    def _answer(self, text: str) -> Reply:
        # Last: an answer begins with what was asked for, and so does what a digest quotes of it.
        return Reply(f"{text}\n\n{_IDENTITY}" if self._is_first else text)

    def _report(self, orders: Orders, left: Sequence[Step]) -> str:
        newest = {
            _key(call.name, call.parsed()): (Action(call.name, call.parsed()), result)
            for group in self._groups
            for call, result in group
        }
        parts = [_about(action, result) for action, result in newest.values()]
        if left:
            names = ", ".join(_title(action) for step in left for action in step)
            parts.append(f"I stopped there and did not do: {names}.")
        return "\n\n".join(parts + self._unclear(orders))

    def _without_tools(self, orders: Orders) -> str:
        if orders.recall is not None:
            return self._recalled(orders.recall)
        # What this is belongs to it; a first answer says that anyway.
        return "\n\n".join([*self._unclear(orders), _ABILITIES, *([] if self._is_first else [_IDENTITY])])

    def _unclear(self, orders: Orders) -> list[str]:
        quoted = "; ".join(f"“{clip(' '.join(piece.split()), 120)}”" for piece in orders.unclear[:3])
        return [f"I could not follow: {quoted}."] if quoted else []

    def _recalled(self, about: str) -> str:
        """What the messages before the question hold, quoted: it shows what a compaction has kept."""
        before = self._messages[: max(self._at, 0)]
        room = max(min(self._limit - 200, RECALL_TOKENS), 50)
        notes = digest(before, previous=None, focus=about or None, max_tokens=room)
        if not notes:
            return "Nothing was said before this."
        count = sum(bool(message.text.strip()) for message in before)
        return f"I was sent {many(count, 'message')}. Quoted from them:\n\n{notes}"


def _finished_groups(messages: Sequence[BaseMessage]) -> list[list[tuple[ToolCallPart, ToolResultMessage]]]:
    """Per assistant message, its calls that have results."""
    results = {message.call_id: message for message in messages if isinstance(message, ToolResultMessage)}
    return [
        [(call, results[call.call_id]) for call in message.calls if call.call_id in results]
        for message in messages
        if isinstance(message, AssistantMessage) and message.calls
    ]


def _key(tool: str, arguments: object) -> tuple[str, str]:
    return tool, json.dumps(arguments, sort_keys=True)


# --- sentences --------------------------------------------------------------------------------------

_IDENTITY = (
    "I am the offline model: not a language model, but a small program embedded in Foldline that "
    "follows simple requests. To talk to a real model, choose one with /model in the chat, or set "
    "OPENAI_API_KEY and start again."
)
_ABILITIES = (
    "You can ask me, for example:\n\n"
    "- `read README.md` or `read a.py and b.py`\n- `list src`, `find *.py in src`\n"
    '- `search for "TODO" in src`\n- `run pytest -q`\n- `write hello to notes.txt`\n'
    "- `replace foo with bar in notes.txt`\n- `what did we do?`\n\n"
    "and several of them in one sentence: `read a.py, then run pytest`."
)
_EXIT = re.compile(r"\[(?:no output, )?exit (\d{1,3})\]")
_PART = re.compile(r"\[(?:Portion .*?, )?lines \d+–\d+ of (\d+).*\]")
"""Where `read` gave a part of a file: how many lines the file has."""
_TITLE_KEYS = ("path", "pattern", "command", "query")


def _about(action: Action, result: ToolResultMessage) -> str:
    """One result: how it ended, its size, and its first lines; of a command its last ones."""
    lines, whole = result.text.rstrip().splitlines(), ""
    outcome = "failed, " if result.is_error else ""
    if action.tool == "bash" and lines and (stated := _EXIT.fullmatch(lines[-1].strip())):
        outcome, lines = f"exit status {stated[1]}, ", lines[:-1]
    elif action.tool == "bash" and not result.is_error:
        outcome = "exit status 0, "
    elif action.tool == "read" and lines and (part := _PART.fullmatch(lines[-1])):
        lines, whole = lines[:-1], f" of {part[1]}"
    shown = lines[-_LINES:] if action.tool == "bash" else lines[:_LINES]
    more = f"\n… +{len(lines) - _LINES}" if len(lines) > _LINES else ""
    size = many(len(lines), "line") if lines else "no output"
    return f"{_title(action)}: {outcome}{size}{whole}{_quoted(shown) if shown else ''}{more}"


def _title(action: Action) -> str:
    """A call in a few words, as inline code: `read a.py`."""
    values = [str(value) for key, value in action.arguments.items() if key in _TITLE_KEYS]
    text = " ".join([action.tool, *(clip(" ".join(value.split()), 80) for value in values)])
    return "`" + text.replace("`", "'") + "`"


def _quoted(lines: Sequence[str]) -> str:
    shown = "\n".join(clip(line, _WIDTH) for line in lines)
    fence = "`" * (max([2, *map(len, re.findall(r"`+", shown))]) + 1)  # longer than any within
    return f"\n\n{fence}text\n{shown}\n{fence}"
