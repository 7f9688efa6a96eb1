"""Turns a user's requests into tool calls.

It uses a small English and Chinese grammar (`grammar.toml`).

Text in backticks, quotes or fences is not interpreted: it is taken as a pattern, a command or a file's
content. Clauses that do not match the grammar are reported as unclear, never guessed.
"""

import re
import tomllib
from itertools import count, islice
from pathlib import Path
from typing import NamedTuple

from foldline.json_text import JsonObject


class Action(NamedTuple):
    """A tool call to make."""

    tool: str
    arguments: JsonObject


Step = tuple[Action, ...]
"""Independent calls that are made together."""


class Orders(NamedTuple):
    """The requests found in a message."""

    steps: tuple[Step, ...] = ()
    recall: str | None = None
    """The topic of a question about the conversation.

    Empty if the question is about the whole conversation; None if there is no such question.
    """
    unclear: tuple[str, ...] = ()
    """Clauses that do not match the grammar."""


_MOST_CLAUSES = 40
_LONGEST_CLAUSE = 1_000
"""Maximum length of a clause, in characters.

Longer clauses are reported as unclear, because matching them would take too long.
"""
_DATA = tomllib.loads(
    Path(__file__).with_name("grammar.toml").read_text(encoding="utf-8")
)
SENTENCES: dict[str, str] = _DATA["sentences"]


def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.IGNORECASE | re.DOTALL)


def _compiled_rule(pattern: str) -> re.Pattern[str]:
    for name, meaning in _DATA["parts"].items():
        pattern = pattern.replace(f"{{{name}}}", meaning)
    pattern = re.sub(r"\{(\w+)\}", r"(?P<\1>QUOTATION|.+?)", pattern)
    pattern = pattern.replace(" ?", r"\s*").replace(" ", r"\s+")
    return _compiled(pattern.replace("QUOTATION", "\ue000\\d+\ue001"))


_RULES = [(tool, _compiled_rule(pattern)) for tool, pattern in _DATA["rules"]]
_WORDS = {name: "|".join(alternatives) for name, alternatives in _DATA["words"].items()}
_HELP, _RECALL, _READ, _COVERED = (
    _compiled(_WORDS[name]) for name in ("help", "recall", "read", "covered")
)
_POLITE = _compiled(rf"\A(?:{_WORDS['polite']})+")
_LINK = rf"(?:(?:{_WORDS['link']}),?\s{{0,9}})"
_CLAUSE_END = _compiled(  # punctuation or a linking word before a known verb
    rf"\s{{0,9}}(?:(?:[,;!?，；。！？\n]|\.(?=\s))\s{{0,9}}{_LINK}{{0,4}}|{_LINK}{{1,4}})(?={_WORDS['verb']})"
)
_QUOTED = _compiled("|".join(_DATA["quotations"]))
_GLOB = re.compile(r"[*?{]")
_FILE_NAME = re.compile(_DATA["file_name"])


def orders_in(message: str) -> Orders:
    """Find the requests in a message."""
    masked = _Masked(message.strip())
    if len(masked.text) < 120 and _HELP.search(masked.text):
        return Orders()
    steps: list[Step] = []
    unclear: list[str] = []
    recall: str | None = None
    for clause in map(_plain, islice(_CLAUSE_END.split(masked.text), _MOST_CLAUSES)):
        start = clause[:_LONGEST_CLAUSE]
        if question := _RECALL.search(start):
            recall = masked.unmask(question["topic"] or question["topic_zh"] or "")
        elif len(clause) <= _LONGEST_CLAUSE and (step := _step(clause, masked)):
            steps.append(step)
        elif (
            not (steps and _COVERED.match(start)) and sum(map(str.isalnum, clause)) > 1
        ):
            unclear.append(masked.unmask(clause, with_quotes=True))
    return Orders(tuple(steps), recall, tuple(unclear))


class _Masked:
    """Text in which each quotation has been replaced by a placeholder."""

    def __init__(self, text: str) -> None:
        text = re.sub(r"[\ue000\ue001]", "\ufffd", text)
        self._quotations = list(_QUOTED.finditer(text))
        number = count()
        self.text = _QUOTED.sub(lambda _: f"\ue000{next(number)}\ue001", text)

    def unmask(self, text: str, *, with_quotes: bool = False) -> str:
        texts = [
            match[0] if with_quotes else match[match.lastindex or 0]
            for match in self._quotations
        ]
        return re.sub(
            "\ue000(\\d+)\ue001", lambda mark: texts[int(mark[1])], text
        ).strip()


def _plain(clause: str) -> str:
    """Return a clause without polite opening phrases and without a full stop."""
    clause = clause.strip().rstrip("。!！?？;；,，").rstrip()
    if not clause.endswith((" .", "..", "/.")):
        clause = clause.removesuffix(".")
    return _POLITE.sub("", clause).strip()


def _step(clause: str, masked: _Masked) -> Step:
    """Return the calls for a clause; empty if the clause is unclear."""
    for tool, pattern in _RULES:
        if match := pattern.fullmatch(clause):
            values = {
                name: masked.unmask(value)
                for name, value in match.groupdict().items()
                if value
            }
            if (arguments := _arguments(tool, values)) is not None:
                return (Action(tool, arguments),)
    verb = _READ.match(clause)
    words = re.split(
        r"[\s,，、;；]+|(?<=[^\W_])(?:和|与)", clause[verb.end() :] if verb else clause
    )
    paths = [
        _path(masked.unmask(word)) for word in words if verb or word.startswith("@")
    ]
    files = dict.fromkeys(path for path in paths if _is_path(path))
    return tuple(
        Action("ls" if path.endswith("/") else "read", {"path": path}) for path in files
    )


def _arguments(tool: str, values: dict[str, str]) -> JsonObject | None:
    """Return a call's arguments, from the values that matched a rule.

    Returns None if the values do not fit the tool.
    """
    path = _path(values.pop("path", ""))
    arguments: JsonObject = (
        {**values} if path in ("", ".") else {**values, "path": path}
    )
    if arguments.pop("all", None):
        arguments["replace_all"] = True
    if tool == "write":
        content = values.get("content", "").removesuffix("\n")
        return (
            {"path": path, "content": content and f"{content}\n"}
            if _is_path(path)
            else None
        )
    if tool == "bash" and values["command"] in _DATA["tests"]:
        return {"command": "pytest -q"}
    if tool == "glob":
        suffix = _DATA["suffixes"].get(values["pattern"].casefold())
        pattern = f"*.{suffix}" if suffix else values["pattern"]
        arguments["pattern"] = pattern if "/" in pattern else f"**/{pattern}"
        return arguments if _GLOB.search(pattern) else None
    if tool == "grep" and _GLOB.search(path):
        arguments["glob"] = arguments.pop("path")
    return None if tool == "ls" and re.search(r"\w\.\w+\Z", path) else arguments


def _path(word: str) -> str:
    word = word.strip().strip("，。；：,:;?？!！()（）").removeprefix("@")
    return word if word == "." or word.endswith("..") else word.removesuffix(".")


def _is_path(word: str) -> bool:
    """Return whether a word looks like a path.

    The file need not exist, because the tool itself reports missing files.
    """
    is_word = bool(word) and "://" not in word and not re.search(r"[\s*?\"<>|]", word)
    return is_word and ("/" in word or _FILE_NAME.fullmatch(word) is not None)
