"""The facts that a compaction can lose.

Pure and deterministic. The time is linear in the length of the text. Every fact is quoted, so `fact in text`
is always true. No regex here can backtrack far: quantifiers are possessive or bounded, and runs of characters
are consumed in full.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping

from foldline.protocol import BaseMessage
from foldline.text.patterns import lazy_pattern
from foldline.view.units import calls_of

from .cues import (
    CODE_ABOUT_FAILURES,
    CONSTRAINT,
    FAILURE,
    FAILURE_SIGNS,
    PROGRAMS,
    PROHIBITION,
    RULE_LABELS,
    TODO_NOTE,
    words_of,
)

LONGEST = 400
"""Maximum length of a fact, in characters. Longer sentences and lines are pasted data."""


def _unique(facts: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(fact for fact in facts if fact))


# -- urls ------------------------------------------------------------------------------------------

# A scheme and everything up to white space, a quote, a bracket or CJK punctuation.
_URL = lazy_pattern(
    r"\bhttps?://[^\s<>\"'`()\[\]{}|\\\u3000-\u303f\uff00-\uffef]{1,2000}+"
)


def urls(text: str) -> tuple[str, ...]:
    """Return the web addresses in text, without trailing punctuation."""
    return _unique(url.rstrip(".,;:!?*") for url in _URL.findall(text))


_ESCAPES = lazy_pattern(
    r"\x1b\[[0-9;]{0,20}+[A-Za-z]|\[[0-9;]{1,20}+m|%[0-9A-Fa-f]{2}|"
    r"(?:<|&lt;|\\{1,4}+(?:u003[cC]|x3[cC]))/[\w.:-]{1,80}+(?:>|&gt;|\\{1,4}+(?:u003[eE]|x3[eE]))|"
    r"\\\\{0,3}+(?:(?:x1b|033|u001b|e)\[[0-9;]{0,20}+[A-Za-z]|u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2}|[nrt])"
)
"""Matches terminal escape sequences, string escapes, percent-encoded characters and closing tags.

If they were not removed, their letters would become part of the next name, and `</div>` would become a path.
"""


def _without_escapes(text: str) -> str:
    """Remove addresses, escape sequences and closing tags."""
    return _ESCAPES.sub(" ", _URL.sub(" ", text))


# -- paths -----------------------------------------------------------------------------------------

# A run of characters that occur in paths: Latin, Greek and Cyrillic letters, so that Chinese prose around a
# path does not become part of it. Runs are consumed first, then judged.
_RUN = lazy_pattern(r"[A-Za-z0-9_./~@+\-\u00c0-\u024f\u0370-\u052f]++")
_ARGUMENTS = lazy_pattern(r"\((?!\d)")
_EXTENSION = lazy_pattern(r"\.[A-Za-z][A-Za-z0-9]{0,9}\Z")
_FILE_TYPES = words_of(
    """
    bat c cc cfg cjs conf cpp cs css csv dart diff env ex exs fish gif go gradle h hpp html ini
    ipynb java jpg js json jsonl jsx kt less lock log lua md mdx mjs mts patch pdf php pl png proto
    ps1 py pyi r rb rs rst scala scss sh sql svelte svg swift tex tf toml ts tsx txt vue xml yaml
    yml zig zsh
    """
)
_FILE_NAMES = words_of(
    """
    Makefile Dockerfile Justfile Procfile Gemfile Rakefile .gitignore .env .dockerignore
    .editorconfig
    """
)
_FOLDERS = words_of(
    """
    src test tests lib docs doc app apps bin cmd pkg packages scripts tools config build dist public
    examples internal server client components .github .vscode node_modules
    """
)
"""Folders that turn two words with a slash into a path.

