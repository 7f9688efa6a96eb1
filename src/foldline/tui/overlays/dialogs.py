"""Dialogs over the chat.

Their screens are imported only when opened.
"""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from foldline.agent.extensions.mcp import ToolServers
    from foldline.frontend.runner import Runner
    from foldline.tui.base_app import BaseApp
    from foldline.tui.lists.screen import LeftOnce
    from foldline.tui.session_window import OpensScreens, SessionWindow

Result = TypeVar("Result")

CHOOSE_THEME = "Choose a theme"


def pick_theme(app: "BaseApp[Any]", picked: Callable[[str | None], None]) -> None:
    """Let the user pick a theme.

    The whole screen previews the theme that is selected in the list. `picked` is called with the chosen name,
    or None, after the previous theme has been restored.
    """
    from foldline.tui.lists.picker import Picker
    from foldline.tui.lists.rows import PickerItem
    from foldline.tui.look.themes import described

    before = app.theme
    faults = app.theme_faults()

    def show(name: str) -> None:
        app.theme = before if name in faults else name

    def back(name: str | None) -> None:
        app.theme = before
        picked(name)

    notes = {
        name: f"{app.theme_clash(name)} {note}".lstrip()
        for name, note in described(app.themes)
    } | faults
    choices = [PickerItem(name, name, note) for name, note in notes.items()]
    picker = Picker(CHOOSE_THEME, choices, marked=before, on_mark=show)
    picker.dims = False  # the screen behind the list previews the theme
    app.push_screen(picker, back)


def choose_argument(chat: "SessionWindow", runner: "Runner", command: str) -> None:
    """Let the user choose the argument of a command, and run the command with it.

    The list keeps the notes up to date.
    """
    from foldline.frontend.arguments import (
        NONE_FOUND,
        current_argument,
        known_arguments,
    )
    from foldline.frontend.commands import BY_ID
    from foldline.tui.lists.picker import Picker
    from foldline.tui.lists.rows import PickerItem

    def items() -> list[PickerItem]:
        rows = known_arguments(command, runner.agent.state)
        return [PickerItem(name, name, note) for name, note in rows]

    def chosen(name: str | None) -> None:
        if name:
            chat.run_command(command, name)

    if not items():
        chat.remark(NONE_FOUND)
        return
    marked = current_argument(command, runner.agent)
    picker = Picker(BY_ID[command].title, items(), marked=marked)
    chat.push_screen(picker, chosen)
    picker.set_interval(REFRESH_SECONDS, lambda: picker.offer(items()))


async def result_of(over: "OpensScreens", screen: "LeftOnce[Result]") -> Result | None:
    """Open a screen over another one, and wait for its result.

    If the caller is cancelled, the screen closes.
    """
    answer: asyncio.Future[Result | None] = asyncio.get_running_loop().create_future()

    def answered(result: Result | None) -> None:
        if not answer.done():
            answer.set_result(result)

    over.push_screen(screen, answered)
    try:
        return await answer
    finally:
        screen.dismiss()


async def confirmed(
    over: "OpensScreens", question: str, yes: str, note: str = ""
) -> bool:
    """Ask the user to confirm. "No" is selected at first.

    Args:
        yes: label of the answer that confirms.
        note: describes the consequences.
    """
    from foldline.tui.lists.picker import Picker
    from foldline.tui.lists.rows import PickerItem

    answers = (PickerItem("no", "No"), PickerItem("yes", yes, note))
    return await result_of(over, Picker(question, answers)) == "yes"


# --- tool servers -----------------------------------------------------------------------------------------

REFRESH_SECONDS = 0.25
"""Seconds between updates of an open list."""

NO_SERVER = (
    "No MCP server is configured: add [mcp.NAME] to config.toml (docs/extending.md)"
)
NO_SUCH_SERVER = "No MCP server named {name}. Available: {names}"
CONNECTING = "Connecting to {name} …"
RECONNECTED = "MCP server {name}: {state}"


def show_servers(chat: "SessionWindow", runner: "Runner", name: str) -> None:
    """List the tool servers, or reconnect the named server."""
    servers = runner.agent.state.tools.servers
    if servers is None:
        chat.remark(NO_SERVER)
        return
    names = [state.name for state in servers.states]
    if not name:
        choose_argument(chat, runner, "mcp")
    elif name in names:
        _connect(chat, servers, name)
    else:
        chat.remark(NO_SUCH_SERVER.format(name=name, names=", ".join(names)))


def _connect(chat: "SessionWindow", servers: "ToolServers", name: str) -> None:
    async def reconnect() -> str:
        return RECONNECTED.format(name=name, state=await servers.restart(name))

    chat.remark(CONNECTING.format(name=name))
    chat.report(reconnect(), f"mcp-{name}")
