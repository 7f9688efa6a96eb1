"""What a user's sentence asks of the offline model, as tool calls: a small grammar in English and Chinese.

Quoted text (backticks, quotes, fences) is never looked into: it is a pattern, a command or a file's content.
What is not understood is said to be, and never guessed.
"""

import re
from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

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
    help: bool = False
    """Who are you, what can you do."""
    unclear: tuple[str, ...] = ()
    """Pieces of the message that were not understood."""


_MOST_CLAUSES, _LONGEST = 40, 1_000
"""What has more clauses, or more characters in one, is no simple request; the grammar is not linear in it."""
_READERS = frozenset({"read", "ls", "glob", "grep"})
_NAMES = frozenset({"Makefile", "Dockerfile", "LICENSE", "README", "Justfile", "Procfile", "CHANGELOG"})
_ENDINGS = {"python": "py", "markdown": "md", "typescript": "ts", "javascript": "js", "rust": "rs"} | {
    name: name for name in ("go", "json", "toml", "yaml", "html", "css", "java")
}
"""File endings by language, for "find all Python files"."""

_Q = "\ue000\\d+\ue001"
"""The mark that stands for a quotation."""
_QUOTE = re.compile("\ue000(\\d+)\ue001")

_RULES_TEXT = r"""
history_search  (?:search|look|grep)(?: in| through)? (?:the |our |your )?(?:full )?history for {what}
history_search  在?历史(?:记录)?[中里]?(?:搜索|查找){what}
edit    (?:replace|change|rename|substitute|swap) {all}(?:occurrences? of )?{old} (?:with|by|to|into) {new}
        \s+(?:in|inside|within) ~{path}{everywhere}
edit    在{path}(?:文件)?(?:中|里|内)\s*[，,]?\s*(?:把|将){all}{old}{everywhere}(?:替换|改|换)(?:成|为){new}
edit    (?:把|将){path}(?:文件)?[中里内]面?\s*的?{all}{old}{everywhere}(?:替换|改|换)(?:成|为){new}
write   (?:write|put|save) (?:the (?:text|words?) )?{content} (?:to|into|in) ~{path}
write   (?:create|make|write|save) ~(?P<path>Q|[^\s,:]+)
        \s*(?:\b(?:with|containing|that (?:says|contains))\b|:)\s*(?:the )?(?:contents? |text )?:?\s*{content}
write   create ~(?P<path>Q|[^\s,:]+)
write   (?:把|将){content}(?:写入|写到|写进|保存到|存到)\s*(?:文件)?{path}
write   (?:创建|新建|写)\s*(?:一个)?新?(?:文件)?\s*(?P<path>Q|[^\s,，:：]+)
        \s*[,，:：]?\s*(?:写入|内容(?:为|是)?)?\s*[:：]?\s*(?P<content>Q|.*)
bash    (?:run|execute) (?:(?:the )?(?:shell )?command\s*:?\s*)?{command}
bash    (?:运行|执行|跑)\s*(?:一下)?(?:命令)?\s*[:：]?\s*{command}
glob    (?:find|list|glob|show|search for|look for|查找|搜索|列出|找到?)\s*
        (?:me )?(?:all|every|所有的?)?\s*(?:the )?(?:(?P<named>files?|文件)\s*
        (?:matching|named|called|like|that match)?\s*)?
        (?P<glob>Q|[^\s，,]+?)\s*(?:files?|文件)?{in}
grep    (?:grep|rg) (?:-\S+ )*(?:for )?(?P<what>Q|\S+)
        (?: (?:(?:in|inside|under|within) )?(?:the )?{path})?{kind}
grep    search (?:in )?{path} for {what}
grep    (?:search|look|find) (?:for )?(?:the (?:word|text|string) |all |every |occurrences of )*{what}{in}
grep    where (?:is|are|do we use) (?P<what>Q|\S+)(?: (?:defined|used|declared|set))*{in}
grep    (?:在{path}(?:目录|文件夹|文件)?(?:中|里|下|内)?面?\s*)?(?:搜索一下|搜索|查找|搜|找一下|找){what}
ls      (?:list|ls|show|what(?:'s| is)(?= (?:in|inside|under)\b)|what(?: files)? are(?= (?:in|here|there)\b)|
        which files are|look at)\b\s*(?:me )?(?:all )?(?:the )?
        (?:files|contents?|everything|folder|directory)?\s*(?:and folders )?(?:of|in|inside|under)?\s*
        (?:here|there|(?:this|the(?: current)?) {place}|
        (?:the )?(?:folder |directory )?(?P<path>Q|[\w./~@+-]+)?{kind})
ls      (?:列出|列一下|看看|查看|显示)\s*(?:一下)?(?:当前)?\s*(?P<path>Q|(?a:[\w./~@+-]+))?\s*
        (?:当前)?(?:目录|文件夹|下|里|中|面)*\s*的?(?:所有)?(?:的)?(?:文件|内容|东西)?
"""
"""`TOOL  PATTERN`, tried in this order. A blank stands for blanks, `~` for words that change nothing."""