For example, `src/shop` is a path, while `and/or` is not.
"""
_PRODUCTS = words_of(
    """
    node.js next.js vue.js nuxt.js three.js express.js react.js d3.js p5.js asp.net
    """
)


def paths(text: str) -> tuple[str, ...]:
    """Return the file paths in text.

    A path is absolute, has an extension or a well-known folder, or is a bare file name. `and/or` and `24/7`
    are not paths.
    """
    text = _without_escapes(text)
    runs = dict.fromkeys(
        match[0] for match in _RUN.finditer(text) if not _is_method_call(match, text)
    )
    likely = (
        run for run in runs if "/" in run or "." in run or _trimmed(run) in _FILE_NAMES
    )
    return _unique(path for path in map(_trimmed, likely) if is_path(path))


def _is_method_call(run: re.Match[str], text: str) -> bool:
    """Return whether a run of characters is a method call: `console.log(x)`.

    Returns False for `a.cpp(12)`, in which the number is a line number.
    """
    return "/" not in run[0] and _ARGUMENTS.match(text, run.end()) is not None


def _trimmed(run: str) -> str:
    run = run.rstrip(".-+@~")
    if run.startswith("@") and run.count("@") == 1:
        return run[1:]
    return run


_LETTER = lazy_pattern(r"[^\W\d_]")
_RELATIVE_PARTS = frozenset({"", ".", "..", "~"})


def path_parts(path: str) -> tuple[str, ...]:
    """Return the components of a path, without `.`, `..` and `~`."""
    parts = path.replace("\\", "/").split("/")
    return tuple(name for name in parts if name not in _RELATIVE_PARTS) or (path,)


def is_path(word: str) -> bool:
    """Return whether a word looks like a file path."""
    if not 2 <= len(word) <= LONGEST or "//" in word or not _LETTER.search(word):
        return False
    if "/" not in word:
        return _is_file_name(word)
    if word.startswith(("/", "~/", "./", "../")):
        return len(word) > 3
    folder, _, _ = word.partition("/")
    _, _, name = word.rpartition("/")
    if _EXTENSION.search(name) or folder in _FOLDERS:
        return True
    return word.count("/") > 1 and len(word) > 7


def _is_file_name(word: str) -> bool:
    if word in _FILE_NAMES:
        return True
    extension = _EXTENSION.search(word)
    if extension is None or extension.start() == 0 or word.startswith("@"):
        return False
    return extension[0][1:].lower() in _FILE_TYPES and word.lower() not in _PRODUCTS


# -- commands --------------------------------------------------------------------------------------

# A line that begins with a shell prompt.
_PROMPTED = lazy_pattern(r"^[ \t]{0,8}\$ (\S[^\n]{0,399})$", re.MULTILINE)
# Code in backticks that begins with the name of a program.
_INLINE = lazy_pattern(r"`([a-z][\w.-]{0,20}+ [^`\n]{1,300}+)`")


def commands(text: str) -> tuple[str, ...]:
    """Return the shell commands in prose.

    A command follows a `$ ` prompt, or is enclosed in backticks and begins with a known program.
    """
    prompted = map(str.rstrip, _PROMPTED.findall(text))
    inline = [
        code for code in _INLINE.findall(text) if code.split(" ", 1)[0] in PROGRAMS
    ]
    return _unique([*prompted, *inline])


# -- errors ----------------------------------------------------------------------------------------

BEFORE_FAILURE = 120
"""Number of characters quoted before a failure report in a very long line."""


def reports_failure(line: str) -> re.Match[str] | None:
    """Return the part of a line that reports a failure.

    Returns None if there is no such part. Code about errors does not report a failure.
    """
    report = FAILURE.search(line)
    if report is None or CODE_ABOUT_FAILURES.match(line):
        return None
    return report


def errors(text: str) -> tuple[str, ...]:
    """Return the lines that report a failure.

    A very long line is cut to the part around the report.
    """
    if not any(sign in text for sign in FAILURE_SIGNS):
        return ()
    reports = []
    for line in text.splitlines():
        report = reports_failure(line)
        if report is None:
            continue
        if len(line) > LONGEST:
            line = line[max(0, report.start() - BEFORE_FAILURE) :][:LONGEST]
        reports.append(line.strip())
    return _unique(reports)


def both_ends(text: str, length: int) -> str:
    """Return the first and the last `length` characters of text.

    Shorter text is returned unchanged.
    """
    if len(text) <= 2 * length:
        return text
    return f"{text[:length]}\n{text[-length:]}"


# -- numbers ---------------------------------------------------------------------------------------

# `timeout = 30`, `port: 8080`, `retries=3`: a name of letters, `=` or `:`, a number, and possibly a unit.
_KEYED = lazy_pattern(
    r"(?<![\w.-])[A-Za-z_][\w.-]{1,40}+[\"'`]?[ ]?[=:][ ]?-?\d{1,15}(?:[.,_]\d{1,15}){0,4}(?!\w)"
    r"(?:[ ]?(?:%|[kMG]?B\b|m?s\b))?"
)
# `250 ms`, `35 %`, `16,384 tokens`: a number and a unit.
_MEASURED = lazy_pattern(
    r"(?<![\w.,-])\d{1,15}(?:[.,_]\d{1,15}){0,4}[ ]?(?:%|°C|(?:[kKMGT]i?B|bytes|[mµn]?s|sec|seconds?|min|"
    r"minutes?|h|hours?|days?|weeks?|tokens?|lines?|files?|tests?|px|[kMG]?Hz|fps|rows?|requests?|times|"
    r"errors?|passed|failed|warnings?)\b|"
    r"毫秒|秒|分钟|小时|天|行|个|次|元|万|字节)"
)


def numbers(text: str) -> tuple[str, ...]:
    """Return the numbers that have a name or a unit."""
    matches = list(_KEYED.finditer(text))
    ends = {match.end() for match in matches}
    matches += [match for match in _MEASURED.finditer(text) if match.end() not in ends]
    matches.sort(key=re.Match.start)
    return _unique(match[0].strip() for match in matches)


# -- identifiers -----------------------------------------------------------------------------------

_NAME = lazy_pattern(r"(?<![0-9A-Za-z_])[A-Za-z_][A-Za-z0-9_]*+")
_HUMP = lazy_pattern(r"[a-z0-9][A-Z]")


def identifiers(text: str) -> tuple[str, ...]:
    """Return the identifiers in code: `snake_case`, `camelCase`, `UPPER_CASE`.

    Identifiers have 4 to 80 characters.
    """
    return _unique(filter(_is_identifier, _NAME.findall(_without_escapes(text))))


def _is_identifier(name: str) -> bool:
    if not 4 <= len(name) <= 80:
        return False
    return "_" in name.strip("_") or _HUMP.search(name) is not None


# -- hashes ----------------------------------------------------------------------------------------

# Commit ids and digests: 7 to 64 hex digits, with both letters and digits; and UUIDs.
_HASH = lazy_pattern(
    r"(?<![0-9A-Za-z_-])(?:[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}|"
    r"(?=[0-9]{0,63}[a-f])(?=[a-f]{0,63}[0-9])[0-9a-f]{7,64})(?![0-9A-Za-z_-])"
)


def hashes(text: str) -> tuple[str, ...]:
    """Return the commit ids, digests and UUIDs in text."""
    return _unique(_HASH.findall(text))


# -- sentences -------------------------------------------------------------------------------------

_SENTENCE_END = lazy_pattern(
    r"(?<![.!?])[.!?]++[\"'”’)\]*_`]{0,3}+(?=[ \t])|[。！？；]++[”’」』）]?"
)
"""Matches the end of a sentence.

