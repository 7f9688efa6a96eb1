"""`foldline sessions --from AGENT`: what lies in the usual folders of another agent."""

import os
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Final

from foldline.formats.detection import FOREIGN
from foldline.formats.homes import AGENT_FOLDERS, AGENTS, AgentFolders
from foldline.formats.session_list import FoundSession, found_sessions
from foldline.history import age, utc_now
from foldline.history.paths import with_tilde

from .arguments import UsageError
from .output import (
    WIDE,
    Cell,
    Column,
    Field,
    note,
    say_json,
    say_table,
    shown_folder,
    sized_cell,
    table_of,
    width,
)

_EVERY_AGENT: Final = "all"
_SHORTEST_ID: Final = 8
"""Characters of an id that are shown, where they tell the sessions of the list apart. What ids begin with
up to a `_` does not count."""


def foreign_sessions(agent: str, everywhere: bool, archived: bool, limit: int | None, as_json: bool) -> int:
    """Lists what lies in the usual folders of another agent."""
    if archived:
        raise UsageError("--archived is about Foldline's own sessions: it does not go with --from.")
    if agent not in (*AGENTS, _EVERY_AGENT):
        raise UsageError(
            f"There is no agent {agent!r} to list sessions of: {', '.join(AGENTS)}, or {_EVERY_AGENT}."
        )
    places = [place for place in AGENT_FOLDERS if agent in (place.agent, _EVERY_AGENT)]
    found = found_sessions([place.agent for place in places], None if everywhere else Path.cwd(), limit)
    if as_json:
        say_json([asdict(session) for session in found])
    elif found:
        _say_found(found, agents=agent == _EVERY_AGENT, folders=everywhere)
    _say_what_is_not_listed(places, bool(found), everywhere)
    if found and not as_json:
        ref = "AGENT:ID" if agent == _EVERY_AGENT else f"{agent}:ID"
        note(f"`foldline open {ref}` looks at one; `foldline import {ref}` copies it, to continue it.")
    return 0


def _say_found(found: Sequence[FoundSession], *, agents: bool, folders: bool) -> None:
    """The table; `agents` and `folders`: whether it is of several."""
    wide = width() >= WIDE
    now = utc_now().astimezone()
    ids = _shortened([session.id for session in found])
    fields: list[Field[FoundSession]] = [
        (agents, Column("agent"), lambda session: session.agent),
        (True, Column("id"), lambda session: ids[session.id]),
        (True, Column("written"), lambda session: Cell(age(session.updated_at, now), "muted")),
        (wide or not folders, Column("size", right=True), lambda session: sized_cell(session.size)),
        (wide, Column("model", most=24), lambda session: session.model),
        (folders, Column("folder"), lambda session: shown_folder(session.cwd, 36 if wide else 20)),
        (True, Column("title", grows=True), _found_title),
    ]
    say_table(*table_of(fields, found))


def _found_title(session: FoundSession) -> Cell:
    wrong = session.note.replace(str(session.path), "its file")
    if session.title:
        return Cell(f"{session.title} · {wrong}" if wrong else session.title)
    return Cell(wrong, "alert") if wrong else Cell("(nothing typed near its beginning)", "muted")


def _shortened(ids: Sequence[str]) -> dict[str, str]:
    """Return the beginning of each id, as long as it takes to tell them apart."""
    for size in range(_SHORTEST_ID, max(map(len, ids))):
        shown = {one: one[: one.rfind("_") + 1 + size] for one in ids}
        if len(set(shown.values())) == len(shown):
            return shown
    return {one: one for one in ids}


def _say_what_is_not_listed(places: Sequence[AgentFolders], found: bool, everywhere: bool) -> None:
    for place in places:
        if packed := place.packed_files():
            where = with_tilde(os.fspath(packed[-1]))
            note(
                f"Compressed sessions of {_title_of(place)}, not listed: {len(packed)}, such as {where}. "
                "`zstd -d FILE` makes one that Foldline reads."
            )
    if found:
        return
    names = _words([_title_of(place) for place in places], "or")
    if not everywhere and any(place.ids() for place in places):
        note(f"No sessions of {names} in this folder; with --all, those of all folders are listed.")
        return
    looked = [with_tilde(os.fspath(folder)) for place in places for folder in place.folders()]
    note(f"No sessions of {names}: looked in {_words(looked, 'and')}.")


def _title_of(place: AgentFolders) -> str:
    return next(known.title for known in FOREIGN if known.name == place.agent)


def _words(items: Sequence[str], between: str) -> str:
    *others, last = items
    return f"{', '.join(others)} {between} {last}" if others else last
