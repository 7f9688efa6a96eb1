"""A session handed to another agent: what the model sees now, written where that agent looks for sessions.

Files and folders are called what the agents call their own (docs/decisions/0060-handoff.md).
"""

import json
import os
import re
import shlex
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, replace
from hashlib import md5
from importlib import import_module
from pathlib import Path

from foldline.context.numbers import many
from foldline.context.projection import project
from foldline.data import data_home
from foldline.files import put_private
from foldline.history import utc_now
from foldline.history.paths import write_new
from foldline.protocol import AssistantMessage, Entry, FoldlineError, ThinkingPart, system_words

from .base import object_in
from .export import Original, Writer, only_view
from .homes import place_of

RESUMED_BY: Mapping[str, tuple[str, str, str]] = {
    "claude-code": ("agent_sessions", "write_claude_code", "claude --resume {id}"),
    "codex": ("agent_sessions", "write_codex", "codex resume {id}"),
    "pi": ("pi", "write_pi", "pi --session {path}"),
    "kimi-cli": ("kimi", "write_kimi", "kimi --session {id}"),
    "opencode": ("agent_sessions", "write_opencode", "opencode import {path} && opencode --session {id}"),
}
"""By agent: the module below `writers`, the writer in it, and the command that resumes what it wrote."""


@dataclass(frozen=True, slots=True)
class Handoff:
    """A session that is ready to be written."""

    path: Path
    """Its main file."""
    files: Mapping[Path, bytes]
    command: str
    notes: tuple[str, ...]
    kimi_folder: str = ""
    """The folder that kimi-cli has to know before it finds a session there."""

    def write(self) -> None:
        """Raises FoldlineError where something is there already, or the disk refuses."""
        if self.kimi_folder:
            _make_known(self.path.parents[3] / "kimi.json", self.kimi_folder)
        for path, data in self.files.items():
            try:
                path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            except OSError as error:
                raise FoldlineError(f"{path.parent} cannot be made: {system_words(error)}.") from None
            write_new(path, data)


def handed_over(original: Original, agent: str, folder: str) -> Handoff:
    """The view of a session as a new one of this agent, to go on with in this folder."""
    now, name = utc_now(), str(uuid.uuid4())
    name = f"ses_{name.replace('-', '')[:26]}" if agent == "opencode" else name
    header = original.header.model_copy(update={"id": name, "cwd": folder, "created_at": now})
    module, writer, command = RESUMED_BY[agent]
    write: Writer = getattr(import_module(f".writers.{module}", __package__), writer)
    view, thoughts = _without_thinking(only_view(original, recalls=False))
    written = write(replace(view, header=header))
    left_out = [f"The thinking of {many(thoughts, 'answer is', 'answers are')} left out."] if thoughts else []
    path = _path(agent, folder, name)
    files = {path.with_name(file): data for file, data in written.files.items() if file != written.main}
    resume = command.format(id=name, path=shlex.quote(str(path)))
    if folder != str(Path.cwd()):
        resume = f"cd {shlex.quote(folder)} && {resume}"
    known = folder if agent == "kimi-cli" else ""
    return Handoff(path, {**files, path: written.data}, resume, (*left_out, *written.notes), known)


def _without_thinking(original: Original) -> tuple[Original, int]:
    """Only the model and the server that it came from could use it; and in how many answers there was any."""
    entries: list[Entry] = []
    for entry in original.entries:
        if isinstance(entry, AssistantMessage):
            said = tuple(part for part in entry.parts if not isinstance(part, ThinkingPart))
            entries.append(entry.model_copy(update={"parts": said}))
        else:
            entries.append(entry)
    thoughts = sum(one != other for one, other in zip(entries, original.entries, strict=True))
    return replace(original, entries=entries, projection=project(entries)), thoughts


def _path(agent: str, folder: str, name: str) -> Path:
    """Where this agent keeps a session of this folder and id."""
    place = place_of(agent)
    assert place is not None
    home, here = place.folders()[0], utc_now().astimezone()
    match agent:
        case "claude-code":
            return home / re.sub(r"[^a-zA-Z0-9]", "-", folder) / f"{name}.jsonl"
        case "codex":
            return home / f"{here:%Y/%m/%d}" / f"rollout-{here:%Y-%m-%dT%H-%M-%S}-{name}.jsonl"
        case "pi":
            file = f"{utc_now():%Y-%m-%dT%H-%M-%S-000Z}_{name}.jsonl"
            bucket = f"--{re.sub(r'[/:]', '-', folder.removeprefix('/'))}--"
            return (
                home / file
                if os.environ.get("PI_CODING_AGENT_SESSION_DIR", "").strip()
                else home / bucket / file
            )
        case "kimi-cli":
            return home / md5(folder.encode(), usedforsecurity=False).hexdigest() / name / "context.jsonl"
        case _:  # opencode's own store is a database that only it may write
            return data_home() / "handoffs" / f"{name}.json"


def _make_known(path: Path, folder: str) -> None:
    """Adds a working folder to those that kimi-cli knows: in another one it would empty the session."""
    known = object_in(path)
    if path.exists() and not known:
        raise FoldlineError(f"{path} cannot be read, and kimi-cli finds no session without it.")
    if any(each.text("path") == folder for each in known.objects("work_dirs")):
        return
    folders = [*known.array("work_dirs"), {"path": folder, "kaos": "local", "last_session_id": None}]
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    put_private(path, json.dumps({**known, "work_dirs": folders}, ensure_ascii=False).encode())
