"""What the chat puts into the palette: its commands, and themes, models, settings and sessions by name."""

import asyncio
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from foldline.context.harmless import clean_line
from foldline.tui.keys.commands import BY_ID, COMMANDS
from foldline.tui.keys.table import active_tables
from foldline.tui.lists.picker import Choice
from foldline.tui.prompting.completion import arguments
from foldline.tui.screens.palette import Item, Source
from foldline.tui.widgets.status import HasStatusLine

if TYPE_CHECKING:
    from textual.screen import Screen

    from foldline.tui.app import FoldlineApp

_SESSIONS: Final = 50
"""Sessions of this folder that are offered, the newest."""


def run_in_chat(app: "FoldlineApp", command: str, argument: str = "") -> None:
    """Carry out a command of the chat from whatever screen; what it answers is seen there."""
    chat = app.chat

    def pass_on() -> None:
        if isinstance(app.screen, HasStatusLine) and chat.remarked:
            app.screen.tell(chat.remarked)

    chat.remark("")
    chat.run_command(command, argument)
    # What the program answers comes after the message that tells it of the command.
    chat.call_later(app.call_later, pass_on)


def chat_items(app: "FoldlineApp", below: "Screen[Any]") -> Iterator[Item]:
    """The commands that do something now, from the screen below the palette."""
    open_now = {active.name for active in active_tables(below)}
    for command in COMMANDS:
        offered = command.palette and command.place != "prompt"
        reaches = below is app.chat or command.slash or command.group == "Questions"
        if offered and command.works(app.chat.state) and reaches and command.id not in open_now:
            choice = Choice(command.binding_id, command.title, command.usage, " ".join(command.names[:1]))
            yield Item(choice, partial(run_in_chat, app, command.id))


def chat_sources(app: "FoldlineApp", root: Path) -> Sequence[Source]:
    """`root` is the folder whose sessions are offered."""
    return (
        partial(_named, app, "theme", "Theme"),
        partial(_named, app, "strategy", "Strategy"),
        partial(_named, app, "model", "Model"),
        partial(_settings, app),
        partial(_sessions, app, root),
    )


async def _named(app: "FoldlineApp", command: str, word: str) -> Sequence[Item]:
    """What may stand behind a slash command, where that does something now."""
    if not BY_ID[command].works(app.state):
        return ()
    known = await asyncio.to_thread(arguments, command, "", app)
    return [
        Item(
            Choice(f"{command}:{each.label}", f"{word}: {each.label}", each.note),
            partial(run_in_chat, app, command, each.label),
        )
        for each in known
    ]


async def _settings(app: "FoldlineApp") -> Sequence[Item]:
    from foldline.agent.settings_schema import KEYS

    items = []
    for key, field in KEYS.items():
        what = clean_line((field.description or "").partition(".")[0].replace("`", ""))
        choice = Choice(f"setting:{key}", f"Setting: {key}", what)
        items.append(Item(choice, partial(run_in_chat, app, "settings", key)))
    return items


async def _sessions(app: "FoldlineApp", root: Path) -> Sequence[Item]:
    from foldline.history import data_home, list_sessions

    infos = await asyncio.to_thread(list_sessions, data_home(), root)
    runner = app.runner
    here = None if runner is None else runner.agent.session.path
    return [
        Item(
            Choice(
                f"session:{info.id}",
                f"Session: {clean_line(info.meta.title or info.meta.first_prompt or 'not named yet')}",
                f"{info.meta.updated_at.astimezone():%Y-%m-%d %H:%M}",
            ),
            partial(run_in_chat, app, "sessions", str(info.path)),
        )
        for info in infos[:_SESSIONS]
        if info.readable and info.path != here
    ]
