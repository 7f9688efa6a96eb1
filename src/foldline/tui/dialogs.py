"""The screens that open over the chat for a moment. Each is imported when it is opened, not before."""

import asyncio
import os
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from textual.app import App, SuspendNotSupported

if TYPE_CHECKING:
    from foldline.agent.mcp import ToolServers
    from foldline.tui.app import FoldlineApp
    from foldline.tui.base_app import BaseApp
    from foldline.tui.chat import ChatScreen
    from foldline.tui.open_session import OpenSession
    from foldline.tui.runner import Runner

Remark = Callable[[str], None]


def open_help(app: App[Any]) -> None:
    """What the keys of the screen in front mean, and all commands."""
    app.call_later(app.run_action, "app.everywhere('help')")


def open_palette(app: App[Any]) -> None:
    """Everything that can be done now."""
    app.call_later(app.run_action, "app.everywhere('palette')")


def change_theme(app: "BaseApp[Any]", name: str, remark: Remark) -> None:
    """Take the theme of that name, as its file is now, and keep it for the next start; without a name, let
    the reader pick one."""
    from foldline.tui.themes import own_themes

    names = own_themes(app.themes)
    if name in (faults := app.theme_faults()):
        remark(faults[name])
    elif name in names:
        app.use_theme(name)
        app.run_worker(_keep_theme(name, app.theme_clash(name), remark), group="theme")
    elif name:
        remark(f"There is no theme {name}; there are {', '.join(names)}")
    else:
        pick_theme(app, lambda picked: change_theme(app, picked, remark) if picked else None)


async def _keep_theme(name: str, clash: str, remark: Remark) -> None:
    from foldline.agent.layers import config_file
    from foldline.agent.model_choice import changed_config
    from foldline.history.paths import with_tilde
    from foldline.protocol import FoldlineError

    def keep() -> None:
        with changed_config(os.environ) as document:
            document["theme"] = name

    try:
        await asyncio.to_thread(keep)
    except FoldlineError as failure:
        remark(f"Theme {name}, until Foldline ends: {failure}")
    else:
        kept = f"Theme {name}, kept in {with_tilde(str(config_file(os.environ)))}"
        remark(f"{kept}. {clash}" if clash else kept)


def pick_theme(app: "BaseApp[Any]", picked: Callable[[str | None], None]) -> None:
    """Moving through the list shows each theme; then it is as before, until what was picked is in use."""
    from foldline.tui.lists.picker import Choice, Picker
    from foldline.tui.themes import described

    before, faults = app.theme, app.theme_faults()

    def show(name: str) -> None:
        app.theme = before if name in faults else name

    def back(name: str | None) -> None:
        app.theme = before
        picked(name)

    notes = {
        name: f"{app.theme_clash(name)} {note}".lstrip() for name, note in described(app.themes)
    } | faults
    choices = [Choice(name, name, note) for name, note in notes.items()]
    picker = Picker("Choose a theme", choices, marked=before, on_mark=show, notes_in_full=True)
    picker.dims = False  # what is behind shows the theme
    app.push_screen(picker, back)


def switch_strategy(chat: "OpenSession", runner: "Runner", name: str) -> None:
    """Switch to the strategy of that name; without one, let the reader pick one."""
    from foldline.compaction import strategy_name
    from foldline.protocol.operations import SwitchStrategy
    from foldline.tui.lists.picker import Choice, Picker
    from foldline.tui.prompting.completion import arguments

    def switch(name: str | None) -> None:
        if name:
            runner.submit(SwitchStrategy(strategy=name))

    if name:
        switch(name)
        return
    choices = [Choice(each.label, each.label, each.note) for each in arguments("strategy", "", chat.program)]
    now = strategy_name(runner.agent.state.strategy)
    chat.push_screen(Picker("Choose a strategy", choices, marked=now, notes_in_full=True), switch)


def edited(app: App[Any], text: str, remark: Remark) -> str | None:
    """The text after the reader's own editor; None, with a remark, where that did not work."""
    from foldline.tui.terminal.clipboard import edit_text

    try:
        with app.suspend():
            return edit_text(text)
    except SuspendNotSupported:
        remark("This terminal cannot be lent to an editor")
    except (OSError, ValueError) as error:
        remark(f"The editor did not work: {error}; the text is as it was")
    return None


async def confirmed(chat: "ChatScreen", question: str, yes: str, note: str) -> bool:
    """Whether the user agrees. `yes` does it, `note` says what comes of it; what loses nothing is marked."""
    from foldline.tui.lists.picker import Choice, Picker

    answer: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()

    def answered(choice: str | None) -> None:
        if not answer.done():
            answer.set_result(choice)

    picker = Picker(question, [Choice("no", "No"), Choice("yes", yes, note)], notes_in_full=True)
    chat.push_screen(picker, answered)
    try:
        return await answer == "yes"
    finally:
        picker.dismiss()


