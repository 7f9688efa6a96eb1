"""What matters of the work done: failures and their fixes, newest versions, plans. Pure.

Points for units; what was said in words is judged in `importance`.
"""

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence

from foldline.protocol import ToolCallPart, ToolResultMessage

from .budget import Unit
from .facts import command_arguments, errors, todos
from .shell import deeds
from .todos import todo_list
from .undoing import FAILED, FAILS, MOST, NEWEST_FILE, NEWEST_NAME, Point

_LOOKED_AT = 20_000
"""Characters at either end of an output that are searched for failures."""


def points_for_work(units: Sequence[Unit]) -> Iterator[Point]:
    yield from _failures(units)
    yield from _versions(units)
    yield from _plans(units)


def called_again(units: Sequence[Unit]) -> Iterator[int]:
    """Tool groups whose every call was made again later: what came back then is newer."""
    later: set[tuple[str, ...]] = set()
    for place in range(len(units) - 1, -1, -1):
        calls = {_deeds(call) or (call.name, call.arguments) for call in units[place].calls}
        if calls and calls <= later:
            yield place
        later |= calls


# -- failures and fixes --------------------------------------------------------------------------------


def _failures(units: Sequence[Unit]) -> Iterator[Point]:
    """Commands that failed, for less once the same has run again; and the last change before it ran well.

    Commands that only look fail to say "nothing found".
    """
    open_failures: dict[tuple[str, ...], int] = {}
    changed_at = -1
    for place, unit in enumerate(units):
        for call, result in _runs(unit):
            did = _deeds(call)
            if not did:
                if result.is_error and not any(command_arguments(call.parsed())):
                    yield place, "stumble", MOST["stumble"]
                continue
            did = tuple(map(_without_options, did))
            failed = bool(reported(result.text))
            since = open_failures.pop(did, None)
            if since is not None:
                yield since, "error", FAILED
                if not failed and changed_at > since:
                    yield changed_at, "fix", MOST["fix"]
            if failed:
                open_failures[did] = place
        if any(True for _ in _changed(unit)):
            changed_at = place
    yield from ((place, "error", FAILS) for place in open_failures.values())


def _runs(unit: Unit) -> Iterator[tuple[ToolCallPart, ToolResultMessage]]:
    results = {result.call_id: result for result in unit.results}
    for call in unit.calls:
        if call.call_id in results:
            yield call, results[call.call_id]


def _deeds(call: ToolCallPart) -> tuple[str, ...]:
    """The commands a call runs that do something: what they print tells of the work."""
    return tuple(command for line in command_arguments(call.parsed()) for command in deeds(line))


def _without_options(command: str) -> str:
    """`pytest tests/a.py` of `pytest -x -q tests/a.py`: the same run, looked at more or less closely."""
    return " ".join(word for word in command.split() if not word.startswith("-"))


_SIGNS = ("rror", "xception", "FAILED", "E   ", "fatal", "panic", "exit", "not found", "No such", "enied",
          "fault", "错误", "失败", "エラー", "오류", "실패")  # fmt: skip
"""No line reports a failure without one of these. Looking for them is fast."""


def reported(text: str) -> tuple[str, ...]:
    """The lines that report failures."""
    if len(text) > 2 * _LOOKED_AT:
        text = f"{text[:_LOOKED_AT]}\n{text[-_LOOKED_AT:]}"
    return errors(text) if any(sign in text for sign in _SIGNS) else ()


# -- versions ------------------------------------------------------------------------------------------


def _versions(units: Sequence[Unit]) -> Iterator[Point]:
    """The newest change of each file, and the newest code in an answer that defines a name."""
    newest: dict[str, int] = {}
    for place, unit in enumerate(units):
        newest.update((f"file {path}", place) for path in _changed(unit))
        newest.update((f"name {name}", place) for name in _defined(unit.said))
    versions: dict[int, float] = defaultdict(float)
    for key, place in newest.items():
        versions[place] += NEWEST_FILE if key.startswith("file") else NEWEST_NAME
    yield from ((place, "code", points) for place, points in versions.items())


def _changed(unit: Unit) -> Iterator[str]:
    for result in unit.results:
        if not result.is_error:
            yield from (touch.path for touch in result.details.files if touch.action == "modified")


_FENCED = re.compile(r"^```[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)
_DEFINES = re.compile(
    r"^[ \t]{0,12}(?:(?:export|default|pub|async|static|public|private)[ ]+){0,3}"
    r"(?:def|class|function|fn|func|struct|interface|type|enum|trait)[ ]+(\w{2,80})",
    re.MULTILINE,
)


def _defined(text: str) -> Iterator[str]:
    if "```" in text:
        for block in _FENCED.finditer(text):
            yield from _DEFINES.findall(block[1])


# -- plans ---------------------------------------------------------------------------------------------


def _plans(units: Sequence[Unit]) -> Iterator[Point]:
    """The newest todo list, if something on it is open, and task lists in words."""
    newest = -1
    for place, unit in enumerate(units):
        if any("todos" in call.arguments and todo_list(call.parsed()) is not None for call in unit.calls):
            newest = place
        text = unit.asked or unit.said
        if ("[ ]" in text or "TODO" in text or "FIXME" in text or "待" in text) and todos(text):
            yield place, "plan", MOST["plan"] / 2
    kept_by = units[newest].calls if newest >= 0 else ()
    if any(todo.is_open for call in kept_by for todo in todo_list(call.parsed()) or ()):
        yield newest, "plan", MOST["plan"]
