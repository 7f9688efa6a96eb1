"""What the offline model answers to a request, as text and tool calls. Pure and deterministic.

Everything is derived from the messages of the request: there is no other memory, so that what a compaction
took out of the view is really gone. Results are counted and quoted, in English or Chinese.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass

from foldline.context.digest import clip, digest, digest_conversation
from foldline.context.language import SECTIONS, Section, parse_summary
from foldline.context.numbers import many
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
from .grammar import Action, Orders, orders_in
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
    most = min(limit, request.max_output or SUMMARY_TOKENS)
    last = request.messages[-1] if request.messages else None
    if isinstance(last, UserMessage | DeveloperMessage):
        if not request.tools and (conversation := _CONVERSATION.search(last.text)):
            return Reply(_summary(last.text, conversation, most))
        if not _is_typed(last) and _SUMMARY_WANTED.search(last.text):
            focus = _FOCUS.search(last.text)
            notes = digest(
                request.messages[:-1], previous=None, focus=focus and focus[1].strip(), max_tokens=most
            )
            return Reply(_as_prefix(notes) if _PREFIX in last.text else notes)
    return _Conversation(request, limit).reply()


# --- summaries --------------------------------------------------------------------------------------

_CONVERSATION = re.compile(r"<conversation>\n?(.*)\n?</conversation>", re.DOTALL)
_PREVIOUS = re.compile(r"<previous-summary>\n?(.*)\n?</previous-summary>", re.DOTALL)
_PASSAGES = re.compile(r"<passages>\n?(.*?)\n?</passages>", re.DOTALL)
_FOCUS = re.compile(r"^Additional focus:[ \t]*(.+)$", re.MULTILINE)
_SUMMARY_WANTED = re.compile(r"\bsummar(?:y|i[sz]e)|\bnotes\b|总结|摘要|笔记", re.IGNORECASE)
_PREFIX = "## Original Request"
"""Stands in the instructions where the notes are for the first part of a turn that goes on."""
_PREFIX_SECTIONS: tuple[tuple[str, tuple[Section, ...]], ...] = (
    (_PREFIX, (SECTIONS.goal,)),
    ("## Early Progress", (SECTIONS.done, SECTIONS.progress, SECTIONS.blocked, SECTIONS.decisions)),
    ("## Context for Suffix", (SECTIONS.constraints, SECTIONS.ahead, SECTIONS.critical)),
)


def _summary(text: str, conversation: re.Match[str], max_tokens: int) -> str:
    said, after = conversation[1], text[conversation.end() :]
    behind = _PREVIOUS.search(after)
    previous = behind or _PREVIOUS.search(text[: conversation.start()])
    instructions = after[behind.end() :] if behind else after
    found = _FOCUS.search(instructions)
    focus = found[1].strip() if found else None
    earlier = previous[1] if previous else None
    if asks_for_notes(said):
        return notes_on(said, focus)
    if is_notes(said):
        passages = _PASSAGES.search(after)
        quoted = passages[1] if passages else ""
        notes = overview_of(said, quoted, earlier, instructions, focus, max_tokens)
    else:
        notes = digest_conversation(said, earlier, focus, max_tokens)
    return _as_prefix(notes) if _PREFIX in instructions else notes


def _as_prefix(notes: str) -> str:
    """The same lines under the headings of a turn prefix; fewer headings, so never longer."""
    lines = list(parse_summary(notes))
    parts = []
    for heading, sections in _PREFIX_SECTIONS:
        parts.append(heading)
        parts += [f"- {line}" for section, line in lines if section in sections]
    return "\n".join(parts)


# --- the conversation -------------------------------------------------------------------------------

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
        self._voice = _Voice(bool(_HAN.search(self._text)) and not _KANA.search(self._text))
        self._groups = _finished_groups(request.messages[self._at + 1 :])
        self._done = [pair for group in self._groups for pair in group]
        self._is_first = not any(isinstance(m, AssistantMessage) or is_summary(m) for m in self._messages)

    def reply(self) -> Reply:
        orders = orders_in(self._text)
        steps = [tuple(_fitted(action, self._tools) for action in step) for step in orders.steps]
        missing = sorted({action.tool for step in steps for action in step} - self._tools.keys())
        if missing == ["history_search"]:
            return self._say(self._recalled(orders.recall or ""))
        if missing:
            return self._say(self._voice.missing(missing))
        position = self._position(steps)
        if again := self._not_run(steps[:position]):
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

    # How far: calls are recognised by name and arguments, so that a compaction in mid-turn repeats nothing.

    def _position(self, steps: Sequence[tuple[Action, ...]]) -> int:
        """The first step that was not begun: one after the last whose calls are in the view."""
        position = 0
        for group in self._groups:
            called = {_key(call.name, call.parsed()) for call, _ in group}
            for number in range(position, len(steps)):
                if any(_key(action.tool, action.arguments) in called for action in steps[number]):
                    position = number + 1
                    break
        return position

    def _not_run(self, steps: Sequence[tuple[Action, ...]]) -> list[Action]:
        """Calls that were answered "not run, call again", the window being full; tried three times."""
        again = []
        for key, action in {_key(a.tool, a.arguments): a for step in steps for a in step}.items():
            results = [result for call, result in self._done if _key(call.name, call.parsed()) == key]
            if results and len(results) <= _TRIES and _NOT_RUN.match(results[-1].text):
                again.append(action)
        return again

    # What is said.

    def _call(self, actions: Sequence[Action]) -> Reply:
        taken = {c.call_id for m in self._messages if isinstance(m, AssistantMessage) for c in m.calls}
        # Entry indices are never re-used: ids made from the newest one are unique in the session.
        newest = max([len(self._messages), *(message.index for message in self._messages)])
        calls = []
        for number, action in enumerate(actions):
            call_id = f"call_{newest}_{number}"
            while call_id in taken:
                call_id += "x"
            arguments = json.dumps(action.arguments, ensure_ascii=False)
            calls.append(ToolCallPart(call_id=call_id, name=action.tool, arguments=arguments))
        return Reply(self._say(self._voice.doing(actions)).text, tuple(calls))

    def _say(self, text: str) -> Reply:
        # Last: an answer begins with what was asked for, and so does what a digest quotes of it.
        return Reply(f"{text}\n\n{self._voice.identity}" if self._is_first else text)

    def _report(self, orders: Orders, left: Sequence[tuple[Action, ...]]) -> str:
        newest = {_key(call.name, call.parsed()): (call, result) for call, result in self._done}
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
        parts = [self._voice.abilities]
        if orders.unclear and not orders.help:
            parts.insert(0, self._voice.unclear(orders.unclear))
        # What this is belongs to it; a first answer says that anyway.
        return "\n\n".join(parts if self._is_first else [*parts, self._voice.identity])

    def _recalled(self, about: str) -> str:
        """What the messages before the question hold, quoted: it shows what a compaction has kept."""
        before = self._messages[: max(self._at, 0)]
        room = min(self._limit - 200, RECALL_TOKENS)
        notes = digest(before, previous=None, focus=about or None, max_tokens=max(room, 50))
        if not notes:
            return self._voice.say("Nothing was said before this.", "在此之前没有任何对话。")
        told = [message for message in before if message.text.strip()]
        return f"{self._voice.recalled(len(told), sum(map(is_summary, told)))}\n\n{notes}"


def _is_typed(message: BaseMessage) -> bool:
    return isinstance(message, UserMessage) and message.origin == "typed"


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


def _fitted(action: Action, tools: dict[str, ToolSpec]) -> Action:
    """A recall call with its argument named as the tool offered names it."""
    spec = tools.get(action.tool)
    if action.tool != "history_search" or spec is None:
        return action
    properties = spec.parameters.get("properties", {})
    name = next((key for key, value in properties.items() if value.get("type") == "string"), "query")
    return Action(action.tool, {name: next(iter(action.arguments.values()))})


# --- sentences --------------------------------------------------------------------------------------

_PART = re.compile(r"\n?\[lines [\d,]+–[\d,]+ of ([\d,]+)\]\s*\Z")
_LEFT_OUT = re.compile(r"^\[… ([\d,]+) lines? \(.{0,40}\) left out", re.MULTILINE)
_HEADING = re.compile(r"#{1,3} \S")
_DEFINITION = re.compile(
    r"(?:export |default |pub(?:\(\w+\))? |public |private |static |abstract |async )*"
    r"(?:def|class|function|fn|func|interface|struct|enum|trait|impl|module) \w"
)
_EXIT = re.compile(r"\[(?:no output, )?exit (\d{1,3})\]")
_HIT = re.compile(r"(.+?):\d+: ?")
_SHOW = re.compile(
    r"\b(?:show|print|cat|display|view|first lines?|quote)\b|显示|看看|打印|给我看", re.IGNORECASE
)
_TITLE_KEYS = ("path", "pattern", "command", "query", "index", "glob")


@dataclass(frozen=True, slots=True)
class _Voice:
    """The sentences of an answer, in English or Chinese."""

    is_chinese: bool

    def say(self, english: str, chinese: str) -> str:
        return chinese if self.is_chinese else english

    @property
    def identity(self) -> str:
        return self.say(
            "I am the offline model: not a language model, but a small program embedded in Foldline that "
            "follows simple requests. To talk to a real model, choose one with /model in the chat, or set "
            "OPENAI_API_KEY and start again.",
            "我是离线模型：不是语言模型，而是 Foldline 内置的一个小程序，只会执行简单的请求。"
            "要使用真正的模型，请在聊天中用 /model 选择，或设置 OPENAI_API_KEY 后重新启动。",
        )

    @property
    def abilities(self) -> str:
        return self.say(
            "You can ask me, for example:\n\n"
            "- `read README.md` or `read a.py and b.py`\n- `list src`, `find *.py in src`\n"
            '- `search for "TODO" in src`\n- `run pytest -q`\n- `write hello to notes.txt`\n'
            "- `replace foo with bar in notes.txt`\n- `what did we do?`\n\n"
            "and several of them in one sentence: `read a.py, then run pytest`.",
            "可以这样请求，例如：\n\n"
            "- `读取 README.md` 或 `读取 a.py 和 b.py`\n- `列出 src 目录`、`查找 *.py`\n"
            "- `在 src 中搜索 TODO`\n- `运行 pytest -q`\n- `把 你好 写入 notes.txt`\n"
            "- `把 notes.txt 中的 foo 替换成 bar`\n- `我们做了什么？`\n\n"
            "也可以连在一句里：`读取 a.py，然后运行 pytest`。",
        )

    def unclear(self, pieces: Sequence[str]) -> str:
        quoted = "; ".join(f"“{clip(' '.join(piece.split()), 120)}”" for piece in pieces[:3])
        return self.say(f"I could not follow: {quoted}.", f"我没能理解：{quoted}。")

    def missing(self, tools: Sequence[str]) -> str:
        names = ", ".join(f"`{tool}`" for tool in tools)
        return self.say(
            f"I cannot do that: the tool {names} is not offered to me here.",
            f"我做不到：这里没有提供工具 {names}。",
        )

    def stopped(self, left: Sequence[Action]) -> str:
        names = ", ".join(map(_title, left))
        return self.say(f"I stopped there and did not do: {names}.", f"我到此为止，没有执行：{names}。")

    def doing(self, actions: Sequence[Action]) -> str:
        titles = ", ".join(map(_title, actions))
        return self.say(f"I call {titles}.", f"我调用 {titles}。")

    def recalled(self, messages: int, summaries: int) -> str:
        english = f", {many(summaries, 'of them a summary', 'of them summaries')}" if summaries else ""
        chinese = f"，其中 {summaries} 条是摘要" if summaries else ""
        return self.say(
            f"I was sent {many(messages, 'message')}{english}. Quoted from them:",
            f"我收到了 {messages} 条消息{chinese}。摘录如下：",
        )

    def about(self, action: Action, result: ToolResultMessage, request: str) -> str:
        """One result in a few lines."""
        title, text = _title(action), result.text.rstrip()
        lines = text.splitlines()
        if result.is_error and action.tool != "bash":
            return f"{title}: {self.say('failed', '失败')}: {clip(lines[0] if lines else '', 300)}"
        match action.tool:
            case "read":
                return f"{title}: {self._file(text, action, request)}"
            case "bash":
                return f"{title}: {self._command(lines, result.is_error)}"
            case "ls":
                count = 0 if text.startswith("[") and text.endswith("is empty]") else len(lines)
                return f"{title}: {self._items(count, 'entry', 'entries', '项')}\n{_quoted(text)}"
            case "glob" if not text.startswith("No file"):
                count = sum(not line.startswith("[") for line in lines)
                return f"{title}: {self._items(count, 'file', 'files', '个文件')}\n{_quoted(text)}"
            case "grep" if not text.startswith("No line"):
                hits = [found[1] for line in lines if (found := _HIT.match(line))]
                matches = self._items(len(hits), "match", "matches", "处匹配")
                where = self._items(len(set(hits)), "file", "files", "个文件")
                return f"{title}: {matches}, {where}\n{_quoted(text)}"
            case _:
                return f"{title}: {text}" if "\n" not in text else f"{title}:\n{_quoted(text)}"

    def _file(self, text: str, action: Action, request: str) -> str:
        note = _PART.search(text)
        body = text[: note.start()] if note else text
        lines = body.splitlines()
        left_out = _LEFT_OUT.search(body)
        number = len(lines) - 1 + int(left_out[1].replace(",", "")) if left_out else len(lines)
        size = self._items(number, "line", "lines", "行")
        if note:
            size += self.say(f" (of {note[1]})", f"（共 {note[1]} 行）")
        if _SHOW.search(request):
            return f"{size}\n{_quoted(body, 2 * _LINES)}"
        about = self._described(lines, action)
        return self.say("; ", "；").join([size, about] if about else [size]) + "."

    def _described(self, lines: Sequence[str], action: Action) -> str:
        """What a file is: its headings, or what it defines, or how it begins."""
        start = action.arguments.get("offset")
        headings = [f"`{clip(line.strip(), 80)}`" for line in lines if _HEADING.match(line)]
        if headings and str(action.arguments.get("path")).endswith((".md", ".markdown", ".mdx", ".rst")):
            shown = "; ".join(headings[:_LINES])
            return self.say(f"headings: {shown}", f"标题：{shown}") + _more(headings)
        defined = [
            f"`{clip(line.strip().rstrip('{:'), 80)}` ({self.say('line', '行')} {number})"
            for number, line in enumerate(lines, start if isinstance(start, int) else 1)
            if _DEFINITION.match(line)
        ]
        if defined:
            shown = ", ".join(defined[:_LINES])
            return self.say(f"defines {shown}", f"定义了 {shown}") + _more(defined)
        opening = next((line.strip() for line in lines if line.strip()), "")
        quoted = f"`{clip(opening, 120)}`"
        return self.say(f"begins with {quoted}", f"开头是 {quoted}") if opening else ""

    def _command(self, lines: list[str], failed: bool) -> str:
        stated = _EXIT.fullmatch(lines[-1].strip()) if lines else None
        status = stated[1] if stated else self.say("failed", "失败") if failed else "0"
        outcome = self.say(f"exit status {status}", f"退出状态 {status}") if status.isdigit() else status
        written = lines[:-1] if stated else lines
        if not written:
            return f"{outcome}, {self.say('no output', '没有输出')}."
        size = self._items(len(written), "line", "lines", "行")
        return f"{outcome}, {size}:\n{_quoted(chr(10).join(written[-_LINES:]))}"

    def _items(self, number: int, one: str, more: str, chinese: str) -> str:
        return self.say(many(number, one, more), f"{number} {chinese}")


def _title(action: Action) -> str:
    """A call in a few words, as inline code: `read a.py`."""
    values = [str(value) for key, value in action.arguments.items() if key in _TITLE_KEYS]
    text = " ".join([action.tool, *(clip(" ".join(value.split()), 80) for value in values)])
    fence = _fence(text, 0)
    return f"{fence} {text} {fence}" if len(fence) > 1 else f"`{text}`"


def _quoted(text: str, most: int = _LINES) -> str:
    """The first lines of a text in a code fence, and how many more there are."""
    lines = text.splitlines()
    shown = "\n".join(clip(line, _WIDTH) for line in lines[:most])
    fence = _fence(shown, 2)
    return f"\n{fence}text\n{shown}\n{fence}" + (f"\n… +{len(lines) - most}" if len(lines) > most else "")


def _fence(text: str, least: int) -> str:
    """One backtick more than any run of them in the text."""
    return "`" * (max(map(len, re.findall(r"`+", text)), default=least) + 1 if "`" in text else least + 1)


def _more(items: Sequence[str]) -> str:
    return f", … +{len(items) - _LINES}" if len(items) > _LINES else ""
