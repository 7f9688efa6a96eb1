"""What the offline model says: facts about results, counted and quoted, in English or Chinese."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from foldline.context.digest import clip
from foldline.context.language import Language
from foldline.protocol import ToolResultMessage

from .orders import Action

_LINES, _WIDTH = 8, 160
"""Of a result, how many lines are quoted, and how many characters of each."""


@dataclass(frozen=True, slots=True)
class Voice:
    """Every sentence, in the language of the question."""

    language: Language

    def say(self, english: str, chinese: str) -> str:
        return chinese if self.language == "zh" else english

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
        names = ", ".join(_span(action_title(action)) for action in left)
        return self.say(f"I stopped there and did not do: {names}.", f"我到此为止，没有执行：{names}。")

    def doing(self, actions: Sequence[Action]) -> str:
        titles = ", ".join(_span(action_title(action)) for action in actions)
        return self.say(f"I call {titles}.", f"我调用 {titles}。")

    def recalled(self, messages: int, summaries: int) -> str:
        return self.say(
            f"I was sent {_counted(messages, 'message')}"
            + (f", {_counted(summaries, 'of them a summary', 'of them summaries')}" if summaries else "")
            + ". Quoted from them:",
            f"我收到了 {messages} 条消息"
            + (f"，其中 {summaries} 条是摘要" if summaries else "")
            + "。摘录如下：",
        )

    @property
    def nothing(self) -> str:
        return self.say("Nothing was said before this.", "在此之前没有任何对话。")

    def about(self, action: Action, result: ToolResultMessage, request: str) -> str:
        """One result in a few lines."""
        title = _span(action_title(action))
        text = result.text.rstrip()
        if result.is_error and action.tool != "bash":
            first = text.splitlines()[0] if text else ""
            return f"{title}: {self.say('failed', '失败')}: {clip(first, 300)}"
        match action.tool:
            case "read":
                return f"{title}: {self._file(text, action, request)}"
            case "bash":
                return f"{title}: {self._command(text, result.is_error)}"
            case "ls":
                count = 0 if text.startswith("[") and text.endswith("is empty]") else len(text.splitlines())
                return f"{title}: {self._items(count, 'entry', 'entries', '项')}\n{_quoted(text)}"
            case "glob" if not text.startswith("No file"):
                files = [line for line in text.splitlines() if not line.startswith("[")]
                return f"{title}: {self._items(len(files), 'file', 'files', '个文件')}\n{_quoted(text)}"
            case "grep" if not text.startswith("No line"):
                hits = [found for line in text.splitlines() if (found := _HIT.match(line))]
                files_hit = len({hit[1] for hit in hits})
                matches = self._items(len(hits), "match", "matches", "处匹配")
                where = self._items(files_hit, "file", "files", "个文件")
                return f"{title}: {matches}, {where}\n{_quoted(text)}"
            case _:
                return f"{title}: {text}" if "\n" not in text else f"{title}:\n{_quoted(text)}"

    def _file(self, text: str, action: Action, request: str) -> str:
        note = _PART.search(text)
        body = text[: note.start()] if note else text
        lines = body.splitlines()
        left_out = _LEFT_OUT.search(body)
        number = len(lines) - 1 + int(left_out[1].replace(",", "")) if left_out else len(lines)
        parts = [self._items(number, "line", "lines", "行")]
        if note:
            parts[0] += self.say(f" (of {note[1]})", f"（共 {note[1]} 行）")
        start = action.arguments.get("offset")
        first_line = start if isinstance(start, int) else 1
        if _asks_to_show(request):
            return f"{parts[0]}\n{_quoted(body, 2 * _LINES)}"
        headings = [clip(line.strip(), 80) for line in lines if _HEADING.match(line)]
        defined = [
            f"`{clip(line.strip().rstrip('{:'), 80)}` ({self.say('line', '行')} {number})"
            for number, line in enumerate(lines, first_line)
            if _DEFINITION.match(line)
        ]
        path = str(action.arguments.get("path", ""))
        if path.endswith((".md", ".markdown", ".mdx", ".rst")) and headings:
            shown = "; ".join(f"`{heading}`" for heading in headings[:_LINES])
            parts.append(self.say(f"headings: {shown}", f"标题：{shown}") + _more(headings))
        elif defined:
            shown = ", ".join(defined[:_LINES])
            parts.append(self.say(f"defines {shown}", f"定义了 {shown}") + _more(defined))
        else:
            opening = next((line.strip() for line in lines if line.strip()), "")
            if opening:
                quoted = f"`{clip(opening, 120)}`"
                parts.append(self.say(f"begins with {quoted}", f"开头是 {quoted}"))
        return self.say("; ", "；").join(parts) + "."

    def _command(self, text: str, failed: bool) -> str:
        lines = text.splitlines()
        stated = _EXIT.fullmatch(lines[-1].strip()) if lines else None
        if stated:
            lines = lines[:-1]
        status = stated[1] if stated else self.say("failed", "失败") if failed else "0"
        outcome = self.say(f"exit status {status}", f"退出状态 {status}") if status.isdigit() else status
        if not lines or lines == ["[no output, exit 0]"]:
            return f"{outcome}, {self.say('no output', '没有输出')}."
        counted = self._items(len(lines), "line", "lines", "行")
        tail = lines[-_LINES:]
        return f"{outcome}, {counted}:\n{_quoted(chr(10).join(tail))}"

    def _items(self, number: int, one: str, many: str, chinese: str) -> str:
        return self.say(f"{number} {one if number == 1 else many}", f"{number} {chinese}")


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


def action_title(action: Action) -> str:
    """A call in a few words: `read a.py`."""
    values = [str(value) for key, value in action.arguments.items() if key in _TITLE_KEYS]
    return " ".join([action.tool, *(clip(" ".join(value.split()), 80) for value in values)])


_TITLE_KEYS = ("path", "pattern", "command", "query", "index", "glob")


def _span(text: str) -> str:
    """Inline code, whatever the text holds."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * (longest + 1)
    return f"{fence} {text} {fence}" if longest else f"{fence}{text}{fence}"


def _asks_to_show(request: str) -> bool:
    return _SHOW.search(request) is not None


def _quoted(text: str, most: int = _LINES) -> str:
    """Lines in a fence that is longer than any run of backticks in them."""
    lines = text.splitlines()
    shown = [clip(line, _WIDTH) for line in lines[:most]]
    longest = max((len(run) for run in re.findall(r"`{3,}", "\n".join(shown))), default=2)
    fence = "`" * (longest + 1)
    rest = f"\n… +{len(lines) - most}" if len(lines) > most else ""
    return f"\n{fence}text\n" + "\n".join(shown) + f"\n{fence}{rest}"


def _more(items: Sequence[str]) -> str:
    return f", … +{len(items) - _LINES}" if len(items) > _LINES else ""


def _counted(number: int, one: str, many: str = "") -> str:
    return f"{number} {one if number == 1 else many or one + 's'}"
