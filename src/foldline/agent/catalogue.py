"""The skills and commands of a folder: its project's that were agreed to, and the user's own."""

import os
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from foldline.files import read_regular
from foldline.history.paths import with_tilde
from foldline.protocol import system_words

from .custom_commands import CustomCommand, parsed_command
from .discovery import KINDS, Candidate, candidates
from .skills import Skill, parsed_skill
from .trust import agreed_bytes

MOST_BYTES: Final = 64_000
"""Of one file: what is loaded stays in every request."""


@dataclass(frozen=True, slots=True)
class LeftAside:
    """A file that is there, and why it is not used."""

    shown: str
    why: str

    def __str__(self) -> str:
        return f"{self.shown} was left aside: {self.why}."


@dataclass(frozen=True, slots=True)
class Catalogue:
    """Skills and commands by name, nearest first."""

    skills: Mapping[str, Skill] = field(default_factory=dict)
    commands: Mapping[str, CustomCommand] = field(default_factory=dict)
    faults: tuple[LeftAside, ...] = ()
    undecided: frozenset[str] = frozenset()
    """Names of what nobody has agreed to, or that was declined."""

    def __contains__(self, name: object) -> bool:
        """Whether a prompt may call it: what nobody has decided on is asked about then."""
        return name in self.commands or name in self.skills or name in self.undecided


def catalogue_of(
    cwd: Path, environ: Mapping[str, str] = os.environ, reserved: Collection[str] = ()
) -> Catalogue:
    """All there is. Reads files: call it off the event loop.

    Args:
        reserved: names of commands that are the program's own.
    """
    skills: dict[str, Skill] = {}
    commands: dict[str, CustomCommand] = {}
    faults: list[LeftAside] = []
    undecided: set[str] = set()
    for kind in KINDS:
        for each in candidates(kind, cwd, environ):
            try:
                data = _read(each)
                if data is None:
                    undecided.add(":".join(each.parts))
                elif kind == "skills":
                    _add_skill(skills, each, data, _shown(each, cwd))
                else:
                    _add_command(commands, each, data, _shown(each, cwd), reserved)
            except (ValueError, OSError) as error:
                why = system_words(error) if isinstance(error, OSError) else str(error)
                faults.append(LeftAside(_shown(each, cwd), why))
    faults += _hidden(skills, commands)
    return Catalogue(skills, commands, tuple(faults), frozenset(undecided - set(reserved)))


def _add_skill(skills: dict[str, Skill], found: Candidate, data: bytes, shown: str) -> None:
    name, description, body, for_model = parsed_skill(data, found.path.parent.name)
    if name in skills:
        raise ValueError(f"{skills[name].shown} has the same name and is nearer")
    skills[name] = Skill(name, description, body, found.path, shown, for_model)


def _add_command(
    commands: dict[str, CustomCommand],
    found: Candidate,
    data: bytes,
    shown: str,
    reserved: Collection[str],
) -> None:
    name, description, hint, body = parsed_command(data, found.parts)
    if name in reserved:
        raise ValueError(f"/{name} is a command of Foldline's own")
    if name in commands:
        raise ValueError(f"{commands[name].shown} has the same name and is nearer")
    commands[name] = CustomCommand(name, description, hint, body, shown)


def _hidden(skills: Mapping[str, Skill], commands: dict[str, CustomCommand]) -> Iterator[LeftAside]:
    """Commands whose name is that of a skill: they are taken out."""
    for name in [name for name in commands if name in skills]:
        yield LeftAside(commands.pop(name).shown, f"/{name} is a skill, {skills[name].shown}")


def _read(found: Candidate) -> bytes | None:
    """The file's content; None where it is a project's that the user has not agreed to."""
    if found.leads_out:
        raise ValueError("it is a link that leads out of the project")
    data = read_regular(found.path, MOST_BYTES + 1) if found.top is None else agreed_bytes(found.path)
    if data is not None and len(data) > MOST_BYTES:
        raise ValueError(f"it has more than {MOST_BYTES:,} bytes")
    return data


def _shown(found: Candidate, cwd: Path) -> str:
    return with_tilde(str(found.path)) if found.top is None else os.path.relpath(found.path, cwd)
