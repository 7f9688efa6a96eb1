"""What a user's sentence asks of the offline model, as tool calls: a small grammar in English and Chinese.

Quoted text (backticks, quotes, fences) is never looked into: it is a pattern, a command or a file's content.
What is not understood is said to be, and never guessed.
"""

import re
from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

from foldline.protocol import CALLED_CLOSE, CALLED_OPEN

Arguments = dict[str, str | int | bool]


class Action(NamedTuple):
    """One tool call to be made."""

    tool: str
    arguments: Arguments


Step = tuple[Action, ...]
"""Calls that are independent and go out together."""


class Orders(NamedTuple):
    """What a message asks for."""

    steps: tuple[Step, ...] = ()
    recall: str | None = None
    """What of the conversation is to be recalled; empty for all of it, None where that is not asked."""
    unclear: tuple[str, ...] = ()
    """Pieces of the message that were not understood."""


_MOST_CLAUSES, _LONGEST = 40, 1_000
"""What has more clauses, or more characters in one, is no simple request; the grammar is not linear in it."""
_ENDINGS = {"python": "py", "markdown": "md", "typescript": "ts", "javascript": "js", "rust": "rs"}
"""File endings by language, for "find all Python files"."""

_Q = "\ue000\\d+\ue001"
"""The mark that stands for a quotation."""
_QUOTE = re.compile("\ue000(\\d+)\ue001")

_RULES_TEXT = r"""
history_search  search (?:the |our |your )?history for {what}
history_search  在?历史(?:记录)?[中里]? ?(?:搜索|查找) ?{what}
edit    replace {all}{old} (?:with|by) {new} in {file}
edit    (?:在|把|将) ?{path} ?[中里]的? ?(?:把|将)? ?{all}{old} ?(?:替换|改)(?:成|为) ?{new}
write   (?:write|put|save) {content} (?:to|into|in) {file}
write   (?:create|write) {file} with(?: the)?(?: contents?| text)?:? {content}
write   create {file}
write   (?:把|将) ?{content} ?(?:写入|写到|保存到) ?{path}
write   (?:创建|新建) ?(?:文件)? ?{path}[\s，,:：]+(?:内容(?:为|是)?[:：]?)? ?{content}
bash    (?:run|execute)(?: the command)?:? {command}
bash    (?:运行|执行)(?:命令)?[:：]? ?{command}
glob    (?:find|list|glob)(?: all)?(?: the)? {glob}(?: files)?{in}
glob    (?:查找|列出|找)(?:所有)?的? ?{glob} ?(?:文件)?
grep    (?:search|grep|find)(?: for)? {what}{in}
grep    (?:在 ?{path} ?(?:目录|文件夹)?[中里下]?)? ?(?:搜索|查找|搜|找) ?{what}
ls      (?:list|ls|show|what(?:'s| is))(?: me)?(?: all)?(?: the)?(?: files)?(?: in)?(?: here| this folder)?
ls      (?:list|ls|what(?:'s| is))(?: the)?(?: files)?(?: in)? {path}(?: folder| directory)?
ls      列出 ?(?:当前)?(?P<path>Q|(?a:[\w./~@+-]+))? ?(?:目录|文件夹)?[下里中]?的?(?:所有)?(?:文件|内容)?
"""
"""`TOOL  PATTERN`, tried in this order. A blank stands for blanks, and ` ?` for some or none."""

_PARTS = {
    "{in}": r"(?: (?:in|inside|under) (?:the )?{path}(?: folder| directory)?)?",
    "{file}": r"(?:(?:an?|the|new|empty|file|called|named) )*{path}",
    "{path}": r"(?P<path>Q|[^\s,，;；]+?)",
    "{all}": r"(?P<all>(?:all|every) |所有的? ?)?",
}


def _rules() -> Iterator[tuple[str, re.Pattern[str]]]:
    for row in _RULES_TEXT.strip().splitlines():
        tool, _, pattern = row.partition(" ")
        pattern = pattern.strip()
        for part, meaning in _PARTS.items():
            pattern = pattern.replace(part, meaning)
        pattern = re.sub(r"\{(\w+)\}", r"(?P<\1>Q|.+?)", pattern).replace("Q|", f"{_Q}|")
        pattern = pattern.replace(" ?", r"\s*").replace(" ", r"\s+")
        yield tool, re.compile(pattern, re.IGNORECASE | re.DOTALL)


_RULES = tuple(_rules())

