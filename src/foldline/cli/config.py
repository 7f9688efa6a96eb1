"""`foldline config`: the settings in force, and where each was set."""

import os
from pathlib import Path

from foldline.agent.layers import config_file
from foldline.agent.model_choice import Asked, asked_now
from foldline.agent.settings import DEFAULT
from foldline.agent.settings_edit import shown, unset_words
from foldline.agent.settings_schema import AllSettings
from foldline.agent.trust import PROJECT_FILE, brought
from foldline.agent.trust_question import does, names
from foldline.protocol import FoldlineError

from .output import Cell, Column, Row, Style, note, say_json, say_table
from .settings import settings_here


def config(as_json: bool, schema: bool) -> int:
    if schema:
        say_json(AllSettings.model_json_schema())
        return 0
    settings = settings_here()
    settings.check_strategy()
    own, cwd = config_file(os.environ), Path.cwd()
    files = brought(cwd)
    left_aside = [each for each in files if not each.counts]
    agreed = [each for each in files if each.word == "agreed"]
    asked, trouble = None, ""
    try:
        asked = asked_now(settings, os.environ)
    except FoldlineError as failure:
        trouble = str(failure)
    if as_json:
        say_json(
            {
                "settings": {
                    key: {"value": value, "origin": settings.origin(key)}
                    for key, value in settings.values().items()
                },
                "asked": _asked_json(asked) if asked else None,
                "files": [
                    *([str(own)] if own.is_file() else []),
                    *(str(each.path) for each in files if each.counts and each.path.name == PROJECT_FILE),
                ],
                "left_aside": [str(each.path) for each in left_aside],
            }
        )
        return 0
    rows: list[Row] = []
    for key, value in settings.values().items():
        origin = settings.origin(key)
        given = shown(value)
        style: Style | None = "muted" if not given else None if origin == DEFAULT else "bold"
        rows.append([key, Cell(given or unset_words(key), style), Cell(origin, "muted")])
    say_table((Column("setting"), Column("value"), Column("set by", grows=True)), rows)
    note(trouble or (f"Asked: {asked.sentence}." if asked else "Asked: the embedded model, offline."))
    for each in left_aside:
        note(f"Left aside: {names([each], cwd)}: {does(each)}. The chat asks, `foldline run --trust` agrees.")
    if agreed:
        note(f"You agreed to {names(agreed, cwd)}; /approvals in the chat takes that back.")
    if not own.is_file():
        note(f"{own} is where your own settings go; it does not exist yet.")
    return 0


def _asked_json(asked: Asked) -> dict[str, str]:
    return {
        "provider": asked.provider.name,
        "title": asked.provider.title,
        "url": asked.url,
        "named_by": asked.named_by,
        "key_from": asked.key_from,
    }