_PARTS = {
    "{all}": r"(?P<all>(?:all|every)\s+|所有的?\s*)?",
    "{everywhere}": r"(?P<everywhere>\s+(?:everywhere|globally)|\s*(?:全部|都))?",
    "{command}": r"(?P<command>\S.*)",
    "{path}": r"(?P<path>Q|[^\s,，;；]+?)",
    "{in}": r"(?:\s+(?:in|inside|under|within|below)\s+(?:the\s+)?(?:file\s+|folder\s+)?{path})?{kind}",
    "{kind}": r"(?:\s+(?:folder|directory|files?))?",
    "{place}": r"(?:folder|directory|project|repo(?:sitory)?)",
    "~": r"(?:(?:an?|the|new|empty|file|called|named)\s+)*",
}


def _rules() -> Iterator[tuple[str, re.Pattern[str]]]:
    for row in re.split(r"\n(?! )", _RULES_TEXT.strip("\n")):
        tool, _, pattern = row.partition(" ")
        pattern = re.sub(r"\n +", "", pattern.strip())
        is_chinese = re.match(r"[^a-z]*[\u4e00-\u9fff]", pattern) is not None
        for part in ("{in}", *_PARTS):
            pattern = pattern.replace(part, _PARTS[part])
        pattern = re.sub(r"\{(\w+)\}", r"(?P<\1>Q|.+?)", pattern)
        if is_chinese:  # no blanks between words
            pattern = re.sub(r"\(\?P<(?!all|everywhere)\w+>Q\|[^()]*\)", r"\\s*\g<0>\\s*", pattern)
        pattern = pattern.replace(" ", r"\s+").replace("Q|", f"{_Q}|")
        yield tool, re.compile(pattern, re.IGNORECASE | re.DOTALL)


_RULES = tuple(_rules())