# Fences, backticks, and quotes of several scripts. Single quotes only around whole words: "don't" is none.
_QUOTED = re.compile(
    r"```[\w+-]{0,20}\n(.*?)\n?```|`([^`\n]{1,400})`|\"([^\"\n]{1,400})\"|“([^”\n]{1,400})”|"
    r"「([^」\n]{1,400})」|『([^』\n]{1,400})』|(?<!\w)'([^'\n]{1,400})'(?!\w)",
    re.DOTALL,
)
_POLITE = re.compile(
    r"\A(?:(?:please|ok|hey|hi|hello|now|first|also|and|then|can you|could you|help me)\b[,:]?\s*|"
    r"(?:请你?|帮我|麻烦你?|能不能|可以|先|再|然后|现在)[，,]?\s*)+",
    re.IGNORECASE,
)
_VERB = (
    r"(?:(?:read|show|open|list|ls|find|search|grep|run|execute|write|create|put|save|replace|tell|say|explain|"
    r"summari[sz]e|what|where|never|do not|don't)\b|"
    r"读|打开|查看|看|列出|搜|查找|找|运行|执行|写|创建|新建|把|将|总结|在|告诉)"
)
_LINKS = r"(?:(?:\b(?:and|then|also|finally|please)\b|然后|接着|再|最后|并|请),?\s{0,9})"
# A clause ends at punctuation or a linking word, where a verb we know begins the next one.
_CLAUSE_END = re.compile(
    rf"\s{{0,9}}(?:(?:[,;!?，；。！？\n]|\.(?=\s))\s{{0,9}}{_LINKS}{{0,4}}|{_LINKS}{{1,4}})(?={_VERB})",
    re.IGNORECASE,
)

_HELP = re.compile(
    r"\A\W*(?:help|hi|hello|hey|你好|您好|帮助)\W*\Z|\b(?:who|what) are you\b|what can you do|what model|"
    r"你是谁|你能做什么|你会什么|什么模型",
    re.IGNORECASE,
)
_RECALL = re.compile(
    r"what (?:did|have|had) (?:we|you|i)\b|what happened|\A(?:summari[sz]e|总结)\W*\Z|"
    r"do you (?:still )?(?:remember|know)(?: (?:about )?(?P<what>.+))?|"
    r"(?:我们|你|刚才|之前).{0,6}(?:做了|完成了|说了|改了)|还?记得(?:什么|(?P<was>.+))?",
    re.IGNORECASE | re.DOTALL,
)
_READ = re.compile(
    r"(?:read|show|open|cat|view|print|look at|explain|summari[sz]e|describe|what|how|which)\b\s*|"
    r"(?:读取?|打开|查看|看看?|显示|总结|解释)(?:一下)?\s*(?:文件)?\s*",
    re.IGNORECASE,
)
"""Begins what is answered from a file, where one is named."""
_ABOUT_IT = re.compile(r"(?:tell me|say|explain|never|do not|don't)\b|告诉我|解释", re.IGNORECASE)
"""Begins a question about what was fetched, which every answer says, or a rule, which is kept anyway."""


_CALLED = re.compile(rf"{re.escape(CALLED_OPEN)}[^\n]*\n(.*?){re.escape(CALLED_CLOSE)}", re.DOTALL)
"""What a command of the user's stands for: that is what is asked for, and not its name."""

# --- a message --------------------------------------------------------------------------------------


def orders_in(message: str) -> Orders:
    """What a message asks for. Deterministic, and total: what is not understood is under `unclear`."""
    called = _CALLED.search(message)
    masked = _Masked((called[1] if called else message).strip())
    if len(masked.text) < 120 and _HELP.search(masked.text):
        return Orders()
    steps: list[Step] = []
    unclear: list[str] = []
    recall: str | None = None
    for clause in islice(_clauses(masked.text), _MOST_CLAUSES):
        short = clause[:_LONGEST]
        if asked := _RECALL.search(short):
            recall = masked.unquoted(asked["what"] or asked["was"])
        elif step := _step(clause, masked):
            steps.append(step)
        elif not (steps and _ABOUT_IT.match(short)) and sum(map(str.isalnum, clause)) > 1:
            unclear.append(masked.restored(clause))
    return Orders(tuple(steps), recall, unclear=tuple(unclear))