This is a full stop followed by closing quotes and a space, or CJK punctuation.
"""
_LINE_END = lazy_pattern(r"[\r\n]+")
_ABBREVIATION = lazy_pattern(
    r"(?:\b(?:e\.g|i\.e|z\.B|vs|cf|approx|ca|Mr|Mrs|Ms|Dr|St|Inc|Fig|[A-Z])|(?:\A|[:;,])[ \t]*\(?\d{1,2})\.\Z"
)
"""Matches a full stop that does not end a sentence.

It follows an abbreviation, an initial or an item number.
"""
_ABBREVIATION_BEFORE_SMALL = lazy_pattern(r"(?:\betc\.|[\"'”’)\]*_`])\Z")
"""Matches an apparent end that does not end the sentence if a lower-case letter follows."""
_PAIRED = (("“", "”"), ("「", "」"), ("『", "』"))
_LIST_MARK = lazy_pattern(
    r"[ \t]*(?:[-*+•>][ \t]+|\d{1,3}[.)][ \t]+|#{1,6}[ \t]+)?(?:\[[ xX]\][ \t]+)?"
)
_FENCED = lazy_pattern(
    r"^[ \t]{0,3}```[^\n]*\n(?:(?![ \t]{0,3}```)[^\n]*\n)*+(?:[ \t]{0,3}```[^\n]*$)?",
    re.MULTILINE,
)
QUESTION_MARKS = ("?", "？")


def prose(text: str) -> str:
    """Return the text without fenced code blocks."""
    return _FENCED.sub("\n", text) if "```" in text else text


def sentences(text: str) -> Iterator[str]:
    """Yield the sentences in prose, without list marks."""
    for line in _LINE_END.split(prose(text)):
        for start, end in _sentence_spans(line):
            yield line[start:end]


def _sentence_spans(line: str) -> Iterator[tuple[int, int]]:
    start = 0
    ends = [match.end() for match in _SENTENCE_END.finditer(line)]
    for end in [*ends, len(line)]:
        if end < len(line) and _is_unfinished(
            line[start:end], line[end : end + 2].lstrip()
        ):
            continue
        mark = _LIST_MARK.match(line, start, end)
        text_start = mark.end() if mark else start
        sentence = line[text_start:end].strip()
        if sentence:
            text_start += line[text_start:end].index(sentence)
            yield text_start, text_start + len(sentence)
        start = end


def _is_unfinished(piece: str, following: str) -> bool:
    """Return whether a sentence continues after its apparent end.

    Quotation marks are considered only if the piece is short.
    """
    if len(piece) > LONGEST:
        return False
    if (
        _ABBREVIATION.search(piece)
        or piece.count('"') % 2 == 1
        or piece.count("`") % 2 == 1
    ):
        return True
    if following.islower() and _ABBREVIATION_BEFORE_SMALL.search(piece):
        return True
    return any(
        piece.count(opening) > piece.count(closing) for opening, closing in _PAIRED
    )


_LABEL = lazy_pattern(
    r"[*_]{0,2}([A-Za-z][A-Za-z _-]{1,30}|[\u4e00-\u9fff]{2,6})[*_]{0,2}[:：][*_]{0,2}[ \t]*(?=\S)"
)
_NO_LETTERS = lazy_pattern(r"[\W_]+")
_LABEL_WORDS = lazy_pattern(r"[ _-]+")


def label_of(line: str) -> frozenset[str]:
    """Return the words of a line's label, for example in `SAFETY RULE: …`.

    The words are in lower case and singular.
    """
    label = _LABEL.match(line)
    if label is None:
        return frozenset()
    return frozenset(
        word.casefold().rstrip("s") for word in _LABEL_WORDS.split(label[1])
    )


def same_words(text: str) -> str:
    """Return a key shared by all spellings of a sentence.

    The key consists of the casefolded letters and digits.
    """
    return _NO_LETTERS.sub("", text.casefold())


# -- constraints -----------------------------------------------------------------------------------

_DIGIT = lazy_pattern(r"\d")
_SHORT_PROHIBITION = 60
"""Maximum length, in characters, of a prohibition joined to a number in the preceding sentence."""


def constraints(text: str) -> tuple[str, ...]:
    """Return the sentences that give commands or forbid something.

    These sentences contain cue words in one of four languages. A line labelled as a rule is one constraint. A
    short prohibition is returned together with a number in the preceding sentence.
    """
    return _unique(
        rule for line in _LINE_END.split(prose(text)) for rule in _rules(line)
    )


def _rules(line: str) -> list[str]:
    spans = list(_sentence_spans(line))
    if not spans:
        return []
    first = spans[0][0]
    last = spans[-1][1]
    if last - first <= LONGEST and label_of(line[first:]) & RULE_LABELS:
        return [line[first:last]]
    rules: list[str] = []
    previous = ""
    for start, end in spans:
        sentence = line[start:end]
        if (
            _has_figure(previous)
            and len(sentence) <= _SHORT_PROHIBITION
            and PROHIBITION.match(sentence)
        ):
            rules = [rule for rule in rules if rule != previous]
            sentence = line[line.rindex(previous, 0, start) : end]
        if len(sentence) <= LONGEST and CONSTRAINT.search(sentence):
            rules.append(sentence)
        previous = sentence
    return rules


def _has_figure(sentence: str) -> bool:
    return _DIGIT.search(sentence) is not None and not sentence.endswith(QUESTION_MARKS)


# -- todos -----------------------------------------------------------------------------------------

# `- [ ] text`, `- [x] text`: an item of a Markdown task list.
_TASK = lazy_pattern(
    r"^[ \t]*(?:[-*+]|\d{1,3}[.)])[ \t]+\[([ xX])\][ \t]+(\S[^\n]*)$", re.MULTILINE
)


def todos(text: str) -> tuple[str, ...]:
    """Return the open todos from task lists and TODO notes.

    A todo is not open if it is marked as done later in the text.
    """
    is_open: dict[str, bool] = {}
    for mark, task in _TASK.findall(text):
        item = task.strip()[:LONGEST]
        is_open.pop(item, None)
        is_open[item] = mark == " "
    items = [item for item in is_open if is_open[item]]
    notes = map("".join, TODO_NOTE.findall(text))
    return _unique([*items, *map(str.strip, notes)])


# -- tool calls ------------------------------------------------------------------------------------

SHORTEST_LINE = 20
"""Minimum length, in characters, of a distinctive line, not counting indentation.

