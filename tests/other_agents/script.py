"""What the scripted model answers: the jobs that prompts name, step by step, then a sentence.

A prompt says `Job 2: …`; the model works off the steps of that job with whatever tools the agent offers. A
request for a summary, and one for a title, are told from their instructions.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from .wires import Call, Item, Json, Tool


class Step(NamedTuple):
    """One piece of work. `kind` is read, shell, write or edit; `values` are a path or command, then texts."""

    kind: str
    values: tuple[str, ...]


def _read(name: str) -> Step:
    return Step("read", (name,))


def _shell(command: str) -> Step:
    return Step("shell", (command,))


JOBS: dict[int, tuple[tuple[Step, ...], ...]] = {
    1: (
        (_read("harbour.txt"),),
        (_shell("wc -l harbour.txt bridge.txt"),),
        (
            Step(
                "edit",
                ("harbour.txt", "setting 7 of harbour", "setting seven of harbour"),
            ),
        ),
        (_read("absent.txt"),),
    ),
    2: ((_read("bridge.txt"), _read("lantern.txt")), (_shell("exit 3"),)),
    3: (
        (_read("bridge.txt"),),
        (_read("lantern.txt"),),
        (Step("write", ("report.txt", "Three files were read.\n")),),
    ),
    4: ((_shell("cat report.txt"),),),
    5: ((_read("bridge.txt"),),),
}
"""The rounds of each job; the calls of one round are made at once."""

PROMPTS = {
    1: "Job 1: look at the harbour settings, and mend the seventh.",
    2: "Job 2: now the bridge and the lantern.",
    3: "Job 3: write the report.",
    4: "Job 4: show the report.",
    5: "Job 5: look at the bridge once more.",
}

_JOB = re.compile(r"\bJob (\d)\b")
_SUMMARY = re.compile(
    r"summar|compact|hand-?off|checkpoint|state_snapshot", re.IGNORECASE
)
_TITLE = re.compile(r"\btitle\b|\btopic\b|isNewTopic", re.IGNORECASE)
_TAIL = 400
"""A prompt is within the last characters of its message: what an agent adds comes before it, or is short."""


def job_of(text: str) -> int:
    """The job that a prompt names; 0 if it names none."""
    found = _JOB.findall(text)
    return int(found[-1]) if found else 0


def purpose_of(items: Sequence[Item], tools: Sequence[Tool]) -> str:
    """Tell a request for work from one for a summary or a title: "work", "summary" or "title"."""
    last = items[-1] if items else Item("user", "")
    system = "\n".join(item.text for item in items if item.role == "system")[:8_000]
    if last.role == "result" and len(tools) > 1:
        return "work"
    if job_of(last.text[-_TAIL:]) and len(tools) > 1:
        return "work"
    asked = last.text if last.role != "assistant" else ""
    if (
        len(tools) < 2
        and _TITLE.search(system + asked[:2_000])
        and not _SUMMARY.search(system)
    ):
        return "title"
    if last.role in ("user", "system") and _SUMMARY.search(asked) and len(asked) > 200:
        return "summary"
    if len(tools) < 2:
        return "summary" if _SUMMARY.search(system + asked) else "title"
    return "work"


class Script:
    """Answers requests in turn. It counts the rounds of each job: a compaction may hide them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._rounds: dict[int, int] = {}
        self._summaries = 0
        self._calls = 0

    def reply(
        self, purpose: str, items: Sequence[Item], tools: Sequence[Tool]
    ) -> tuple[str, tuple[Call, ...]]:
        """The text and the calls of the next answer."""
        if purpose == "title":
            return "Harbour settings", ()
        if purpose == "summary":
            return self._summary(), ()
        prompts = [
            item.text for item in items if item.role == "user" and job_of(item.text)
        ]
        job = job_of(prompts[-1]) if prompts else 0
        nth = self._rounds.get(job, 0)
        rounds = JOBS.get(job, ())
        if nth >= len(rounds):
            return f"Finished number {job}, after {nth} rounds of calls.", ()
        self._rounds[job] = nth + 1
        calls = tuple(self._call(step, tools) for step in rounds[nth])
        return f"Round {nth + 1} of number {job}.", calls

    def _summary(self) -> str:
        self._summaries += 1
        progress = (
            "The files of the harbour were read, and its seventh setting was mended. "
            * 6
        )
        return f"<summary>\nSUMMARY {self._summaries} of the scripted model. {progress}\n</summary>"

    def _call(self, step: Step, tools: Sequence[Tool]) -> Call:
        self._calls += 1
        name, arguments = call_for(step, tools, self._folder)
        return Call(name, arguments, f"call_{self._calls:04}")