class _Masked:
    """A text whose quotations are replaced by marks, so that the grammar does not look into them."""

    def __init__(self, text: str) -> None:
        self._quotes: list[tuple[str, str]] = []
        # Marks of our own kind in foreign text would be taken for quotations.
        self.text = _QUOTED.sub(self._mark, re.sub(r"[\ue000\ue001]", "\ufffd", text))

    def _mark(self, found: re.Match[str]) -> str:
        self._quotes.append((found[0], next(group for group in found.groups() if group is not None)))
        return f"\ue000{len(self._quotes) - 1}\ue001"

    def unquoted(self, text: str | None) -> str:
        """The text with what quotations hold in their place, without their quotes."""
        return _QUOTE.sub(lambda found: self._quotes[int(found[1])][1], text or "").strip()

    def restored(self, text: str) -> str:
        """The text as it was written."""
        return _QUOTE.sub(lambda found: self._quotes[int(found[1])][0], text)


def _clauses(text: str) -> Iterator[str]:
    start = 0
    for end in _CLAUSE_END.finditer(text):
        yield _plain(text[start : end.start()])
        start = end.end()
    yield _plain(text[start:])


def _plain(clause: str) -> str:
    """A clause without politeness before it and full stops behind it."""
    clause = clause.strip().rstrip("。!！?？;；,，").rstrip()
    if clause.endswith(".") and not clause.endswith((" .", "..", "/.")):
        clause = clause[:-1]
    return _POLITE.sub("", clause).strip()


# --- a clause ---------------------------------------------------------------------------------------


def _step(clause: str, masked: _Masked) -> Step:
    """The calls a clause asks for; none where it is not understood, or too long to be a simple request."""
    if len(clause) > _LONGEST:
        return ()
    for tool, pattern in _RULES:
        match = pattern.fullmatch(clause)
        arguments = _arguments(tool, match, masked) if match else None
        if arguments is not None:
            return (Action(tool, arguments),)
    return tuple(_read(clause, masked))


def _arguments(tool: str, match: re.Match[str], masked: _Masked) -> Arguments | None:
    """The arguments of the call that a rule stands for; None where it is none after all."""
    said = {name: masked.unquoted(value) for name, value in match.groupdict().items()}
    path = _path(said.get("path", ""))
    at: Arguments = {"path": path} if path not in ("", ".") else {}
    match tool:
        case "history_search":
            return {"query": said["what"]}
        case "edit":
            everywhere: Arguments = {"replace_all": True} if said["all"] else {}
            return {"path": path, "old": said["old"], "new": said["new"]} | everywhere
        case "write":
            content = said.get("content", "")
            ending = "" if not content or content.endswith("\n") else "\n"
            return {"path": path, "content": content + ending} if _is_path(path) else None
        case "bash":  # "run the tests" names no command; pytest is what this project's users mean by it
            command = said["command"]
            return {"command": "pytest -q" if command in ("tests", "the tests", "测试") else command}
        case "glob":
            language = _ENDINGS.get(said["glob"].casefold())
            wanted = f"*.{language}" if language else said["glob"]
            if not _is_glob(wanted):
                return None
            return {"pattern": wanted if "/" in wanted else f"**/{wanted}", **at}
        case "grep":
            return {"pattern": said["what"], **({"glob": path} if _is_glob(path) else at)}
        case _:
            return None if re.search(r"\w\.\w+\Z", path) else at


def _read(clause: str, masked: _Masked) -> Iterator[Action]:
    """Reading of the files that a clause names, where it begins like that or mentions them with an `@`."""
    verb = _READ.match(clause)
    pieces = re.split(r"[\s,，、;；]+|(?<=[^\W_])(?:和|与)", clause[verb.end() :] if verb else clause)
    words = [masked.unquoted(piece) for piece in pieces if verb or piece.startswith("@")]
    for path in dict.fromkeys(path for word in words if _is_path(path := _path(word))):
        yield Action("ls" if path.endswith("/") else "read", {"path": path})


def _path(word: str) -> str:
    word = word.strip().strip("，。；：,:;?？!！()（）").removeprefix("@")
    return word[:-1] if word.endswith(".") and len(word) > 1 and not word.endswith("..") else word


def _is_path(word: str) -> bool:
    """By its looks, a slash, an extension, or a name like LICENSE: the tool says if it does not exist."""
    if not word or re.search(r"[\s*?\"<>|]", word) or "://" in word:
        return False
    name = r"[\w.+@-]*[\w+@-]\.[A-Za-z]\w{0,9}|\.[a-z][\w.-]+|[A-Z]{4,}|[A-Z][a-z]+file"
    return "/" in word or re.fullmatch(name, word) is not None


def _is_glob(word: str) -> bool:
    return any(char in word for char in "*?{")
