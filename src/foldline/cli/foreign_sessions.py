"""`foldline sessions --from AGENT`: lists another agent's sessions."""

import os
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from foldline.formats.detection import FOREIGN
from foldline.formats.homes import AGENT_FOLDERS, AGENTS, AgentFolders
from foldline.formats.session_list import FoundSession, found_sessions
from foldline.history import age, utc_now
from foldline.history.paths import with_tilde
from foldline.text.numbers import many

from .arguments import UsageError
from .output import (
    WIDE,
    Cell,
    Column,
    Row,
    note,
    say_json,
    say_table,
    shown_folder,
    title_cell,
    width,
    without_empty_columns,
)

ARCHIVED_AND_FROM = (
    "--archived only works for Foldline's own sessions. Leave out --from."
)
ONLY_ELSEWHERE = (
    "No sessions of {agents} in this folder. Use --all to list those of all folders."
)
NO_SUCH_AGENT = "Unknown agent {agent!r}. Available: {agents}, or {every}."
HOW_TO_USE = "Use `foldline open {ref}` to view one, or `foldline import {ref}` to copy and continue it."
COMPRESSED = "Not listed: {sessions} of {agent}, such as {example}. Use `zstd -d FILE` to decompress one."
NOT_FOUND = "No sessions of {agents} found in {folders}."
_EVERY_AGENT = "all"
_SHORTEST_ID = 8
"""Minimum number of characters of an id that are shown.

A prefix that ends in `_` does not count.
"""


def foreign_sessions(
    agent: str, everywhere: bool, archived: bool, limit: int | None, as_json: bool
) -> int:
    """List the sessions in another agent's usual folders."""
    if archived:
        raise UsageError(ARCHIVED_AND_FROM)
    if agent not in (*AGENTS, _EVERY_AGENT):
        raise UsageError(
            NO_SUCH_AGENT.format(
                agent=agent, agents=", ".join(AGENTS), every=_EVERY_AGENT
            )
        )
    places = [place for place in AGENT_FOLDERS if agent in (place.agent, _EVERY_AGENT)]
    sessions = found_sessions(
        [place.agent for place in places], None if everywhere else Path.cwd(), limit
    )
    if as_json:
        say_json([asdict(session) for session in sessions])
    elif sessions:
        _say_sessions(sessions, agents=agent == _EVERY_AGENT, folders=everywhere)
    _note_compressed(places)
    if not sessions:
        _note_none(places, everywhere)
    elif not as_json:
        ref = "AGENT:ID" if agent == _EVERY_AGENT else f"{agent}:ID"
        note(HOW_TO_USE.format(ref=ref))
    return 0


def _say_sessions(
    sessions: Sequence[FoundSession], *, agents: bool, folders: bool
) -> None:
    """Print the table of sessions. Columns for agent and folder are optional."""
    wide = width() >= WIDE
    now = utc_now().astimezone()
    ids = _shortened([session.id for session in sessions])
    path_cells = 36 if wide else 20
    columns = [
        Column("agent"),
        Column("id"),
        Column("written"),
        Column("model", most=24),
        Column("folder"),
        Column("title", grows=True),
    ]
    rows: list[Row] = [
        [
            session.agent if agents else "",
            ids[session.id],
            Cell(age(session.updated_at, now), "muted"),
            session.model if wide else "",
            shown_folder(session.cwd, path_cells) if folders else "",
            _found_title(session),
        ]
        for session in sessions
    ]
    say_table(*without_empty_columns(columns, rows))


def _found_title(session: FoundSession) -> Cell:
    damage = session.note.replace(str(session.path), "its file")
    return title_cell(session.title, damage, "(no prompt near the beginning)")


def _shortened(ids: Sequence[str]) -> dict[str, str]:
    """Map each id to its shortest unique prefix."""
    for size in range(_SHORTEST_ID, max(map(len, ids))):
        shown = {id: id[: id.rfind("_") + 1 + size] for id in ids}
        if len(set(shown.values())) == len(shown):
            return shown
    return {id: id for id in ids}


def _note_compressed(places: Sequence[AgentFolders]) -> None:
    for place in places:
        if packed := place.packed_files():
            example = with_tilde(os.fspath(packed[-1]))
            count = many(len(packed), "compressed session")
            note(
                COMPRESSED.format(
                    sessions=count, agent=_title_of(place), example=example
                )
            )


def _note_none(places: Sequence[AgentFolders], everywhere: bool) -> None:
    names = _enumerated([_title_of(place) for place in places])
    if not everywhere and any(place.ids() for place in places):
        note(ONLY_ELSEWHERE.format(agents=names))
        return
    folders = [
        with_tilde(os.fspath(folder)) for place in places for folder in place.folders()
    ]
    note(NOT_FOUND.format(agents=names, folders=_enumerated(folders)))


def _title_of(place: AgentFolders) -> str:
    return next(agent.title for agent in FOREIGN if agent.name == place.agent)


def _enumerated(items: Sequence[str]) -> str:
    *others, last = items
    return f"{', '.join(others)} or {last}" if others else last
