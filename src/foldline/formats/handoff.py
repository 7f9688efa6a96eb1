"""Hands a session over to another agent.

The session's view is written to the folder in which the agent looks for sessions.

The names of files and folders follow the agents' own rules (docs/decisions/0060-handoff.md).
"""

import json
import os
import re
import shlex
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from hashlib import md5
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

from foldline.data import data_home
from foldline.files import make_private, put_private
from foldline.history import utc_now
from foldline.history.paths import write_new
from foldline.protocol import FoldlineError, system_words
from foldline.text.numbers import many

from .base import object_in
from .export import Exported, HandedView, Original, handed_view
from .homes import folders_of

RESUMED_BY: Mapping[str, tuple[str, str, str]] = {
    "claude-code": ("claude_code", "write_claude_code", "claude --resume {id}"),
    "codex": ("codex", "write_codex", "codex resume {id}"),
    "pi": ("pi", "write_pi", "pi --session {path}"),
    "kimi-cli": ("kimi", "write_kimi", "kimi --session {id}"),
    "copilot": ("copilot", "write_copilot", "copilot --resume={id}"),
    "opencode": (
        "opencode",
        "write_opencode",
        "opencode import {path} && opencode --session {id}",
    ),
}
"""For each agent, the module in `writers`, its writer, and the command that resumes the session."""


EMPTY_VIEW = "There is nothing to hand over: the view is empty."


class HandedOver(NamedTuple):
    path: Path
    """The main file that was written."""
    command: str
    """The command that resumes the session."""
    notes: Sequence[str]


def hand_over(original: Original, agent: str, folder: str) -> HandedOver:
    """Write the view as a new session of this agent in the working folder `folder`.

    Raises:
        FoldlineError: the view is empty, a file exists already, or writing to disk failed.
    """
    name = str(uuid.uuid4())
    if agent == "opencode":
        name = f"ses_{name.replace('-', '')[:26]}"
    header = original.header.model_copy(
        update={"id": name, "cwd": folder, "created_at": utc_now()}
    )
    view = handed_view(replace(original, header=header))
    if view.summary is None and not any(message.parts for _, message in view.messages):
        raise FoldlineError(EMPTY_VIEW)
    module, writer, command = RESUMED_BY[agent]
    writers = import_module(f".writers.{module}", __package__)
    write: Callable[[HandedView], Exported] = getattr(writers, writer)
    written = write(view)
    notes = list(written.notes)
    thoughts = sum(item.thinking > 0 for item in original.projection.view)
    if thoughts:
        notes.insert(0, f"Left out: the thinking of {many(thoughts, 'answer')}.")
    path = _path(agent, folder, name)
    _prepare_folder(agent, folder, path)
    write_new(path, written.data)
    for file, data in written.side_files.items():
        write_new(path.with_name(file), data)
    resume = command.format(id=name, path=shlex.quote(str(path)))
    if folder != str(Path.cwd()):
        resume = f"cd {shlex.quote(folder)} && {resume}"
    return HandedOver(path, resume, notes)


def _prepare_folder(agent: str, folder: str, path: Path) -> None:
    """Create the folder for the new session.

    For kimi-cli, also register the working folder.
    """
    try:
        if agent == "kimi-cli":
            _add_kimi_folder(path.parents[3] / "kimi.json", folder)
        make_private(path.parent)
    except OSError as error:
        raise FoldlineError(
            f"{path.parent} cannot be written to: {system_words(error)}."
        ) from None


def _path(agent: str, folder: str, name: str) -> Path:
    """Return the path at which this agent keeps the session `name` of this working folder."""
    folders = folders_of(agent)
    assert folders is not None
    home = folders.folders()[0]
    now = utc_now()
    match agent:
        case "claude-code":
            return home / _claude_project(folder) / f"{name}.jsonl"
        case "codex":
            here = now.astimezone()
            return (
                home
                / f"{here:%Y/%m/%d}"
                / f"rollout-{here:%Y-%m-%dT%H-%M-%S}-{name}.jsonl"
            )
        case "pi":
            is_flat = os.environ.get("PI_CODING_AGENT_SESSION_DIR", "").strip()
            project = (
                ""
                if is_flat
                else f"--{_PI_SEPARATORS.sub('-', folder.removeprefix('/'))}--"
            )
            return home / project / f"{now:%Y-%m-%dT%H-%M-%S-000Z}_{name}.jsonl"
        case "copilot":
            return home / name / "events.jsonl"
        case "kimi-cli":
            return (
                home
                / md5(folder.encode(), usedforsecurity=False).hexdigest()
                / name
                / "context.jsonl"
            )
        case _:  # opencode keeps sessions in a database, which only opencode itself may write
            return data_home() / "handoffs" / f"{name}.json"


_PI_SEPARATORS = re.compile(r"[/\\:]")
_LONGEST = 200
"""Maximum length of a project name, in characters.

A longer name is cut off, and a hash is appended.
"""


def _claude_project(folder: str) -> str:
    """Return Claude Code's project name for a folder.

    The name is computed from UTF-16 code units.
    """
    encoded = folder.encode("utf-16-le", "surrogatepass")
    units = [
        int.from_bytes(encoded[at : at + 2], "little")
        for at in range(0, len(encoded), 2)
    ]
    name = ""
    number = 0
    for unit in units:
        char = chr(unit)
        name += char if char.isascii() and char.isalnum() else "-"
        number = (number * 31 + unit) % 2**32
    if len(name) <= _LONGEST:
        return name
    number = min(number, 2**32 - number)  # the absolute value of a signed 32-bit number
    digits = ""
    while number:
        number, digit = divmod(number, 36)
        digits = "0123456789abcdefghijklmnopqrstuvwxyz"[digit] + digits
    return f"{name[:_LONGEST]}-{digits}"


def _add_kimi_folder(path: Path, folder: str) -> None:
    """Add a folder to kimi-cli's list of working folders.

    kimi-cli deletes the content of a session whose folder is not in the list.
    """
    listed = object_in(path)
    if path.exists() and not listed:
        raise FoldlineError(
            "{path} cannot be read, and kimi-cli finds sessions only through it.",
            path=path,
        )
    if any(entry.text("path") == folder for entry in listed.objects("work_dirs")):
        return
    folders = [
        *listed.array("work_dirs"),
        {"path": folder, "kaos": "local", "last_session_id": None},
    ]
    make_private(path.parent)
    put_private(
        path, json.dumps({**listed, "work_dirs": folders}, ensure_ascii=False).encode()
    )