_I = re.IGNORECASE | re.DOTALL
# Fences, backticks, and quotes of several scripts. Single quotes only around whole words: "don't" is none.
_QUOTED = re.compile(
    r"```[\w+-]{0,20}\n(.*?)\n?```|`([^`\n]{1,400})`|\"([^\"\n]{1,400})\"|“([^”\n]{1,400})”|"
    r"「([^」\n]{1,400})」|『([^』\n]{1,400})』|(?<!\w)'([^'\n]{1,400})'(?!\w)",
    re.DOTALL,
)
# "create notes.txt with:" and all that follows, up to the end of the message.
_TEXT_TO_END = re.compile(
    r"\A((?:[^\n]{0,200}?\W)?(?:create|write|make|创建|新建|写)[^\n]{1,300}?"
    r"(?:\bwith(?: the)?(?: contents?| text)?|\bcontaining|内容(?:为|是)?)[ \t]*[:：][ \t]*\n?)(\S.*)\Z",
    _I,
)
_POLITE = re.compile(
    r"\A(?:(?:please|pls|ok(?:ay)?|hey|hi|hello|well|so|now|first(?:ly)?|second(?:ly)?|next|also|and|then|"
    r"finally|just|can you|could you|would you|will you|i want you to|i'd like you to|let's|let us|"
    r"help me(?: to)?|go ahead and|try to)\b[,:]?\s*|"
    r"(?:请你?|帮我|麻烦你?|能不能|可以|能否|先|再|然后|接着|最后|首先|现在|给我|帮忙|并且?|也)[，,]?\s*)+",
    _I,
)
_EN_VERB = (
    r"(?:read|show|open|cat|view|display|print|look|list|ls|find|glob|search|grep|run|execute|write|create|make|save|"
    r"put|replace|change|rename|summari[sz]e|explain|check|tell|what|how|describe|review|where)\b"
)
_ZH_VERB = r"(?:读|打开|查看|看|显示|列|搜|查找|找|运行|执行|跑|写|创建|新建|保存|把|将|替换|总结|在)"
_LINKS = r"(?:(?:and|then|also|finally|afterwards|after that|next|please|now)\b,?\s{0,9})"
# A clause ends at punctuation or a linking word, where a verb we know begins the next one.
_CLAUSE_END = re.compile(
    rf"(?:\s{{0,9}}(?:[,;!?]|\.(?=\s)|\n)\s{{0,9}}{_LINKS}{{0,4}}|\s{{1,9}}{_LINKS}{{1,4}})(?={_EN_VERB})|"
    rf"\s{{0,9}}[,，;；。、！？\n]?\s{{0,9}}(?:然后|接着|之后|再|最后|并且|并)\s{{0,9}}(?={_ZH_VERB}|{_EN_VERB})|"
    rf"\s{{0,9}}[,，;；。！？\n]\s{{0,9}}(?=(?:请|帮我|也)?{_ZH_VERB})",
    re.IGNORECASE,
)
_SEQUENCE = re.compile(r"\b(?:then|after|next|finally)|然后|接着|之后|再|最后", re.IGNORECASE)
_IN_FILE = re.compile(
    rf"\bin\s+(?:the\s+)?(?:file\s+)?({_Q}|[^\s,，]+)\s*,?\s+"
    rf"((?:replace|change|rename|substitute)\s+[^,;\n]{{1,300}}?\s+(?:with|by|to|into)\s+(?:{_Q}|[^\s,;]+))",
    _I,
)
"""A replacement with the file first; its comma would end the clause."""

_HELP = re.compile(
    r"\A\W*(?:help|hi|hello|hey|你好|您好|嗨|帮助)\W*\Z|\b(?:who|what) are you\b(?! (?:doing|working))|"
    r"what can you do|(?:which|what) model (?:are|is)|are you (?:an? )?(?:real |language |ai\b)|"
    r"你是谁|你能做什么|你会什么|你是什么|什么模型",
    _I,
)
_RECALL = re.compile(
    r"what (?:did|have|had) (?:we|you|i)\b|what happened|where (?:were|are) we|"
    r"what(?:'s| is| was) (?:the goal|our goal|done|left|going on)|"
    r"(?:what )?do you (?:still )?(?:remember|know)(?:\s+(?:about |of )?(?P<what>.+))?|"
    r"(?:我们|你|刚才|之前|前面).{0,6}(?:做了|干了|完成了|说了|改了)|还?记得(?:什么|(?P<was>.+))?|进展如何",
    _I,
)
_SUMMARISE = re.compile(r"\b(?:summari[sz]e|summary|recap|sum up)\b|总结|概括|回顾", re.IGNORECASE)
"""Asks for a summary of the conversation, where no file is named."""
_READ = re.compile(
    r"(?:(?:read|show|open|cat|view|display|print|look\s+at|explain|summari[sz]e|check|describe|review|"
    r"tell\s+me\s+about)\b|(?:读取|阅读|读一下|读|打开|查看|看看|看一下|看|显示|总结一下|总结|解释一下|解释)"
    r"\s*(?:一下)?\s*(?:文件)?)\s*",
    _I,
)
_ABOUT_IT = re.compile(
    r"(?:and )?(?:tell me|explain|say|report|describe)\b.{0,60}"
    r"\b(?:it|they|them|that|this|happens|result)\b.{0,40}|"
    r"(?:告诉我|说说|解释).{0,20}",
    _I,
)
"""What was just fetched: every answer says that."""
_QUESTION = re.compile(r"\b(?:what|how many|which|who)\b|什么|多少|哪些|怎么", re.IGNORECASE)
"""A question that names a file is answered from the file."""
_LINES = (
    re.compile(r"lines?\s+(?P<first>\d{1,7})(?:\s*(?:-|–|to|through)\s*(?P<last>\d{1,7}))?", re.IGNORECASE),
    re.compile(r"第?\s*(?P<first>\d{1,7})(?:\s*(?:-|–|到|至)\s*第?(?P<last>\d{1,7}))?\s*行"),
)


