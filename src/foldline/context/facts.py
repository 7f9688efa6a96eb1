"""Facts: the atoms of a conversation that a compaction can lose, and the commands of a shell line.

Pure, deterministic, linear in the text. Every fact is a piece of the text as it stands there, so that `fact
in text` holds. No regex here can backtrack far: quantifiers are possessive or bounded, and runs are
consumed whole.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping

from foldline.protocol import AssistantMessage, BaseMessage

from .todos import todo_list

LONGEST = 400
"""Characters of a fact at most: longer "sentences" and "lines" are pasted data."""


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# -- urls ------------------------------------------------------------------------------------------

# A scheme and all up to white space, a quote, a bracket or CJK punctuation.
_URL = re.compile(r"\bhttps?://[^\s<>\"'`()\[\]{}|\\\u3000-\u303f\uff00-\uffef]{1,2000}+")


def urls(text: str) -> tuple[str, ...]:
    """Web addresses, without the full stop or comma that ends the sentence around them."""
    return _unique(match[0].rstrip(".,;:!?*") for match in _URL.finditer(text))


# Escape sequences of terminals, of strings and of addresses, raw or written out, and tags that close: the
# letters they end in would become part of the next name, and `</div>` a path.
_NOISE = re.compile(
    r"\x1b\[[0-9;]{0,20}+[A-Za-z]|\[[0-9;]{1,20}+m|%[0-9A-Fa-f]{2}|"
    r"(?:<|&lt;|\\{1,4}+(?:u003[cC]|x3[cC]))/[\w.:-]{1,80}+(?:>|&gt;|\\{1,4}+(?:u003[eE]|x3[eE]))|"
    r"\\\\{0,3}+(?:(?:x1b|033|u001b|e)\[[0-9;]{0,20}+[A-Za-z]|u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2}|[nrt])"
)


def _bare_words(text: str) -> str:
    """The text without addresses, escape sequences and tags that close."""
    return _NOISE.sub(" ", _URL.sub(" ", text))


# -- paths -----------------------------------------------------------------------------------------

# A run of the characters paths are made of: Latin, Greek and Cyrillic letters, so that Chinese prose around a
# path does not become part of it. Runs are consumed whole, then judged.
_RUN = re.compile(r"[A-Za-z0-9_./~@+\-\u00c0-\u024f\u0370-\u052f]++")
_EXTENSION = re.compile(r"\.[A-Za-z][A-Za-z0-9]{0,9}\Z")
_FILE_TYPES = _words(
    """
    bat c cc cfg cjs conf cpp cs css csv dart diff env ex exs fish gif go gradle h hpp html ini
    ipynb java jpg js json jsonl jsx kt less lock log lua md mdx mjs mts patch pdf php pl png proto
    ps1 py pyi r rb rs rst scala scss sh sql svelte svg swift tex tf toml ts tsx txt vue xml yaml
    yml zig zsh
    """
)
_FILE_NAMES = _words(
    """
    Makefile Dockerfile Justfile Procfile Gemfile Rakefile .gitignore .env .dockerignore
    .editorconfig
    """
)
_FOLDERS = _words(
    """
    src test tests lib docs doc app apps bin cmd pkg packages scripts tools config build dist public
    examples internal server client components .github .vscode node_modules
    """
)
"""Folders that make two words with a slash between a path: `src/shop` is one, `and/or` is not."""
_PRODUCTS = _words(
    """
    node.js next.js vue.js nuxt.js three.js express.js react.js d3.js p5.js asp.net
    """
)


def paths(text: str) -> tuple[str, ...]:
    """File paths: rooted, with an extension or a well-known folder, and bare file names; not `and/or` or
    `24/7`."""
    bare = _bare_words(text)
    runs = (match[0] for match in _RUN.finditer(bare) if not _is_called(match, bare))
    likely = (run for run in dict.fromkeys(runs) if "/" in run or "." in run or _trimmed(run) in _FILE_NAMES)
    return _unique(path for path in map(_trimmed, likely) if is_path(path))


def _is_called(run: re.Match[str], text: str) -> bool:
    """Whether a run is a method that is called, such as `console.log(x)`; `a.cpp(12)` names a line."""
    end = run.end()
    return text[end : end + 1] == "(" and "/" not in run[0] and not text[end + 1 : end + 2].isdigit()


def _trimmed(run: str) -> str:
    run = run.rstrip(".-+@~")
    return run[1:] if run.startswith("@") and run.count("@") == 1 else run


def path_parts(path: str) -> tuple[str, ...]:
    """The names a path is made of, without those that only say from where it counts."""
    return tuple(name for name in path.replace("\\", "/").split("/") if name not in _FROM_HERE) or (path,)


_FROM_HERE = frozenset({"", ".", "..", "~"})


def is_path(word: str) -> bool:
    """Whether one word, without blanks, is a file path by its looks."""
    if not 2 <= len(word) <= LONGEST or "//" in word or not any(char.isalpha() for char in word):
        return False
    name = word.rsplit("/", 1)[-1]
    extension = _EXTENSION.search(name)
    if "/" not in word:
        known = extension is not None and extension[0][1:].lower() in _FILE_TYPES and extension.start() > 0
        return name in _FILE_NAMES or (known and word.lower() not in _PRODUCTS and not name.startswith("@"))
    if word.startswith(("/", "~/", "./", "../")):
        return len(word) > 3
    return (
        extension is not None or word.split("/", 1)[0] in _FOLDERS or (word.count("/") > 1 and len(word) > 7)
    )


# -- commands --------------------------------------------------------------------------------------

# A line that begins with a shell prompt.
_PROMPTED = re.compile(r"^[ \t]{0,8}\$ (\S[^\n]{0,399})$", re.MULTILINE)
# Code between backticks that begins with the name of a program people run while coding.
_INLINE = re.compile(r"`([a-z][\w.-]{0,20}+ [^`\n]{1,300}+)`")
_PROGRAMS = _words(
    """
    alembic apt bash black brew bun cargo cat cd chmod cmake cp curl deno docker find git go gradle
    grep jest kubectl ls make mkdir mv mypy node npm npx pip pip3 pnpm poetry psql pyright pytest
    python python3 rg rm ruff rustc sed sh ssh tar terraform touch tox tsc uv vitest wget yarn
    """
)


def commands(text: str) -> tuple[str, ...]:
    """Shell commands in prose: after a `$ ` prompt, or between backticks and begun by a known program."""
    inline = (match[1] for match in _INLINE.finditer(text))
    return _unique(
        [
            *(match[1].rstrip() for match in _PROMPTED.finditer(text)),
            *(code for code in inline if code.split(" ", 1)[0] in _PROGRAMS),
        ]
    )


# -- errors ----------------------------------------------------------------------------------------

# What compilers, interpreters, test runners and shells write when something fails.
_FAILURE = re.compile(
    r"\b(?:[A-Z]\w{0,60})?(?:Error|Exception)(?=: |:$)|\bpanicked at\b|"
    r"\berror(?:\[\w{1,8}\]|\s\w{1,8}\d{1,6})?:|\bERROR\b|\bFAILED\b|\bfatal:|"
    r"\bpanic:|\bnpm ERR!|^E {3}|Traceback \(most recent|command not found|"
    r"No such file or directory|[Pp]ermission denied|[Ss]egmentation fault|"
    r"\bexit(?:ed with)?(?: code| status)? [1-9]\d{0,2}\b|"
    r"错误[：:]|失败|エラー|오류|실패"
)
# Code that only speaks of errors: it raises, catches, declares or comments.
_SPEAKS_OF = re.compile(
    r"[-+>|\s]{0,8}(?:\d{1,6}[:|\t ]{1,8})?(?:raise|except|throw|catch|class|import|from|return|if|elif|for|"
    r"while|def|case|export|const|let|var|function|async|await|assert|with|try|match|pub|fn|use|type|interface|"
    r"#|//|/\*|\*|<!--|})(?![\w-])"
)
BEFORE_FAILURE = 120
"""Characters quoted before the report of a failure in a very long line."""
FAILURE_SIGNS = (
    "rror", "ERROR", "ERR!", "xception", "Traceback", "FAILED", "E   ", "fatal", "fault", "panic", "exit",
    "not found", "No such", "enied", "错误", "失败", "エラー", "오류", "실패",
)  # fmt: skip
"""A line that reports a failure contains one of these. Looking for them is fast."""


def reports_failure(line: str) -> re.Match[str] | None:
    """Return the report of a failure in a line. Code about errors is none."""
    report = _FAILURE.search(line)
    return None if report is None or _SPEAKS_OF.match(line) else report


def errors(text: str) -> tuple[str, ...]:
    """Lines that report a failure; of very long lines the piece around it."""
    if not any(sign in text for sign in FAILURE_SIGNS):
        return ()
    found = []
    for line in text.splitlines():
        if report := reports_failure(line):
            start = 0 if len(line) <= LONGEST else max(0, report.start() - BEFORE_FAILURE)
            found.append(line[start : start + LONGEST].strip())
    return _unique(found)


# -- numbers ---------------------------------------------------------------------------------------

# `timeout = 30`, `port: 8080`, `retries=3`: a name of letters, one sign, a number, perhaps a unit.
_KEYED = re.compile(
    r"(?<![\w.-])[A-Za-z_][\w.-]{1,40}+[\"'`]?[ ]?[=:][ ]?-?\d{1,15}(?:[.,_]\d{1,15}){0,4}(?!\w)"
    r"(?:[ ]?(?:%|[kMG]?B\b|m?s\b))?"
)
# `250 ms`, `35 %`, `16,384 tokens`: a number and a unit.
_MEASURED = re.compile(
    r"(?<![\w.,-])\d{1,15}(?:[.,_]\d{1,15}){0,4}[ ]?(?:%|°C|(?:[kKMGT]i?B|bytes|[mµn]?s|sec|seconds?|min|"
    r"minutes?|h|hours?|days?|weeks?|tokens?|lines?|files?|tests?|px|[kMG]?Hz|fps|rows?|requests?|times|"
    r"errors?|passed|failed|warnings?)\b|"
    r"毫秒|秒|分钟|小时|天|行|个|次|元|万|字节)"
)


def numbers(text: str) -> tuple[str, ...]:
    """Numbers that mean something by themselves: with a name before them or a unit behind them."""
    keyed = list(_KEYED.finditer(text))
    ends = {match.end() for match in keyed}
    found = [*keyed, *(match for match in _MEASURED.finditer(text) if match.end() not in ends)]
    return _unique(match[0].strip() for match in sorted(found, key=lambda match: match.start()))


# -- identifiers -----------------------------------------------------------------------------------

_NAME = re.compile(r"(?<![0-9A-Za-z_])[A-Za-z_][A-Za-z0-9_]*+")
_HUMP = re.compile(r"[a-z0-9][A-Z]")


def identifiers(text: str) -> tuple[str, ...]:
    """Names of code by their shape: `snake_case`, `camelCase`, `UPPER_CASE`; 4 to 80 letters."""
    return _unique(
        name
        for name in (match[0] for match in _NAME.finditer(_bare_words(text)))
        if 4 <= len(name) <= 80 and ("_" in name.strip("_") or _HUMP.search(name))
    )


# -- hashes ----------------------------------------------------------------------------------------

# Commit ids and digests: 7 to 64 hex digits, letters and digits both; and UUIDs.
_HASH = re.compile(
    r"(?<![0-9A-Za-z_-])(?:[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}|"
    r"(?=[0-9]{0,63}[a-f])(?=[a-f]{0,63}[0-9])[0-9a-f]{7,64})(?![0-9A-Za-z_-])"
)


def hashes(text: str) -> tuple[str, ...]:
    """Commit ids, digests and UUIDs."""
    return _unique(match[0] for match in _HASH.finditer(text))


# -- constraints -----------------------------------------------------------------------------------

# Where a sentence may end: a full stop with what closes a quotation, then a blank; or CJK punctuation.
_END = re.compile(r"(?<![.!?])[.!?]++[\"'”’)\]*_`]{0,3}+(?=[ \t])|[。！？；]++[”’」』）]?")
_LINE_END = re.compile(r"[\r\n]+")
_GOES_ON = re.compile(
    r"(?:\b(?:e\.g|i\.e|z\.B|vs|cf|approx|ca|Mr|Mrs|Ms|Dr|St|Inc|Fig|[A-Z])|(?:\A|[:;,])[ \t]*\(?\d{1,2})\.\Z"
)
"""Ends in a full stop that ends no sentence: of an abbreviation, an initial, or the number of an item."""
_GOES_ON_SMALL = re.compile(r"(?:\betc\.|[\"'”’)\]*_`])\Z")
"""The same where a small letter follows."""
_PAIRED = (("“", "”"), ("「", "」"), ("『", "』"))
_MARK = re.compile(r"[ \t]*(?:[-*+•>][ \t]+|\d{1,3}[.)][ \t]+|#{1,6}[ \t]+)?(?:\[[ xX]\][ \t]+)?")
_CUE = re.compile(
    r"\b(?:must|never|only|always|do not|don['’]t|dont|keep|avoid|ensure|make sure|should not|shouldn['’]t|"
    r"mustn['’]t|no longer|at most|at least|cannot|prefers?|without (?:changing|touching|breaking))\b|"
    r"必须|必需|务必|一定要|不要|不得|不能|不许|不可以|禁止|严禁|切勿|只能|只允许|仅限|始终|总是|保持|避免|优先|"
    r"してはいけない|しないで|してはならない|なければならない|必ず|禁止|常に|だけに|"
    r"하지\s?마|하면\s안|해야\s?(?:한다|합니다|해)|반드시|절대|항상|금지|만\s사용",
    re.IGNORECASE,
)
_FORBIDS = re.compile(
    r"(?:never|do not|don['’]t|no|must not|不要|不得|不能|禁止|切勿|绝不)(?![\w])", re.IGNORECASE
)
_SHORT = 60
"""Characters of a prohibition that may speak of the figure in the sentence before it."""
_LABEL = re.compile(
    r"[*_]{0,2}([A-Za-z][A-Za-z _-]{1,30}|[\u4e00-\u9fff]{2,6})[*_]{0,2}[:：][*_]{0,2}[ \t]*(?=\S)"
)
_RULE_LABELS = _words(
    "rule constraint requirement preference important policy 规则 约束 要求 偏好 限制 注意 重要"
)
_FENCED = re.compile(
    r"^[ \t]{0,3}```[^\n]*\n(?:(?![ \t]{0,3}```)[^\n]*\n)*+(?:[ \t]{0,3}```[^\n]*$)?", re.MULTILINE
)


def prose(text: str) -> str:
    """The text without its fenced code."""
    return _FENCED.sub("\n", text) if "```" in text else text


def sentences(text: str) -> Iterator[str]:
    """The sentences of prose, list marks and fenced code left out."""
    for line in _LINE_END.split(prose(text)):
        yield from (line[start:end] for start, end in _sentences(line))


def _sentences(line: str) -> Iterator[tuple[int, int]]:
    """Where the sentences of a line begin and end."""
    start = 0
    for end in [*(found.end() for found in _END.finditer(line)), len(line)]:
        if end < len(line) and _goes_on(line[start:end], line[end : end + 2].lstrip()):
            continue
        mark = _MARK.match(line, start, end)
        first = mark.end() if mark else start
        if sentence := line[first:end].strip():
            first += line[first:end].index(sentence)
            yield first, first + len(sentence)
        start = end


def _goes_on(piece: str, after: str) -> bool:
    """Whether a sentence continues behind its seeming end. Quotation marks count in short ones only."""
    if len(piece) > LONGEST:
        return False
    return (
        _GOES_ON.search(piece) is not None
        or (after.islower() and _GOES_ON_SMALL.search(piece) is not None)
        or piece.count('"') % 2 == 1
        or piece.count("`") % 2 == 1
        or any(piece.count(opened) > piece.count(closed) for opened, closed in _PAIRED)
    )


def label_of(line: str) -> frozenset[str]:
    """The words of the label a line begins with, in small letters and the singular: `SAFETY RULE: …`."""
    found = _LABEL.match(line)
    return (
        frozenset(word.casefold().rstrip("s") for word in re.split(r"[ _-]+", found[1]))
        if found
        else frozenset()
    )


def constraints(text: str) -> tuple[str, ...]:
    """Sentences that command or forbid, verbatim, by cue words in English, Chinese, Japanese and Korean; the
    whole line where its label calls it a rule. A short prohibition stays with the figure it speaks of."""
    return _unique(rule for line in _LINE_END.split(prose(text)) for rule in _rules(line))


def _rules(line: str) -> list[str]:
    places = list(_sentences(line))
    if places and places[-1][1] - places[0][0] <= LONGEST and label_of(line[places[0][0] :]) & _RULE_LABELS:
        return [line[places[0][0] : places[-1][1]]]
    found: list[str] = []
    before = ""
    for start, end in places:
        sentence = line[start:end]
        figure = any(char.isdigit() for char in before) and not before.endswith(("?", "？"))
        if figure and len(sentence) <= _SHORT and _FORBIDS.match(sentence):
            found = [rule for rule in found if rule != before]
            sentence = line[line.rindex(before, 0, start) : end]
        if len(sentence) <= LONGEST and _CUE.search(sentence):
            found.append(sentence)
        before = sentence
    return found


def same_words(text: str) -> str:
    """What two ways of writing one sentence share: its letters and digits, in one case."""
    return "".join(char for char in text.casefold() if char.isalnum())


# -- todos -----------------------------------------------------------------------------------------

# `- [ ] text`, `- [x] text`: a task list of Markdown.
_TASK = re.compile(r"^[ \t]*(?:[-*+]|\d{1,3}[.)])[ \t]+\[([ xX])\][ \t]+(\S[^\n]*)$", re.MULTILINE)
# `TODO: text`, `待办：text`.
_NOTED = re.compile(
    r"\b(?:TODO|FIXME)\b(?:\([^)\n]{0,40}\))?:[ \t]+(\S[^\n]{0,399})|"
    r"(?:待办|待做)[：:][ \t]*(\S[^\n]{0,399})"
)


def todos(text: str) -> tuple[str, ...]:
    """What is still to do: task list items not ticked off further down, and TODO notes."""
    state: dict[str, bool] = {}
    for match in _TASK.finditer(text):
        item = match[2].strip()[:LONGEST]
        state.pop(item, None)
        state[item] = match[1] == " "
    noted = (match[1] or match[2] for match in _NOTED.finditer(text))
    return _unique([*(item for item, is_open in state.items() if is_open), *(note.strip() for note in noted)])


# -- tool calls ------------------------------------------------------------------------------------


SHORTEST_LINE = 20
"""Characters of a line without its indentation; shorter ones, such as `return None`, are everywhere."""
NUMBERED = re.compile(r"\s*(?:[^\s:]{1,200}:)?\d{1,6}[:|\t→-]\s?")
"""What `cat -n`, `grep -n` and the read tools of several agents put before a line."""


def texts(message: BaseMessage) -> Iterator[str]:
    """All that the model reads of a message: its text, and the strings in its calls' arguments."""
    yield message.text
    for call in message.calls if isinstance(message, AssistantMessage) else ():
        yield from strings(call.parsed() or [call.arguments])