Shorter lines, such as `return None`, occur everywhere.
"""
NUMBERED = lazy_pattern(r"\s*(?:[^\s:]{1,200}:)?\d{1,6}[:|\t→-]\s?")
"""Matches the prefix of a line in the output of `cat -n`, `grep -n` and several read tools."""


def texts(message: BaseMessage) -> Iterator[str]:
    """Yield the texts in a message and in the arguments of its calls."""
    yield message.text
    for call in calls_of(message):
        yield from strings(call.parsed() or [call.arguments])


def strings(value: object) -> Iterator[str]:
    """Yield all strings in the arguments of a call."""
    pending: list[object] = [value]
    while pending:
        match pending.pop():
            case str(text):
                yield text
            case dict() as mapping:
                pending += reversed(mapping.values())
            case list() as items:
                pending += reversed(items)


FILE_ARGUMENTS = (
    "path",
    "file_path",
    "filePath",
    "filename",
    "file",
    "absolute_path",
    "notebook_path",
)
PLACE_ARGUMENTS = (*FILE_ARGUMENTS, "directory")
OLD_ARGUMENTS = frozenset(
    {"old", "oldText", "old_text", "oldString", "old_string", "old_str"}
)
NEW_ARGUMENTS = frozenset(
    {"new", "newText", "new_text", "newString", "new_string", "new_str"}
)
"""Names of edit arguments that contain the new text.

