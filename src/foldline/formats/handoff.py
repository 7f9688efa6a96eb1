"""A session handed to another agent: what the model sees now, written where that agent looks for sessions.

Files and folders are called what the agents call their own (docs/decisions/0060-handoff.md).
"""

import json
import os
import re
import shlex
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from hashlib import md5
from importlib import import_module
from pathlib import Path
from typing import Final, NamedTuple

from foldline.context.numbers import many
from foldline.data import data_home
from foldline.files import make_private, put_private
from foldline.history import utc_now
from foldline.history.paths import write_new
from foldline.protocol import FoldlineError, system_words

from .base import object_in
from .export import Exported, HandedView, Original, handed_view
from .homes import folders_of

RESUMED_BY: Mapping[str, tuple[str, str, str]] = {
    "claude-code": ("agent_sessions", "write_claude_code", "claude --resume {id}"),
    "codex": ("agent_sessions", "write_codex", "codex resume {id}"),
    "pi": ("open_agents", "write_pi", "pi --session {path}"),
    "kimi-cli": ("open_agents", "write_kimi", "kimi --session {id}"),
    "copilot": ("agent_sessions", "write_copilot", "copilot --resume={id}"),
    "opencode": ("open_agents", "write_opencode", "opencode import {path} && opencode --session {id}"),
}
"""By agent: the module below `writers`, the writer in it, and the command that resumes what it wrote."""


class HandedOver(NamedTuple):
    path: Path
    """The main file of what was written."""
    command: str
    """Resumes it."""
    notes: Sequence[str]


def hand_over(original: Original, agent: str, folder: str) -> HandedOver:
    """Writes the view of a session as a new one of this agent, to go on with in this folder.

    Raises:
        FoldlineError: the view is empty, something is there already, or the disk refused.
    """
    now, name = utc_now(), str(uuid.uuid4())
    name = f"ses_{name.replace('-', '')[:26]}" if agent == "opencode" else name
    header = original.header.model_copy(update={"id": name, "cwd": folder, "created_at": now})
    module, writer, command = RESUMED_BY[agent]
    write: Callable[[HandedView], Exported] = getattr(
        import_module(f".writers.{module}", __package__), writer
    )
    view = handed_view(replace(original, header=header))
    if view.summary is None and not any(message.parts for _, message in view.messages):
        raise FoldlineError("There is nothing to go on with: the view is empty.")
    written = write(view)
    thoughts = sum(item.thinking > 0 for item in original.projection.view)
    left_out = [f"The thinking of {many(thoughts, 'answer')} is left out."] if thoughts else []
    path = _path(agent, folder, name)
    try:
        if agent == "kimi-cli":
            _make_known(path.parents[3] / "kimi.json", folder)
        make_private(path.parent)
    except OSError as error:
        raise FoldlineError(f"{path.parent} cannot be written to: {system_words(error)}.") from None
    write_new(path, written.data)
    for file, data in written.beside.items():
        write_new(path.with_name(file), data)
    resume = command.format(id=name, path=shlex.quote(str(path)))
    there = f"cd {shlex.quote(folder)} && " if folder != str(Path.cwd()) else ""
    return HandedOver(path, there + resume, (*left_out, *written.notes))


def _path(agent: str, folder: str, name: str) -> Path:
    """Where this agent keeps a session of this folder and id."""
    place = folders_of(agent)
    assert place is not None
    home, here = place.folders()[0], utc_now().astimezone()
    match agent:
        case "claude-code":
            return home / _claude_project(folder) / f"{name}.jsonl"
        case "codex":
            return home / f"{here:%Y/%m/%d}" / f"rollout-{here:%Y-%m-%dT%H-%M-%S}-{name}.jsonl"
        case "pi":
            file = f"{utc_now():%Y-%m-%dT%H-%M-%S-000Z}_{name}.jsonl"
            flat = os.environ.get("PI_CODING_AGENT_SESSION_DIR", "").strip()
            below = re.sub(r"[/\\:]", "-", folder.removeprefix("/"))
            return home / ("" if flat else f"--{below}--") / file
        case "copilot":
            return home / name / "events.jsonl"
        case "kimi-cli":
            return home / md5(folder.encode(), usedforsecurity=False).hexdigest() / name / "context.jsonl"
        case _:  # opencode's own store is a database that only it may write
            return data_home() / "handoffs" / f"{name}.json"


def _claude_project(folder: str) -> str:
    """What Claude Code calls a folder, by its UTF-16 units: a long name is cut, and ends with their hash."""
    encoded = folder.encode("utf-16-le", "surrogatepass")
    units = [int.from_bytes(encoded[at : at + 2], "little") for at in range(0, len(encoded), 2)]
    name = "".join(chr(unit) if chr(unit).isalnum() and unit < 128 else "-" for unit in units)
    if len(name) <= _LONGEST:
        return name
    number = reduce(lambda code, unit: (code * 31 + unit) % 2**32, units, 0)
    number, digits = min(number, 2**32 - number), ""  # as a number with a sign, and without that
    while number:
        number, digit = divmod(number, 36)
        digits = "0123456789abcdefghijklmnopqrstuvwxyz"[digit] + digits
    return f"{name[:_LONGEST]}-{digits}"


_LONGEST: Final = 200
"""Characters of such a name before the hash."""


def _make_known(path: Path, folder: str) -> None:
    """Adds a working folder to those that kimi-cli knows: in another one it would empty the session."""
    known = object_in(path)
    if path.exists() and not known:
        raise FoldlineError(f"{path} cannot be read, and kimi-cli finds no session without it.")
    if any(each.text("path") == folder for each in known.objects("work_dirs")):
        return
    folders = [*known.array("work_dirs"), {"path": folder, "kaos": "local", "last_session_id": None}]
    make_private(path.parent)
    put_private(path, json.dumps({**known, "work_dirs": folders}, ensure_ascii=False).encode())
