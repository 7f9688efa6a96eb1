"""Orders: what a user's sentence asks for, as tool calls. A small grammar in English and Chinese, no guesses.

Quoted text (backticks, quotes, fences) is never looked into: it is a pattern, a command or a file's content.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice

from .phrases import (
    ABOUT_IT,
    BOTH_QUESTION,
    CLAUSE_END,
    FIND,
    HELP,
    HISTORY,
    IN_FILE,
    LINES,
    LIST,
    POLITE,
    QUOTE,
    QUOTED,
    READ,
    RECALL,
    REPLACE,
    RUN,
    SEARCH,
    SEQUENCE,
    SUMMARISE,
    TEXT_TO_END,
    TYPES,
    WRITE,
)

Arguments = dict[str, str | int | bool]


@dataclass(frozen=True, slots=True)
class Action:
    """One tool call to be made."""

    tool: str
    arguments: Arguments = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Orders:
    """What a message asks for."""

    steps: tuple[tuple[Action, ...], ...] = ()
    """Calls of one step are independent and go out together."""
    recall: str | None = None
    """What of the conversation is to be recalled; empty for all of it, None where that is not asked."""
    help: bool = False
    """Who are you, what can you do."""
    unclear: tuple[str, ...] = ()
    """Pieces of the message that were not understood."""


_MOST_CLAUSES = 40
"""Of a message; what has more of them is no simple request."""


def orders_in(message: str) -> Orders:
    """What a message asks for. Deterministic, and total: what is not understood is under `unclear`."""
    masked = _Masked(message.strip())
    text = IN_FILE.sub(r"\2 in \1", masked.text)
    if shell := re.match(r"[!$][ \t]*(\S[^\n]*)\s*\Z", message.strip()):
        return Orders(steps=((Action("bash", {"command": shell[1].strip()}),),))
    if len(text) < 120 and HELP.search(text):
        return Orders(help=True)
    if history := HISTORY.match(_plain(text)[:_LONGEST]):
        query = masked.unquoted(history["what"])
        return Orders(steps=((Action("history_search", {"query": query}),),), recall=query)
    steps: list[tuple[Action, ...]] = []
    unclear: list[str] = []
    recall: str | None = None
    for clause, follows in islice(_clauses(text), _MOST_CLAUSES):
        asked = RECALL.search(clause[:_LONGEST])
        actions = () if asked else tuple(_actions(clause, masked))
        if actions and steps and not follows and _reads_only((*steps[-1], *actions)):
            steps[-1] = (*steps[-1], *actions)
        elif actions:
            steps.append(actions)
        elif asked:
            recall = masked.unquoted(asked["what"] or asked["was"] or "")
        elif SUMMARISE.search(clause):
            recall = recall or ""
        elif steps and len(clause) < _LONGEST and ABOUT_IT.fullmatch(clause):
            continue
        elif _says_something(clause):
            unclear.append(masked.restored(clause))
    return Orders(tuple(steps), recall, unclear=tuple(unclear))


_READERS = frozenset({"read", "ls", "glob", "grep"})


def _reads_only(actions: Sequence[Action]) -> bool:
    return all(action.tool in _READERS for action in actions)


class _Masked:
    """A text whose quotations are replaced by marks, so that the grammar does not look into them."""

    def __init__(self, text: str) -> None:
        self._quotes: list[tuple[str, str]] = []
        # Marks of our own kind in foreign text would be taken for quotations.
        text = re.sub(r"[\ue000\ue001]", "\ufffd", text)
        text = QUOTED.sub(self._mark, text)
        self.text = TEXT_TO_END.sub(lambda found: found[1] + self._kept(found[2], found[2]), text)

    def _mark(self, found: re.Match[str]) -> str:
        inner = next(group for group in found.groups() if group is not None)
        return self._kept(found[0], inner)

    def _kept(self, whole: str, inner: str) -> str:
        if QUOTE.fullmatch(whole.strip()):
            return whole
        self._quotes.append((self.restored(whole), self.restored(inner)))
        return f"\ue000{len(self._quotes) - 1}\ue001"

    def unquoted(self, text: str) -> str:
        """The text with what quotations hold in their place, without their quotes."""
        return QUOTE.sub(lambda found: self._quotes[int(found[1])][1], text).strip()

    def restored(self, text: str) -> str:
        """The text as it was written."""
        return QUOTE.sub(lambda found: self._quotes[int(found[1])][0], text)


def _clauses(text: str) -> Iterator[tuple[str, bool]]:
    """The clauses of a message, and whether each is to come after the one before it."""
    start, follows = 0, False
    for end in CLAUSE_END.finditer(text):
        yield _plain(text[start : end.start()]), follows
        start, follows = end.end(), bool(SEQUENCE.search(end[0]))
    yield _plain(text[start:]), follows


def _plain(clause: str) -> str:
    """A clause without politeness before it and full stops behind it."""
    clause = clause.strip().rstrip("。!！?？;；,，").rstrip()
    if clause.endswith(".") and not clause.endswith((" .", "..", "/.")):
        clause = clause[:-1]
    return POLITE.sub("", clause).strip()


def _says_something(clause: str) -> bool:
    return sum(char.isalnum() for char in clause) > 1


# -- one clause --------------------------------------------------------------------------------------

_LONGEST = 1_000
"""Characters of a clause; the grammar is not linear in it."""


def _actions(clause: str, masked: _Masked) -> Iterator[Action]:
    """The calls a clause asks for; none where it is not understood, or too long to be a simple request."""
    if len(clause) > _LONGEST:
        return
    for rule in (_replace, _write, _run, _find, _search, _list, _read):
        found = list(rule(clause, masked))
        if found:
            yield from found
            return


def _replace(clause: str, masked: _Masked) -> Iterator[Action]:
    for pattern in REPLACE:
        if match := pattern.fullmatch(clause):
            arguments: Arguments = {
                "path": _path(masked.unquoted(match["path"])),
                "old": masked.unquoted(match["old"]),
                "new": masked.unquoted(match["new"]),
            }
            if match["all"] or match["everywhere"]:
                arguments["replace_all"] = True
            yield Action("edit", arguments)
            return


def _write(clause: str, masked: _Masked) -> Iterator[Action]:
    for pattern in WRITE:
        if match := pattern.fullmatch(clause):
            path = _path(masked.unquoted(match["path"]))
            if _is_path(path):
                content = masked.unquoted(match["content"] or "")
                ending = "" if not content or content.endswith("\n") else "\n"
                yield Action("write", {"path": path, "content": content + ending})
                return


def _run(clause: str, masked: _Masked) -> Iterator[Action]:
    if not (match := RUN.fullmatch(clause)):
        return
    command = masked.unquoted(match["command"]) if QUOTE.match(match["command"]) else ""
    if not command:
        command = masked.restored(re.split(r",\s|，|\s+and\s+(?!&)|\s+please\b", match["command"])[0]).strip()
    # "run the tests" names no command; pytest is what this project's users mean by it.
    command = "pytest -q" if re.fullmatch(r"(?:the |all )*tests?|(?:所有)?测试", command) else command
    yield Action("bash", {"command": command})


def _find(clause: str, masked: _Masked) -> Iterator[Action]:
    if not (match := FIND.fullmatch(clause)):
        return
    wanted = masked.unquoted(match["glob"])
    if kind := TYPES.get(wanted.casefold()):
        wanted = f"*.{kind}"
    elif not any(char in wanted for char in "*?{") and not (match["named"] and _is_path(wanted)):
        return
    arguments: Arguments = {"pattern": wanted if "/" in wanted else f"**/{wanted}"}
    yield Action("glob", _with_path(arguments, match["path"], masked))


def _search(clause: str, masked: _Masked) -> Iterator[Action]:
    for pattern in SEARCH:
        if match := pattern.fullmatch(clause):
            wanted = masked.unquoted(match["what"])
            if not wanted:
                continue
            arguments: Arguments = {"pattern": _regex(wanted)}
            if match["path"] and any(char in match["path"] for char in "*?{"):
                yield Action("grep", {**arguments, "glob": _path(masked.unquoted(match["path"]))})
            else:
                yield Action("grep", _with_path(arguments, match["path"], masked))
            return


def _list(clause: str, masked: _Masked) -> Iterator[Action]:
    for pattern in LIST:
        if match := pattern.fullmatch(clause):
            path = _path(masked.unquoted(match["path"] or ""))
            if path and not path.endswith("/") and _is_file(path):
                return
            yield Action("ls", {"path": path} if path not in ("", ".") else {})
            return


def _read(clause: str, masked: _Masked) -> Iterator[Action]:
    verb = READ.match(clause)
    asked = BOTH_QUESTION.search(clause) is not None
    rest = clause[verb.end() :] if verb else clause
    pieces = re.split(r"[\s,，、;；]+|(?<=[^\W_])(?:和|与|以及)", rest)
    words = [_path(masked.unquoted(piece)) for piece in pieces]
    mentioned = [word[1:] for word in re.findall(r"@[\w./~+\-]+", clause)]
    found = [word for word in words if _is_path(word)] if verb or asked else []
    if not verb and not asked and words and all(_is_path(word) for word in words if word):
        found = [word for word in words if word]
    if verb and not found and len(words) == 1 and re.fullmatch(r"[A-Z][\w-]{2,40}", words[0]):
        found = words  # LICENSE, Makefile
    lines = next(filter(None, (pattern.search(rest) for pattern in LINES)), None)
    if verb or asked or found:
        found = [*found, *(word.rstrip(".") for word in mentioned)]
    for path in dict.fromkeys(found):
        if path.endswith("/"):
            yield Action("ls", {"path": path})
            continue
        arguments: Arguments = {"path": path}
        if lines:
            first = int(lines["first"])
            arguments["offset"] = max(1, first)
            arguments["limit"] = max(1, int(lines["last"] or first) - first + 1)
        yield Action("read", arguments)


def _with_path(arguments: Arguments, path: str | None, masked: _Masked) -> Arguments:
    named = _path(masked.unquoted(path or ""))
    return {**arguments, "path": named} if named not in ("", ".") else arguments


def _path(word: str) -> str:
    word = word.strip().strip("，。；：,;:?？!！()（）").removeprefix("@")
    return word[:-1] if word.endswith(".") and len(word) > 1 and not word.endswith("..") else word


_NAMES = frozenset({"Makefile", "Dockerfile", "LICENSE", "README", "Justfile", "Procfile", "CHANGELOG"})


def _is_path(word: str) -> bool:
    """By its looks: anything with a slash or an extension, for the tool will say if it does not exist."""
    if not word or re.search(r"[\s*?\"<>|]", word) or "://" in word:
        return False
    return word in _NAMES or "/" in word.strip() or _is_file(word)


def _is_file(path: str) -> bool:
    name = path.rsplit("/", 1)[-1]
    return name in _NAMES or bool(re.fullmatch(r"[\w.+@-]*[\w+@-]\.[A-Za-z]\w{0,9}|\.[a-z][\w.-]+", name))


def _regex(wanted: str) -> str:
    """A pattern as given, or literally where it is no regular expression."""
    try:
        re.compile(wanted)
    except re.error:
        return re.escape(wanted)
    return wanted
