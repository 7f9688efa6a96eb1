"""`foldline config`: prints the active settings and their sources."""

import os
from pathlib import Path

from foldline.agent.project.trust import PROJECT_FILE, folder_files
from foldline.agent.session.trust_question import does, names
from foldline.agent.settings.descriptions import add_descriptions
from foldline.agent.settings.edit import shown, unset_words
from foldline.agent.settings.layers import config_file
from foldline.agent.settings.model_choice import ProviderSource, provider_source
from foldline.agent.settings.schema import AllSettings
from foldline.agent.settings.settings import DEFAULT
from foldline.protocol import FoldlineError

from .output import Cell, Column, Row, note, say_json, say_table
from .settings import settings_here


def config(as_json: bool, schema: bool) -> int:
    if schema:
        add_descriptions()
        say_json(AllSettings.model_json_schema())
        return 0
    settings = settings_here()
    settings.check_strategy()
    user_file = config_file(os.environ)
    cwd = Path.cwd()
    files = folder_files(cwd)
    unapproved = [file for file in files if not file.is_trusted]
    approved = [file for file in files if file.word == "agreed"]
    provider = None
    provider_sentence = NO_PROVIDER
    try:
        provider = provider_source(settings, os.environ)
        if provider:
            provider_sentence = f"Provider: {provider.sentence}."
    except FoldlineError as failure:
        provider_sentence = str(failure)
    if as_json:
        read_files = [
            file.path
            for file in files
            if file.is_trusted and file.path.name == PROJECT_FILE
        ]
        if user_file.is_file():
            read_files.insert(0, user_file)
        say_json(
            {
                "settings": {
                    key: {"value": value, "origin": settings.origin(key)}
                    for key, value in settings.values().items()
                },
                "asked": _provider_json(provider) if provider else None,
                "files": read_files,
                "left_aside": [file.path for file in unapproved],
            }
        )
        return 0
    rows = [
        _row(key, value, settings.origin(key))
        for key, value in settings.values().items()
    ]
    say_table((Column("setting"), Column("value"), Column("set by", grows=True)), rows)
    note(provider_sentence)
    for file in unapproved:
        note(f"{NOT_APPROVED}: {names([file], cwd)}: {does(file)}; {HOW_TO_APPROVE}.")
    if approved:
        note(APPROVED.format(names=names(approved, cwd)))
    if not user_file.is_file():
        note(NO_USER_FILE.format(file=user_file))
    return 0


NO_PROVIDER = "Provider: none. The built-in offline model is used."
NO_USER_FILE = "Your own settings go into {file}, which does not exist yet."
APPROVED = "You have approved {names}. To revoke this, use /approvals in the chat."
NOT_APPROVED = "Not used until you approve it"
HOW_TO_APPROVE = "approve it in the chat, or with `foldline run --trust`"


def _row(key: str, value: object, origin: str) -> Row:
    text = shown(value)
    if not text:
        return [key, Cell(unset_words(key), "muted"), Cell(origin, "muted")]
    return [
        key,
        Cell(text, None if origin == DEFAULT else "bold"),
        Cell(origin, "muted"),
    ]


def _provider_json(provider: ProviderSource) -> dict[str, str]:
    return {
        "provider": provider.provider.name,
        "title": provider.provider.title,
        "url": provider.url,
        "named_by": provider.named_by,
        "key_from": provider.key_from,
    }