def strings(value: object) -> Iterator[str]:
    """All strings within the arguments of a call."""
    pending: list[object] = [value]
    while pending:
        match pending.pop():
            case str(text):
                yield text
            case dict() as mapping:
                pending += reversed(mapping.values())
            case list() as items:
                pending += reversed(items)
            case _:
                pass


FILE_ARGUMENTS = ("path", "file_path", "filePath", "filename", "file", "absolute_path", "notebook_path")
PLACE_ARGUMENTS = (*FILE_ARGUMENTS, "directory")
OLD_ARGUMENTS = frozenset({"old", "oldText", "old_text", "oldString", "old_string", "old_str"})
NEW_ARGUMENTS = frozenset({"new", "newText", "new_text", "newString", "new_string", "new_str"})
"""What edit tools call the text to replace, and the new one: ours, pi, Claude Code, opencode, SWE-agent,
kimi-cli."""
PATCH = "*** Begin Patch"
"""Begins the one argument of apply_patch, as Codex and others have it."""
PATCHED = re.compile(r"\*\*\* (?:Update|Add|Delete) File: (.+)")
"""Its line that names a file."""


def named(arguments: object, names: Collection[str]) -> Iterator[str]:
    """The strings of these names within the arguments of a call, at any depth: some tools take a
    list of replacements."""
    pending = [arguments]
    while pending:
        match pending.pop():
            case dict() as mapping:
                yield from (text for key, text in mapping.items() if key in names and isinstance(text, str))
                pending += mapping.values()
            case list() as items:
                pending += items
            case _:
                pass