# --- open sessions ----------------------------------------------------------------------------------------

_EVERY = 0.25
"""Seconds between two looks at what a list shows, while it is open."""
_OPEN_SESSIONS = "open-sessions"
_BESIDE = ("new", "sessions")
"""Commands that open a session beside those that are."""


def pick_session(app: "FoldlineApp", before: "OpenSession") -> None:
    """The list of the open sessions, the one shown `before` marked. Where it is open, mark the next one."""
    from foldline.tui.keys.commands import BY_ID
    from foldline.tui.lists.picker import Choice, Picker

    if isinstance(app.screen, Picker) and app.screen.id == _OPEN_SESSIONS:
        app.screen.do("down")
        return

    def choices() -> Iterator[Choice]:
        for session in app.sessions:
            how = session.tab.state or ("on the screen" if session.tab.shown else "at rest")
            yield Choice(session.mode, session.tab.title, f"{how} · {session.presenter.state.workdir}")
        yield from (Choice(each, BY_ID[each].title, BY_ID[each].usage) for each in _BESIDE)

    def named(choice: str | None) -> "OpenSession | None":
        return next((session for session in app.sessions if session.mode == choice), None)

    def chosen(choice: str | None) -> None:
        if choice in _BESIDE:
            app.chat.run_command(choice)
        elif session := named(choice):
            app.show_session(session)

    def end(choice: str) -> None:
        if session := named(choice):
            picker.dismiss(None)
            app.call_later(app.ask_to_close, session)

    picker = Picker(
        "Open sessions", [*choices()], marked=before.mode, on_end=end if len(app.sessions) > 1 else None
    )
    picker.id = _OPEN_SESSIONS
    app.chat.push_screen(picker, chosen)
    picker.set_interval(_EVERY, lambda: picker.offer(choices()))


# --- tool servers -----------------------------------------------------------------------------------------

_NONE = "No MCP server is set up: [mcp.NAME] in config.toml does it (docs/mcp.md)"


def show_servers(chat: "OpenSession", runner: "Runner", name: str) -> None:
    """Say how it is with the tool servers; or connect one anew."""
    servers = runner.agent.state.servers
    if servers is None:
        chat.remark(_NONE)
    elif not name:
        _pick(chat, servers)
    elif name in (names := [state.name for state in servers.states]):
        _connect(chat, servers, name)
    else:
        chat.remark(f"There is no MCP server {name}. There are: {', '.join(names)}")


def _pick(chat: "OpenSession", servers: "ToolServers") -> None:
    """The list says how it is with each now, for as long as it is open."""
    from foldline.history.paths import with_tilde
    from foldline.tui.keys.table import name_of
    from foldline.tui.lists.picker import KEYS, Choice, Picker

    def choices() -> list[Choice]:
        return [
            Choice(each.name, each.name, f"{each}{f', {with_tilde(str(each.log))}' if each.trouble else ''}")
            for each in servers.states
        ]

    def chosen(name: str | None) -> None:
        if name is not None:
            _connect(chat, servers, name)

    picker = Picker(f"MCP servers: {name_of(KEYS, 'take')} reconnect", choices(), notes_in_full=True)
    chat.push_screen(picker, chosen)
    picker.set_interval(_EVERY, lambda: picker.offer(choices()))


def _connect(chat: "OpenSession", servers: "ToolServers", name: str) -> None:
    async def again() -> str:
        return f"MCP server {name}: {await servers.restart(name)}"

    chat.remark(f"Connecting to {name} …")
    chat.report(again(), f"mcp-{name}")


# --- skills -----------------------------------------------------------------------------------------------

_NO_SKILLS = "There are no skills here: see docs/skills.md"


def show_skills(chat: "OpenSession", runner: "Runner", argument: str) -> None:
    """Load the skill that is named, or unload it; without a name, let the user choose."""
    from foldline.agent.skill_loading import skill_rows
    from foldline.protocol.operations import LoadSkill
    from foldline.tui.lists.picker import Choice, Picker

    if argument:
        runner.submit(LoadSkill(asked=argument))
        return
    rows = [Choice(each, each, note) for each, note in skill_rows(runner.agent.state)]
    if not rows:
        chat.remark(_NO_SKILLS)
        return
    picker = Picker("Load a skill, or unload it", rows, notes_in_full=True)
    chat.push_screen(picker, lambda chosen: show_skills(chat, runner, chosen) if chosen else None)