`OLD_ARGUMENTS` are those that contain the text to be replaced.

They are used by our tools, pi, Claude Code, opencode, SWE-agent and kimi-cli.
"""
PATCH = "*** Begin Patch"
"""Beginning of the only argument of `apply_patch`, a tool of Codex and other agents."""
PATCHED = lazy_pattern(r"\*\*\* (?:Update|Add|Delete) File: (.+)")
"""Matches a line of a patch that names a file."""


def strings_named(arguments: object, names: Collection[str]) -> Iterator[str]:
    """Yield the string arguments with these names, at any depth.

    Arguments can be nested, because some edit tools take a list of edits.
    """
    pending = [arguments]
    while pending:
        match pending.pop():
            case dict() as mapping:
                yield from (
                    text
                    for key, text in mapping.items()
                    if key in names and isinstance(text, str)
                )
                pending += mapping.values()
            case list() as items:
                pending += items


_LITERAL = r"(?:\"(?:[^\"\\]|\\.)*+\"|'(?:[^'\\]|\\.)*+'|`(?:[^`\\]|\\.)*+`)"
_SCRIPTED = lazy_pattern(
    rf"\btools\.exec_command\(\s*+{{\s*+(?:[\"']?\w{{1,40}}+[\"']?\s*+:\s*+(?:{_LITERAL}|[\w.]++)\s*+,\s*+)*?"
    rf"[\"']?cmd[\"']?\s*+:\s*+({_LITERAL})",
    re.DOTALL,
)
_PATCH_LITERAL = lazy_pattern(rf"(?=[\"'`]{re.escape(PATCH)}){_LITERAL}", re.DOTALL)
_ESCAPED = lazy_pattern(r"\\(?:u([0-9a-fA-F]{4})|(.))", re.DOTALL)
_ESCAPED_CONTROLS = {"n": "\n", "t": "\t", "r": "\r"}


def _evaluated(literal: str) -> str:
    """Return the value of a JavaScript string literal."""
    return _ESCAPED.sub(_unescaped, literal[1:-1])


def _unescaped(escape: re.Match[str]) -> str:
    code, char = escape.groups()
    if code:
        return chr(int(code, 16))
    return _ESCAPED_CONTROLS.get(char, char)


def scripted_commands(arguments: Mapping[str, object]) -> Iterator[str]:
    """Yield the command lines in the JavaScript of Codex's `exec`: `tools.exec_command({cmd:"ls"})`."""
    source = arguments.get("input")
    if isinstance(source, str):
        for match in _SCRIPTED.finditer(source):
            yield _evaluated(match[1])


def patches(arguments: object) -> Iterator[str]:
    """Yield the patches in the arguments of a call.

    A patch can be inside a script.
    """
    for text in strings(arguments):
        if text.lstrip().startswith(PATCH):
            yield text
        elif PATCH in text:
            yield from map(_evaluated, _PATCH_LITERAL.findall(text))


def command_arguments(arguments: Mapping[str, object]) -> Iterator[str]:
    """Yield the command lines run by a call."""
    yield from scripted_commands(arguments)
    for key in ("command", "cmd"):
        match arguments.get(key):
            case str(command) if command.strip():
                yield command.strip()
            case list() as words if words:
                yield " ".join(map(str, words))