_LITERAL = r"(?:\"(?:[^\"\\]|\\.)*+\"|'(?:[^'\\]|\\.)*+'|`(?:[^`\\]|\\.)*+`)"
_SCRIPTED = re.compile(
    rf"\btools\.exec_command\(\s*+{{\s*+(?:[\"']?\w{{1,40}}+[\"']?\s*+:\s*+(?:{_LITERAL}|[\w.]++)\s*+,\s*+)*?"
    rf"[\"']?cmd[\"']?\s*+:\s*+({_LITERAL})",
    re.DOTALL,
)
_PATCH_LITERAL = re.compile(rf"(?=[\"'`]{re.escape(PATCH)}){_LITERAL}", re.DOTALL)
_ESCAPED = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))", re.DOTALL)
_MEANT = {"n": "\n", "t": "\t", "r": "\r"}


def _meant(literal: str) -> str:
    """What a string of JavaScript stands for."""
    return _ESCAPED.sub(
        lambda sign: chr(int(sign[1], 16)) if sign[1] else _MEANT.get(sign[2], sign[2]), literal[1:-1]
    )


def scripted_commands(arguments: Mapping[str, object]) -> Iterator[str]:
    """The command lines in the JavaScript that Codex' `exec` runs: `tools.exec_command({cmd:"ls"})`."""
    source = arguments.get("input")
    if isinstance(source, str):
        yield from (_meant(found[1]) for found in _SCRIPTED.finditer(source))


