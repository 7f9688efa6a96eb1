"""`foldline sessions --from AGENT`: what lies in the usual folders of another agent."""

import os
from collections.abc import Sequence
from pathlib import Path

from foldline.formats.detection import FOREIGN
from foldline.formats.homes import AGENTS, PLACES, FoundSession, Place, found_sessions
from foldline.history import age, utc_now
from foldline.history.paths import with_tilde

from .arguments import UsageError
from .folders import shown_folder
from .output import Cell, Column, note, say_json, say_table, width

EVERY_AGENT = "all"
_WIDE = 100
"""Columns of the terminal from which a table has room for models and long names of folders."""
_SHORTEST = 8
"""Characters of an id that are shown, where they tell the sessions of the list apart. What ids begin with
up to a `_` does not count."""


def run(agent: str, everywhere: bool, archived: bool, limit: int | None, as_json: bool) -> int:
    if archived:
        raise UsageError("--archived is about Foldline's own sessions: it does not go with --from.")
    if agent not in (*AGENTS, EVERY_AGENT):
        raise UsageError(
            f"There is no agent {agent!r} to list sessions of: {', '.join(AGENTS)}, or {EVERY_AGENT}."
        )
    places = [place for place in PLACES if agent in (place.agent, EVERY_AGENT)]
    found = found_sessions([place.agent for place in places], None if everywhere else Path.cwd(), limit)
    if as_json:
        say_json([_json(session) for session in found])
    elif found:
        _say(found, agents=agent == EVERY_AGENT, folders=everywhere)
    _say_what_is_not_there(places, bool(found), everywhere)
    if found and not as_json:
        ref = "AGENT:ID" if agent == EVERY_AGENT else f"{agent}:ID"
        note(f"`foldline open {ref}` looks at one; `foldline import {ref}` copies it, to go on with it.")
    return 0


def _json(session: FoundSession) -> dict[str, object]:
    return {
        "id": session.id,
        "agent": session.agent,
        "title": session.title,
        "cwd": session.cwd,
        "path": str(session.path),
        "size": session.size,
        "updated_at": session.updated_at.isoformat(),
        "first_prompt": session.first_prompt,
        "model": session.model,
        "note": session.note,
    }


def _say(found: Sequence[FoundSession], *, agents: bool, folders: bool) -> None:
    """The table; `agents` and `folders`: whether it is of several."""
    from foldline.agent.tools.text import sized  # the tools come along: no need of them for JSON

    wide = width() >= _WIDE
    columns = [
        *([Column("agent")] if agents else []),
        Column("id"),
        Column("written"),
        *([Column("size", right=True)] if wide or not folders else []),
        *([Column("model", most=24)] if wide else []),
        *([Column("folder")] if folders else []),
        Column("title", grows=True),
    ]
    now = utc_now().astimezone()
    rows: list[list[Cell | str]] = [
        [
            *([session.agent] if agents else []),
            shown_id,
            Cell(age(session.updated_at, now), "muted"),
            *([sized(session.size) if session.size else ""] if wide or not folders else []),
            *([session.model] if wide else []),
            *([shown_folder(session.cwd, 36 if wide else 20)] if folders else []),
            _title(session),
        ]
        for session, shown_id in zip(found, _ids([session.id for session in found]), strict=True)
    ]
    say_table(columns, rows)


def _title(session: FoundSession) -> Cell:
    wrong = session.note.replace(str(session.path), "its file")
    if session.title:
        return Cell(f"{session.title} · {wrong}" if wrong else session.title)
    return Cell(wrong, "alert") if wrong else Cell("(nothing typed near its beginning)", "muted")


def _ids(ids: Sequence[str]) -> list[str]:
    """Beginnings of ids, as long as it takes to tell them apart."""
    for size in range(_SHORTEST, max(map(len, ids))):
        shown = [one[: one.rfind("_") + 1 + size] for one in ids]
        if len(set(shown)) == len(set(ids)):
            return shown
    return list(ids)


# --- what is not there ------------------------------------------------------------------------------


def _say_what_is_not_there(places: Sequence[Place], found: bool, everywhere: bool) -> None:
    for place in places:
        if sentence := _unlisted(place):
            note(sentence)
    if found:
        return
    names = _words([_title_of(place) for place in places], "or")
    if not everywhere and any(place.ids() for place in places):
        note(f"No sessions of {names} in this folder; with --all, those of all folders are listed.")
        return
    looked = [with_tilde(os.fspath(folder)) for place in places for folder in place.folders()]
    note(f"No sessions of {names}: looked in {_words(looked, 'and')}.")


def _unlisted(place: Place) -> str:
    """What to do about sessions that are there and cannot be listed; empty where there are none."""
    packed = place.packed_files()
    if packed:
        where = with_tilde(os.fspath(packed[-1]))
        return (
            f"Compressed sessions of {_title_of(place)}, not listed: {len(packed)}, such as {where}. "
            "`zstd -d FILE` makes one that Foldline reads."
        )
    return ""


def _title_of(place: Place) -> str:
    return next(known.title for known in FOREIGN if known.name == place.agent)


def _words(items: Sequence[str], between: str) -> str:
    *others, last = items
    return f"{', '.join(others)} {between} {last}" if others else last
