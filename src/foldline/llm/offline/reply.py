"""What the offline model answers to a request, as text and tool calls. Pure and deterministic.

Everything is derived from the messages of the request: there is no other memory, so that what a compaction
took out of the view is really gone. Results are counted and quoted, in English or Chinese.
"""

import json
import re
from collections.abc import Callable, Sequence
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
)

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
    if not conversation and (_is_typed(asking) or not _SUMMARY_WANTED.search(asking.text)):
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

_HAN, _KANA = re.compile(r"[\u4e00-\u9fff]"), re.compile(r"[\u3040-\u30ff]")
_CHANGING = frozenset({"write", "edit"})
_NOT_RUN = re.compile(r"\W*(?:foldline: )?not run\b", re.IGNORECASE)
_TRIES = 3


class _Conversation:
    """The newest request of the user, and how far it has been followed."""

    def __init__(self, request: Request, limit: int) -> None:
        self._messages = request.messages
        self._tools = {tool.name for tool in request.tools}
        self._limit = limit
        typed = [at for at, message in enumerate(request.messages) if _is_typed(message)]
        self._at = typed[-1] if typed else -1
        self._text = request.messages[self._at].text if typed else ""
        self._say = _chinese if _HAN.search(self._text) and not _KANA.search(self._text) else _english
        self._groups = _finished_groups(request.messages[self._at + 1 :])
        self._is_first = not any(isinstance(m, AssistantMessage) or is_summary(m) for m in self._messages)

    def reply(self) -> Reply:
        orders = orders_in(self._text)
        missing = sorted({action.tool for step in orders.steps for action in step} - self._tools)
        if missing == ["history_search"]:
            return self._answer(self._recalled(str(orders.steps[0][0].arguments["query"])))
        if missing:
            names = ", ".join(f"`{tool}`" for tool in missing)
            return self._answer(
                self._say(
                    f"I cannot do that: the tool {names} is not offered to me here.",
                    f"我做不到：这里没有提供工具 {names}。",
                )
            )
        begun = self._begun(orders.steps)
        if again := self._not_run(orders.steps[:begun]):
            return self._call(again)
        done = [pair for group in self._groups for pair in group]
        failed = any(
            result.is_error and call.name in _CHANGING and not _NOT_RUN.match(result.text)
            for call, result in done
        )
        if begun < len(orders.steps) and not failed:
            return self._call(orders.steps[begun])
        return self._answer(
            self._report(orders, orders.steps[begun:]) if done else self._without_tools(orders)
        )

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
        answers: dict[tuple[str, str], list[str]] = {}
        for group in self._groups:
            for call, result in group:
                answers.setdefault(_key(call.name, call.parsed()), []).append(result.text)
        asked = {_key(*action): action for step in steps for action in step}
        return [
            action
            for key, action in asked.items()
            if 0 < len(texts := answers.get(key, [])) <= _TRIES and _NOT_RUN.match(texts[-1])
        ]

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
        titles = ", ".join(map(_title, actions))
        return Reply(self._answer(self._say(f"I call {titles}.", f"我调用 {titles}。")).text, tuple(calls))

    def _answer(self, text: str) -> Reply:
        # Last: an answer begins with what was asked for, and so does what a digest quotes of it.
        return Reply(f"{text}\n\n{self._say(*_IDENTITY)}" if self._is_first else text)

    def _report(self, orders: Orders, left: Sequence[Step]) -> str:
        newest = {
            _key(call.name, call.parsed()): (Action(call.name, call.parsed()), result)
            for group in self._groups
            for call, result in group
        }
        shows = _SHOW.search(self._text) is not None
        parts = [_about(action, result, shows, self._say) for action, result in newest.values()]
        if left:
            names = ", ".join(_title(action) for step in left for action in step)
            parts.append(
                self._say(f"I stopped there and did not do: {names}.", f"我到此为止，没有执行：{names}。")
            )
        return "\n\n".join(parts + self._unclear(orders))

    def _without_tools(self, orders: Orders) -> str:
        if orders.recall is not None:
            return self._recalled(orders.recall)
        # What this is belongs to it; a first answer says that anyway.
        identity = [] if self._is_first else [self._say(*_IDENTITY)]
        return "\n\n".join([*self._unclear(orders), self._say(*_ABILITIES), *identity])

    def _unclear(self, orders: Orders) -> list[str]:
        quoted = "; ".join(f"“{clip(' '.join(piece.split()), 120)}”" for piece in orders.unclear[:3])
        return [self._say(f"I could not follow: {quoted}.", f"我没能理解：{quoted}。")] if quoted else []

    def _recalled(self, about: str) -> str:
        """What the messages before the question hold, quoted: it shows what a compaction has kept."""
        before = self._messages[: max(self._at, 0)]
        room = max(min(self._limit - 200, RECALL_TOKENS), 50)
        notes = digest(before, previous=None, focus=about or None, max_tokens=room)
        if not notes:
            return self._say("Nothing was said before this.", "在此之前没有任何对话。")
        count = sum(bool(message.text.strip()) for message in before)
        summaries = sum(is_summary(message) for message in before if message.text.strip())
        english = f", {many(summaries, 'of them a summary', 'of them summaries')}" if summaries else ""
        chinese = f"，其中 {summaries} 条是摘要" if summaries else ""
        sent = self._say(
            f"I was sent {many(count, 'message')}{english}. Quoted from them:",
            f"我收到了 {count} 条消息{chinese}。摘录如下：",
        )
        return f"{sent}\n\n{notes}"


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