# --- a message --------------------------------------------------------------------------------------


def orders_in(message: str) -> Orders:
    """What a message asks for. Deterministic, and total: what is not understood is under `unclear`."""
    if shell := re.fullmatch(r"[!$][ \t]*(\S[^\n]*)", message.strip()):
        return Orders(steps=((Action("bash", {"command": shell[1].strip()}),),))
    masked = _Masked(message.strip())
    text = _IN_FILE.sub(r"\2 in \1", masked.text)
    if len(text) < 120 and _HELP.search(text):
        return Orders(help=True)
    steps: list[Step] = []
    unclear: list[str] = []
    recall: str | None = None
    for clause, follows in islice(_clauses(text), _MOST_CLAUSES):
        short = clause[:_LONGEST]
        if asked := _RECALL.search(short):
            recall = masked.unquoted(asked["what"] or asked["was"])
        elif step := _step(clause, masked):
            both = (*steps[-1], *step) if steps and not follows else ()
            together = both and all(action.tool in _READERS for action in both)
            steps[-1:] = [both] if together else [*steps[-1:], step]
        elif _SUMMARISE.search(clause):
            recall = recall or ""
        elif not (steps and _ABOUT_IT.fullmatch(short)) and sum(map(str.isalnum, clause)) > 1:
            unclear.append(masked.restored(clause))
    return Orders(tuple(steps), recall, unclear=tuple(unclear))


class _Masked:
    """A text whose quotations are replaced by marks, so that the grammar does not look into them."""

    def __init__(self, text: str) -> None:
        self._quotes: list[tuple[str, str]] = []
        # Marks of our own kind in foreign text would be taken for quotations.
        text = re.sub(r"[\ue000\ue001]", "\ufffd", text)
        text = _QUOTED.sub(self._mark, text)
        self.text = _TEXT_TO_END.sub(lambda found: found[1] + self._kept(found[2], found[2]), text)

    def _mark(self, found: re.Match[str]) -> str:
        return self._kept(found[0], next(group for group in found.groups() if group is not None))

    def _kept(self, whole: str, inner: str) -> str:
        if _QUOTE.fullmatch(whole.strip()):
            return whole
        self._quotes.append((self.restored(whole), self.restored(inner)))
        return f"\ue000{len(self._quotes) - 1}\ue001"

    def unquoted(self, text: str | None) -> str:
        """The text with what quotations hold in their place, without their quotes."""
        return _QUOTE.sub(lambda found: self._quotes[int(found[1])][1], text or "").strip()

    def restored(self, text: str) -> str:
        """The text as it was written."""
        return _QUOTE.sub(lambda found: self._quotes[int(found[1])][0], text)