def patches(arguments: object) -> Iterator[str]:
    """The patches within the arguments of a call, those in a script included."""
    for text in strings(arguments):
        if text.lstrip().startswith(PATCH):
            yield text
        elif PATCH in text:
            yield from (_meant(found[0]) for found in _PATCH_LITERAL.finditer(text))


def command_arguments(arguments: Mapping[str, object]) -> Iterator[str]:
    """The command lines a call runs; none where it runs no command."""
    yield from scripted_commands(arguments)
    for key in ("command", "cmd"):
        match arguments.get(key):
            case str(command) if command.strip():
                yield command.strip()
            case list() as words if words:
                yield " ".join(map(str, words))
            case _:
                pass


def open_todos(arguments: dict[str, object]) -> list[str] | None:
    """The open items of a todo tool's call; None where the call is no such thing."""
    listed = todo_list(arguments)
    return None if listed is None else [todo.text[:LONGEST] for todo in listed if todo.is_open]


def _unique(found: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(fact for fact in found if fact))


# One piece of a shell word: quotes, escapes and substitutions are consumed whole, so that what they hold
# divides nothing. Their length is bounded, as an unclosed one is looked for again at the next sign.
_PIECE = (
    r"(?:\"(?:[^\"\\]|\\.){0,4000}+\"|'[^']{0,4000}+'|\$\((?:[^()]|\([^()]{0,400}+\)){0,400}+\)|\\.|"
    r"&(?=>)|(?<=[<>])&|[^\s\"'\\&|;\n]|[\"'](?=\S))"
)
_COMMAND = re.compile(rf"{_PIECE}++(?:[ \t]++{_PIECE}++)*+", re.DOTALL)
_BODY = re.compile(r"<<-?[ \t]{0,8}[\"']?[A-Za-z_]")
"""Where a here-document begins: what follows is no command."""
_CONTINUED = re.compile(r"\\\n[ \t]*+")
_SETTINGS = re.compile(rf"(?:[A-Za-z_]\w{{0,80}}+={_PIECE}*+(?:[ \t]++|\Z))*+", re.DOTALL)
_OPENING = re.compile(
    r"(?:(?:[({!]|do|then|else|time|sudo|[^\s()\"'$=]{1,40}+\)|(?:ba|z)?sh[ \t]++-l?c(?=[ \t]++[^\"']))"
    r"[ \t]++)++"
)
"""What stands before a command within a loop, a group, a case, or in a list that begins `bash -lc`."""
_REDIRECTED = re.compile(
    r"(?:[ \t]{1,8}(?:\d?>>?[ \t]{0,8}(?:&\d|/dev/null)|&>[ \t]{0,8}/dev/null|[)}]))++\Z"
)

