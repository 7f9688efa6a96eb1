"""The reply: what the offline model answers to a request, as text and tool calls. Pure and deterministic.

Everything is derived from the messages of the request: there is no other memory, so that what a fold took
out of the view is really gone.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass

from foldline.context.digest import digest, digest_conversation
from foldline.context.language import SECTIONS, Section, parse_summary
from foldline.context.view import is_summary
from foldline.protocol import (
    AssistantMessage,
    BaseMessage,
    DeveloperMessage,
    ToolCallPart,
    ToolResultMessage,
    UserMessage,
)

from ..base import Request, ToolSpec
from .answers import Voice
from .notes import asks_for_notes, is_notes, notes_on, overview_of
from .orders import Action, Orders, orders_in

SUMMARY_TOKENS = 2_000
"""Of a summary, where the request sets no limit."""
RECALL_TOKENS = 900
"""Of an answer to "what did we do"."""


@dataclass(frozen=True, slots=True)
class Reply:
    text: str
    calls: tuple[ToolCallPart, ...] = ()


def reply_to(request: Request, room: int) -> Reply:
    """The answer to a request; `room` is what the window leaves for it, in tokens."""
    limit = min(room, request.max_output or room)
    asked = _last_said(request.messages)
    if asked is not None and not request.tools and (conversation := _CONVERSATION.search(asked.text)):
        return Reply(_summary(asked.text, conversation, min(limit, request.max_output or SUMMARY_TOKENS)))
    if asked is not None and not _is_typed(asked) and _SUMMARY_WANTED.search(asked.text):
        before = request.messages[: _position(request.messages, asked)]
        return Reply(_summary_of(before, asked.text, min(limit, request.max_output or SUMMARY_TOKENS)))
    return _Conversation(request, limit).reply()


# -- summary requests --------------------------------------------------------------------------------

_CONVERSATION = re.compile(r"<conversation>\n?(.*)\n?</conversation>", re.DOTALL)
_PREVIOUS = re.compile(r"<previous-summary>\n?(.*)\n?</previous-summary>", re.DOTALL)
_PASSAGES = re.compile(r"<passages>\n?(.*?)\n?</passages>", re.DOTALL)
_FOCUS = re.compile(r"^Additional focus:[ \t]*(.+)$", re.MULTILINE)
_PREFIX = "## Original Request"
"""Stands in the instructions where the notes are for the first part of a turn that goes on."""
_SUMMARY_WANTED = re.compile(r"\bsummar(?:y|i[sz]e)|\bnotes\b|总结|摘要|笔记", re.IGNORECASE)


def _summary(text: str, conversation: re.Match[str], max_tokens: int) -> str:
    after = text[conversation.end() :]
    previous = _PREVIOUS.search(after) or _PREVIOUS.search(text[: conversation.start()])
    instructions = after[previous.end() :] if previous and previous.re is _PREVIOUS else after
    found = _FOCUS.search(instructions)
    focus = found[1].strip() if found else None
    earlier = previous[1] if previous else None
    if asks_for_notes(conversation[1]):
        return notes_on(conversation[1], focus)
    if is_notes(conversation[1]):
        passages = _PASSAGES.search(after)
        quoted = passages[1] if passages else ""
        notes = overview_of(conversation[1], quoted, earlier, instructions, focus, max_tokens)
    else:
        notes = digest_conversation(conversation[1], earlier, focus, max_tokens)
    return _as_prefix(notes) if _PREFIX in instructions else notes


def _summary_of(messages: Sequence[BaseMessage], instructions: str, max_tokens: int) -> str:
    """The same where the conversation stands in the request as it was held."""
    focus = _FOCUS.search(instructions)
    notes = digest(messages, previous=None, focus=focus and focus[1].strip(), max_tokens=max_tokens)
    return _as_prefix(notes) if _PREFIX in instructions else notes


_PREFIX_SECTIONS: tuple[tuple[str, tuple[Section, ...]], ...] = (
    (_PREFIX, (SECTIONS.goal,)),
    ("## Early Progress", (SECTIONS.done, SECTIONS.progress, SECTIONS.blocked, SECTIONS.decisions)),
    ("## Context for Suffix", (SECTIONS.constraints, SECTIONS.ahead, SECTIONS.critical)),
)


def _as_prefix(notes: str) -> str:
    """The same lines under the headings of a turn prefix; fewer headings, so never longer."""
    lines = list(parse_summary(notes))
    parts = []
    for heading, sections in _PREFIX_SECTIONS:
        parts.append(heading)
        parts += [f"- {line}" for section, line in lines if section in sections]
    return "\n".join(parts)


# -- ordinary requests -------------------------------------------------------------------------------

_HAN, _KANA = re.compile(r"[\u4e00-\u9fff]"), re.compile(r"[\u3040-\u30ff]")
_CHANGING = frozenset({"write", "edit"})
_NOT_RUN = re.compile(r"\W*(?:foldline: )?not run\b", re.IGNORECASE)
_TRIES = 3


class _Conversation:
    """The newest request of the user, and how far it has been followed."""

    def __init__(self, request: Request, limit: int) -> None:
        self._messages = request.messages
        self._tools = {tool.name: tool for tool in request.tools}
        self._limit = limit
        typed = [at for at, message in enumerate(request.messages) if _is_typed(message)]
        self._at = typed[-1] if typed else -1
        self._text = request.messages[self._at].text if typed else ""
        self._voice = Voice("zh" if _HAN.search(self._text) and not _KANA.search(self._text) else "en")
        self._groups = _finished_groups(request.messages[self._at + 1 :])
        self._done = [pair for group in self._groups for pair in group]

    def reply(self) -> Reply:
        orders = orders_in(self._text)
        steps = [tuple(_fitted(action, self._tools) for action in step) for step in orders.steps]
        missing = sorted({action.tool for step in steps for action in step} - self._tools.keys())
        if missing == ["history_search"]:
            return self._say(self._recalled(orders.recall or ""))
        if missing:
            return self._say(self._voice.missing(missing))
        position = self._position(steps)
        again = self._not_run(steps[:position])
        if again:
            return self._call(again)
        failed = any(
            result.is_error and call.name in _CHANGING and not _NOT_RUN.match(result.text)
            for call, result in self._done
        )
        if position < len(steps) and not failed:
            return self._call(steps[position])
        if self._done:
            return self._say(self._report(orders, steps[position:]))
        return self._say(self._without_tools(orders))

    # How far: calls are recognised by name and arguments, so that a fold in mid-turn repeats nothing.

    def _position(self, steps: Sequence[tuple[Action, ...]]) -> int:
        """The first step that was not begun: one after the last whose calls are in the view."""
        position = 0
        for group in self._groups:
            for number in range(position, len(steps)):
                if any(_same(call, action) for call, _ in group for action in steps[number]):
                    position = number + 1
                    break
        return position

    def _not_run(self, steps: Sequence[tuple[Action, ...]]) -> tuple[Action, ...]:
        """Calls that were answered "not run, call again", the window being full; tried three times."""
        again = []
        for action in dict.fromkeys(_key(action) for step in steps for action in step):
            results = [result for call, result in self._done if _key_of(call) == action]
            if results and len(results) <= _TRIES and _NOT_RUN.match(results[-1].text):
                again.append(action)
        wanted = set(again)
        return tuple(
            {_key(action): action for step in steps for action in step if _key(action) in wanted}.values()
        )

    # What is said.

    def _call(self, actions: Sequence[Action]) -> Reply:
        text = self._voice.doing(actions)
        if self._is_first:
            text = f"{self._voice.identity}\n\n{text}"
        return Reply(text, tuple(self._part(number, action) for number, action in enumerate(actions)))

    def _part(self, number: int, action: Action) -> ToolCallPart:
        taken = {
            call.call_id
            for message in self._messages
            if isinstance(message, AssistantMessage)
            for call in message.calls
        }
        # Entry indices are never re-used: ids made from the newest one are unique in the session.
        newest = max((message.index for message in self._messages), default=0)
        call_id = f"call_{max(newest, len(self._messages))}_{number}"
        while call_id in taken:
            call_id += "x"
        arguments = json.dumps(action.arguments, ensure_ascii=False)
        return ToolCallPart(call_id=call_id, name=action.tool, arguments=arguments)

    def _say(self, text: str) -> Reply:
        return Reply(f"{self._voice.identity}\n\n{text}" if self._is_first else text)

    @property
    def _is_first(self) -> bool:
        return not any(isinstance(m, AssistantMessage) or is_summary(m) for m in self._messages)

    def _report(self, orders: Orders, left: Sequence[tuple[Action, ...]]) -> str:
        newest = {_key_of(call): (call, result) for call, result in self._done}
        parts = [
            self._voice.about(Action(call.name, call.parsed()), result, self._text)
            for call, result in newest.values()
        ]
        if left:
            parts.append(self._voice.stopped([action for step in left for action in step]))
        if orders.unclear:
            parts.append(self._voice.unclear(orders.unclear))
        return "\n\n".join(parts)

    def _without_tools(self, orders: Orders) -> str:
        if orders.recall is not None:
            return self._recalled(orders.recall)
        if orders.help:
            return self._introduced(self._voice.abilities)
        unclear = [self._voice.unclear(orders.unclear)] if orders.unclear else []
        return self._introduced("\n\n".join([*unclear, self._voice.abilities]))

    def _introduced(self, text: str) -> str:
        """With the statement of what this is, which a first answer gets anyway."""
        return text if self._is_first else f"{self._voice.identity}\n\n{text}"

    def _recalled(self, about: str) -> str:
        """What the messages before the question hold, quoted: it shows what a fold has kept."""
        before = self._messages[: max(self._at, 0)]
        room = min(self._limit - 200, RECALL_TOKENS)
        notes = digest(before, previous=None, focus=about or None, max_tokens=max(room, 50))
        if not notes:
            return self._voice.nothing
        told = [message for message in before if message.text.strip()]
        return f"{self._voice.recalled(len(told), sum(map(is_summary, told)))}\n\n{notes}"


def _is_typed(message: BaseMessage) -> bool:
    return isinstance(message, UserMessage) and message.origin == "typed"


def _last_said(messages: Sequence[BaseMessage]) -> BaseMessage | None:
    """The last message, where it asks for something."""
    last = messages[-1] if messages else None
    return last if isinstance(last, UserMessage | DeveloperMessage) else None


def _position(messages: Sequence[BaseMessage], wanted: BaseMessage) -> int:
    return next(at for at, message in enumerate(messages) if message is wanted)


_Pair = tuple[ToolCallPart, ToolResultMessage]


def _finished_groups(messages: Sequence[BaseMessage]) -> list[list[_Pair]]:
    """Per assistant message, its calls that have results."""
    results = {message.call_id: message for message in messages if isinstance(message, ToolResultMessage)}
    return [
        [(call, results[call.call_id]) for call in message.calls if call.call_id in results]
        for message in messages
        if isinstance(message, AssistantMessage) and message.calls
    ]


def _key(action: Action) -> tuple[str, str]:
    return action.tool, json.dumps(action.arguments, sort_keys=True)


def _key_of(call: ToolCallPart) -> tuple[str, str]:
    return call.name, json.dumps(call.parsed(), sort_keys=True)


def _same(call: ToolCallPart, action: Action) -> bool:
    return _key_of(call) == _key(action)


def _fitted(action: Action, tools: dict[str, ToolSpec]) -> Action:
    """A recall call with its argument named as the tool offered names it."""
    spec = tools.get(action.tool)
    if action.tool != "history_search" or spec is None:
        return action
    properties = spec.parameters.get("properties", {})
    name = next((key for key, value in properties.items() if value.get("type") == "string"), "query")
    return Action(action.tool, {name: next(iter(action.arguments.values()))})