def _clauses(text: str) -> Iterator[tuple[str, bool]]:
    """The clauses of a message, and whether each is to come after the one before it."""
    start, follows = 0, False
    for end in _CLAUSE_END.finditer(text):
        yield _plain(text[start : end.start()]), follows
        start, follows = end.end(), bool(_SEQUENCE.search(end[0]))
    yield _plain(text[start:]), follows


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
            everywhere: Arguments = {"replace_all": True} if said["all"] or said["everywhere"] else {}
            return {"path": path, "old": said["old"], "new": said["new"]} | everywhere
        case "write":
            content = said.get("content", "")
            ending = "" if not content or content.endswith("\n") else "\n"
            return {"path": path, "content": content + ending} if _is_path(path) else None
        case "bash":
            return {"command": _command(match["command"], masked)}
        case "glob":
            wanted = said["glob"]
            if language := _ENDINGS.get(wanted.casefold()):
                wanted = f"*.{language}"
            elif not _is_glob(wanted) and not (match["named"] and _is_path(wanted)):
                return None
            return {"pattern": wanted if "/" in wanted else f"**/{wanted}", **at}
        case "grep":
            return {"pattern": _regex(said["what"]), **({"glob": path} if _is_glob(path) else at)}
        case _:
            return None if path and not path.endswith("/") and _is_file(path) else at


def _command(said: str, masked: _Masked) -> str:
    command = masked.unquoted(said) if _QUOTE.match(said) else ""
    command = command or masked.restored(re.split(r",\s|，|\s+and\s+(?!&)|\s+please\b", said)[0]).strip()
    # "run the tests" names no command; pytest is what this project's users mean by it.
    return "pytest -q" if re.fullmatch(r"(?:the |all )*tests?|(?:所有)?测试", command) else command


def _read(clause: str, masked: _Masked) -> Iterator[Action]:
    verb = _READ.match(clause)
    rest = clause[verb.end() :] if verb else clause
    pieces = re.split(r"[\s,，、;；]+|(?<=[^\W_])(?:和|与|以及)", rest)
    words = [word for piece in pieces if _path(word := masked.unquoted(piece))]
    paths = [path for word in words if _is_path(path := _path(word)) or re.fullmatch(r"@[\w./~+-]+", word)]
    if verb or _QUESTION.search(clause):
        if verb and len(words) == 1 and re.fullmatch(r"[A-Z][\w-]{2,40}", _path(words[0])):
            paths = [_path(words[0])]  # LICENSE, Makefile
    elif len(paths) < len(words):
        return  # says more than which files
    lines = next(filter(None, (pattern.search(rest) for pattern in _LINES)), None)
    part: Arguments = {}
    if lines:
        first = int(lines["first"])
        part = {"offset": max(1, first), "limit": max(1, int(lines["last"] or first) - first + 1)}
    for path in dict.fromkeys(paths):
        yield Action("ls", {"path": path}) if path.endswith("/") else Action("read", {"path": path, **part})


def _path(word: str) -> str:
    word = word.strip().strip("，。；：,:;?？!！()（）").removeprefix("@")
    return word[:-1] if word.endswith(".") and len(word) > 1 and not word.endswith("..") else word


def _is_path(word: str) -> bool:
    """By its looks: anything with a slash or an extension, for the tool will say if it does not exist."""
    if not word or re.search(r"[\s*?\"<>|]", word) or "://" in word:
        return False
    return "/" in word or _is_file(word)


def _is_file(path: str) -> bool:
    name = path.rsplit("/", 1)[-1]
    return name in _NAMES or bool(re.fullmatch(r"[\w.+@-]*[\w+@-]\.[A-Za-z]\w{0,9}|\.[a-z][\w.-]+", name))


def _is_glob(word: str) -> bool:
    return any(char in word for char in "*?{")


def _regex(wanted: str) -> str:
    """A pattern as given, or literally where it is no regular expression."""
    try:
        re.compile(wanted)
    except re.error:
        return re.escape(wanted)
    return wanted