# --- sentences --------------------------------------------------------------------------------------

Say = Callable[[str, str], str]
"""Chooses between a sentence in English and the same in Chinese."""

_IDENTITY = (
    "I am the offline model: not a language model, but a small program embedded in Foldline that "
    "follows simple requests. To talk to a real model, choose one with /model in the chat, or set "
    "OPENAI_API_KEY and start again.",
    "我是离线模型：不是语言模型，而是 Foldline 内置的一个小程序，只会执行简单的请求。"
    "要使用真正的模型，请在聊天中用 /model 选择，或设置 OPENAI_API_KEY 后重新启动。",
)
_ABILITIES = (
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


def _english(english: str, _: str) -> str:
    return english


def _chinese(_: str, chinese: str) -> str:
    return chinese


def _about(action: Action, result: ToolResultMessage, shows: bool, say: Say) -> str:
    """One result in a few lines; of a file, its text where the request wants it shown."""
    text = result.text.rstrip()
    lines = text.splitlines()
    if result.is_error and action.tool != "bash":
        said = f" {say('failed', '失败')}: {clip(lines[0] if lines else '', 300)}"
    elif action.tool == "read":
        said = f" {_file(text, action, shows, say)}"
    elif action.tool == "bash":
        said = f" {_command(lines, result.is_error, say)}"
    elif action.tool in ("ls", "glob", "grep") and not text.startswith(("No file", "No line")):
        said = f" {_listed(action.tool, lines, say)}\n{_quoted(text)}"
    else:
        said = f"\n{_quoted(text)}" if "\n" in text else f" {text}"
    return f"{_title(action)}:{said}"


def _listed(tool: str, lines: Sequence[str], say: Say) -> str:
    """How much a listing or a search found."""
    if tool == "ls":
        is_empty = len(lines) == 1 and lines[0].startswith("[") and lines[0].endswith("is empty]")
        return _count(0 if is_empty else len(lines), "entry", "entries", "项", say)
    if tool == "glob":
        return _count(sum(not line.startswith("[") for line in lines), "file", "files", "个文件", say)
    hits = [found[1] for line in lines if (found := _HIT.match(line))]
    matches = _count(len(hits), "match", "matches", "处匹配", say)
    return f"{matches}, {_count(len(set(hits)), 'file', 'files', '个文件', say)}"


def _file(text: str, action: Action, shows: bool, say: Say) -> str:
    note = _PART.search(text)
    body = text[: note.start()] if note else text
    lines = body.splitlines()
    left_out = _LEFT_OUT.search(body)
    number = len(lines) - 1 + int(left_out[1].replace(",", "")) if left_out else len(lines)
    size = _count(number, "line", "lines", "行", say)
    size += say(f" (of {note[1]})", f"（共 {note[1]} 行）") if note else ""
    if shows:
        return f"{size}\n{_quoted(body, 2 * _LINES)}"
    about = _described(lines, action, say)
    return say("; ", "；").join([size, about] if about else [size]) + "."


def _described(lines: Sequence[str], action: Action, say: Say) -> str:
    """What a file is: its headings, or what it defines, or how it begins."""
    headings = [f"`{clip(line.strip(), 80)}`" for line in lines if _HEADING.match(line)]
    if headings and str(action.arguments.get("path")).endswith((".md", ".markdown", ".mdx", ".rst")):
        return say("headings: ", "标题：") + _some(headings, "; ")
    start = action.arguments.get("offset")
    defined = [
        f"`{clip(line.strip().rstrip('{:'), 80)}` ({say('line', '行')} {number})"
        for number, line in enumerate(lines, start if isinstance(start, int) else 1)
        if _DEFINITION.match(line)
    ]
    if defined:
        return say("defines ", "定义了 ") + _some(defined, ", ")
    opening = next((line.strip() for line in lines if line.strip()), "")
    return say("begins with ", "开头是 ") + f"`{clip(opening, 120)}`" if opening else ""


def _command(lines: list[str], failed: bool, say: Say) -> str:
    stated = _EXIT.fullmatch(lines[-1].strip()) if lines else None
    status = stated[1] if stated else say("failed", "失败") if failed else "0"
    outcome = say(f"exit status {status}", f"退出状态 {status}") if status.isdigit() else status
    written = lines[:-1] if stated else lines
    if not written:
        return f"{outcome}, {say('no output', '没有输出')}."
    size = _count(len(written), "line", "lines", "行", say)
    return f"{outcome}, {size}:\n{_quoted(chr(10).join(written[-_LINES:]))}"


def _count(number: int, one: str, more: str, chinese: str, say: Say) -> str:
    return say(many(number, one, more), f"{number} {chinese}")


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
    return "`" * (max([least, *map(len, re.findall(r"`+", text))]) + 1)


def _some(items: Sequence[str], between: str) -> str:
    return between.join(items[:_LINES]) + (f", … +{len(items) - _LINES}" if len(items) > _LINES else "")
