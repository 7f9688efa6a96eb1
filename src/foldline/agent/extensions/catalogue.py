"""The skills, commands and agents available in a folder.

They come from a trusted project and from the user's own folders.
"""

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Final

from foldline.agent.project.discovery import (
    KINDS,
    Candidate,
    Extension,
    Kind,
    candidates,
)
from foldline.agent.project.trust import read_trusted
from foldline.history.paths import with_tilde
from foldline.text.harmless import with_signs

from .agent_files import parsed_agent
from .custom_commands import NAME, parsed_command
from .skills import parsed_skill

MOST_BYTES: Final = 64_000
"""Maximum size of one file, in bytes.

Larger files are ignored. The limit exists because a loaded file is part of every later request.
"""
IGNORED: Final = "{path} was ignored: {reason}."
BUILT_IN: Final = "/{name} is a built-in command"
SAME_NAME: Final = "{path} has the same name and comes first"
UNTYPABLE: Final = "its name cannot be typed after a /"
TOO_LARGE: Final = "it has more than {most:,} bytes"
NOT_APPROVED: Final = "new or changed: Foldline asks before using it"
"""Description of a file that the user has not agreed to."""
_PARSERS: Final[Mapping[Kind, Callable[[bytes, Sequence[str]], Extension]]] = {
    "skills": parsed_skill,
    "commands": parsed_command,
    "agents": parsed_agent,
}


@dataclass(frozen=True, slots=True)
class Catalogue:
    """Skills, commands and agents, nearest folder first."""

    by_name: Mapping[str, Extension] = field(default_factory=dict)
    """Skills and commands.

    Untrusted ones are included: a prompt that calls one asks the user first.
    """
    agents: Mapping[str, Extension] = field(default_factory=dict)
    """Agents for the `task` tool, by name."""
    left_aside: tuple[str, ...] = ()
    """Messages about ignored files."""

    @property
    def skills(self) -> dict[str, Extension]:
        """The trusted skills, by name."""
        skills = [item for item in self.by_name.values() if item.kind == "skills"]
        return {skill.name: skill for skill in skills if skill.is_trusted}


def shown_path(path: Path, top: Path | None, cwd: Path) -> str:
    """Return a path for display.

    A path in a project is relative to `cwd`. In paths of the user's own files (`top` is None), `~` replaces
    the home folder.
    """
    shown = with_tilde(str(path)) if top is None else os.path.relpath(path, cwd)
    return with_signs(os.fsencode(shown).decode("utf-8", "replace"))


def catalogue_of(cwd: Path, reserved: Collection[str] = ()) -> Catalogue:
    """Find all skills, commands and agents available in a folder.

    Blocking: do not call it on the event loop.

    Args:
        reserved: names of built-in commands.
    """
    by_name: dict[str, Extension] = {}
    agents: dict[str, Extension] = {}
    left_aside: list[str] = []
    for candidate in chain.from_iterable(candidates(kind, cwd) for kind in KINDS):
        shown = shown_path(candidate.path, candidate.top, cwd)
        try:
            extension = replace(_parsed(candidate), path=candidate.path, shown=shown)
            if extension.kind == "commands" and extension.name in reserved:
                raise ValueError(BUILT_IN.format(name=extension.name))
            _add(agents if extension.kind == "agents" else by_name, extension)
        except ValueError as reason:
            left_aside.append(IGNORED.format(path=shown, reason=reason))
    return Catalogue(by_name, agents, tuple(left_aside))


def _add(by_name: dict[str, Extension], extension: Extension) -> None:
    """Add an extension, unless an earlier trusted one has the same name.

    Raises:
        ValueError: the name is taken. The message is a clause that states the reason.
    """
    first = by_name.get(extension.name)
    if first is None or not first.is_trusted:
        by_name[extension.name] = extension
    elif extension.is_trusted:
        raise ValueError(SAME_NAME.format(path=first.shown))


def _parsed(candidate: Candidate) -> Extension:
    name = ":".join(candidate.parts)
    if not NAME.fullmatch(name):
        raise ValueError(UNTYPABLE)
    data = read_trusted(candidate.path, candidate.top, MOST_BYTES)
    if data is None:
        return Extension(candidate.kind, name, NOT_APPROVED, is_trusted=False)
    if len(data) > MOST_BYTES:
        raise ValueError(TOO_LARGE.format(most=MOST_BYTES))
    return _PARSERS[candidate.kind](data, candidate.parts)