_LOOKS = re.compile(
    r"(?:\[|\}|:|ls|ll|find|fd|cat|bat|grep|rg|ag|egrep|head|tail|sed(?![ ]+(?:-\w*i|--in-place))|awk|wc|pwd|"
    r"cd|echo|printf|tree|which|type|command[ ]+-v|stat|file|du|df|sort|uniq|cut|tr|nl|less|diff|cmp|test|"
    r"true|false|sleep|date|set|export|source|exit|xargs|tee|jq|column|basename|dirname|realpath|env|"
    r"printenv|ps|whoami|uname|mkdir|touch|for|while|if|elif|fi|done|case|esac|read|break|continue|"
    r"git[ ]+(?:-C[ ]+\S++[ ]+|--no-pager[ ]+)*+(?:add|commit|status|log|diff|show|branch|blame|remote|"
    r"ls-files|rev-parse|merge-base|grep|stash[ ]+(?:show|list))|"
    r"docker[ ]+(?:ps|logs|images|inspect)|kubectl[ ]+(?:get|describe|logs)|"
    r"gh[ ]+\w++[ ]+(?:view|list|status|checks|diff)|python3?[ ]+-|node[ ]+-)(?![\w./-])"
)
"""What changes nothing, filters, or frames a line; and `git commit`, `mkdir` and the like, with no other
effect."""