TOOL_NAMES = {
    "read": ("read", "read_file", "readfile", "read_files", "view"),
    "shell": (
        "bash",
        "shell",
        "exec_command",
        "shell_command",
        "run_shell_command",
        "run_commands",
        "execute_command",
        "exec",
    ),
    "write": ("write", "write_file", "writefile", "create"),
    "edit": (
        "edit",
        "edit_file",
        "replace",
        "str_replace",
        "search_replace",
        "strreplacefile",
    ),
}
PATHS = ("file_path", "filePath", "path", "absolute_path", "paths", "files")
COMMANDS = ("command", "cmd", "commands")
CONTENTS = ("content", "file_text", "contents", "text")
OLD = ("old_string", "oldString", "old_str", "oldText", "old_text", "old")
NEW = ("new_string", "newString", "new_str", "newText", "new_text", "new")


def call_for(step: Step, tools: Sequence[Tool], folder: Path) -> tuple[str, Json]:
    """A call of one of these tools that does the step; the shell's where the agent has no tool for it.

    Raises:
        LookupError: the agent offers no shell either.
    """
    tool = _tool_for(step.kind, tools)
    if step.kind == "shell":
        if tool is None:
            raise LookupError(f"no shell among {[each.name for each in tools]}")
        return tool.name, _filled(tool, {_key(tool, COMMANDS): step.values[0]})
    path = str(folder / step.values[0])
    values = step.values[1:]
    if tool is not None and step.kind == "read":
        return tool.name, _filled(tool, {_key(tool, PATHS): path})
    if tool is not None and step.kind == "write":
        return tool.name, _filled(
            tool, {_key(tool, PATHS): path, _key(tool, CONTENTS): values[0]}
        )
    if tool is not None and _has(tool, OLD):
        change = {_key(tool, OLD): values[0], _key(tool, NEW): values[1]}
        return tool.name, _filled(tool, {_key(tool, PATHS): path, **change})
    if tool is not None and "edits" in tool.properties:
        return tool.name, _filled(
            tool, {_key(tool, PATHS): path, "edits": [_one_edit(tool, values)]}
        )
    commands = {
        "read": f"cat '{path}'",
        "write": f"printf %s '{values[0] if values else ''}' > '{path}'",
        "edit": f"sed -i 's/{values[0] if values else ''}/{values[-1] if values else ''}/' '{path}'",
    }
    return call_for(Step("shell", (commands[step.kind],)), tools, folder)


def _one_edit(tool: Tool, values: Sequence[str]) -> Json:
    """An element of `edits`, in the words of its own schema."""
    inner = Tool("edit", (tool.properties["edits"].get("items")) or {})
    return {_key(inner, OLD): values[0], _key(inner, NEW): values[1]}


def _tool_for(kind: str, tools: Sequence[Tool]) -> Tool | None:
    by_name = {tool.name.lower(): tool for tool in tools}
    for name in TOOL_NAMES[kind]:
        if name in by_name:
            return by_name[name]
    return None


def _has(tool: Tool, names: Sequence[str]) -> bool:
    return any(name in tool.properties for name in names)


def _key(tool: Tool, names: Sequence[str]) -> str:
    """The property of the tool that has one of these names."""
    return next((name for name in names if name in tool.properties), names[0])


def _filled(tool: Tool, arguments: Json) -> Json:
    """The arguments in the types that the schema asks for, and a value for all that it requires."""
    filled = {
        key: _typed(tool.properties.get(key) or {}, value)
        for key, value in arguments.items()
    }
    for key in tool.required:
        if key not in filled:
            filled[key] = _any_value(tool.properties.get(key) or {})
    return filled


def _typed(schema: Json, value: object) -> object:
    if str(schema.get("type", "")).lower() != "array" or isinstance(value, list):
        return value
    inner = schema.get("items") or {}
    keys = inner.get("properties") or {}
    if keys:
        return [
            _filled(
                Tool("", inner), {_key(Tool("", inner), (*PATHS, *COMMANDS)): value}
            )
        ]
    return [value]


def _any_value(schema: Json) -> object:
    """A harmless value of this schema."""
    if "enum" in schema:
        return schema["enum"][0]
    kind = str(schema.get("type", "string")).lower()
    plain = {"number": 1, "integer": 1, "boolean": False, "array": [], "object": {}}
    return plain.get(kind, "as asked")
