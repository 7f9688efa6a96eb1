"""The skills and commands available in a folder: those of a trusted project, and the user's own."""

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from foldline.context.harmless import with_signs
from foldline.history.paths import with_tilde

from .agent_files import parsed_agent
from .custom_commands import NAME, parsed_command
from .discovery import KINDS, Candidate, Custom, Kind, candidates
from .skills import parsed_skill
from .trust import read_brought

MOST_BYTES: Final = 64_000
"""Of one file: what is loaded stays in every request."""
_PARSERS: Final[Mapping[Kind, Callable[[bytes, Sequence[str]], Custom]]] = {
    "skills": parsed_skill,
    "commands": parsed_command,
    "agents": parsed_agent,
}


@dataclass(frozen=True, slots=True)
class Catalogue:
    """Skills, commands and agents, nearest first."""

    by_name: Mapping[str, Custom] = field(default_factory=dict)
    """Skills and commands, with those that nobody has agreed to: a prompt that calls one is asked about."""
    agents: Mapping[str, Custom] = field(default_factory=dict)
    """Called by the tool `task` alone."""
    left_aside: tuple[str, ...] = ()
    """Files that are no use, and why, as sentences."""

    @property
    def skills(self) -> dict[str, Custom]:
        """Those that may be loaded, by name."""
        return {each.name: each for each in self.by_name.values() if each.kind == "skills" and each.counts}


def shown_path(path: Path, top: Path | None, cwd: Path) -> str:
    """A path for people: from the working folder where a project brings it (`top`), else from home."""
    shown = os.path.relpath(path, cwd) if top is not None else with_tilde(str(path))
    return with_signs(os.fsencode(shown).decode("utf-8", "replace"))


def catalogue_of(
    cwd: Path, environ: Mapping[str, str] = os.environ, reserved: Collection[str] = ()
) -> Catalogue:
    """All there is. Reads files: call it off the event loop.

    Args:
        reserved: names of commands that are the program's own.
    """
    found: dict[str, Custom] = {}
    agents: dict[str, Custom] = {}
    left_aside: list[str] = []
    for each in (each for kind in KINDS for each in candidates(kind, cwd, environ)):
        shown = shown_path(each.path, each.top, cwd)
        try:
            made = replace(_made(each), path=each.path, shown=shown)
            if made.kind == "commands" and made.name in reserved:
                raise ValueError(f"/{made.name} is a command of Foldline's own")
            named = agents if made.kind == "agents" else found
            before = named.get(made.name)
            if before is None or not before.counts:
                named[made.name] = made
            elif made.counts:
                raise ValueError(f"{before.shown} has the same name and comes first")
        except ValueError as why:
            left_aside.append(f"{shown} was left aside: {why}.")
    return Catalogue(found, agents, tuple(left_aside))


def _made(found: Candidate) -> Custom:
    name = ":".join(found.parts)
    if not NAME.fullmatch(name):
        raise ValueError("its name cannot be typed behind a /")
    data = read_brought(found.path, found.top, MOST_BYTES)
    if data is None:
        return Custom(found.kind, name, "new or changed: asks before it is used", counts=False)
    if len(data) > MOST_BYTES:
        raise ValueError(f"it has more than {MOST_BYTES:,} bytes")
    return _PARSERS[found.kind](data, found.parts)