def script(line: str) -> str:
    """A command line without the here-document it feeds to a command, continued lines joined."""
    body = _BODY.search(line)
    return joined(line[: body.start()] if body else line)


def joined(text: str) -> str:
    """The text with continued lines (`\\` at the end) as one."""
    return _CONTINUED.sub(" ", text)


def commands_of(lines: Iterable[str]) -> tuple[str, ...]:
    """The `effective_commands` of all these lines."""
    return tuple(command for line in lines for command in effective_commands(line))


def effective_commands(line: str) -> Iterator[str]:
    """The commands of a line that do something: `npm test` of `cd web && npm test 2>&1 | tail -5`; first
    lines only."""
    for found in _COMMAND.finditer(script(line)):
        command = _bare(found[0])
        settings = _SETTINGS.match(command)
        plain = command[settings.end() if settings else 0 :]
        if plain and not plain.startswith("#") and not _LOOKS.match(plain):
            yield command


def _bare(command: str) -> str:
    opening = _OPENING.match(command)
    command = command[opening.end() if opening else 0 :].split("\n", 1)[0].lstrip("(")
    command = _REDIRECTED.sub("", command[:LONGEST]).strip()
    opened, closed = command.count("("), command.count(")")
    if opened > closed:
        return ""
    return command.rstrip(")") if closed > opened else command
