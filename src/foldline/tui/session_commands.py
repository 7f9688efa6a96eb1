"""The commands on sessions: this one copied, exported, renamed; another one found, resumed, begun."""

import asyncio
import os
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from textual.app import App

from foldline.agent import Agent
from foldline.agent.rewind import diffs_since
from foldline.compaction import load_prompt
from foldline.context.outline import MessageOutline
from foldline.history import Session, data_home, short_id, utc_now
from foldline.history.follower import Follower
from foldline.history.paths import with_tilde
from foldline.protocol import AssistantMessage, FoldlineError, Title
from foldline.tui.runner import Runner
from foldline.tui.screens.diff import DiffScreen
from foldline.tui.screens.jobs import OutputScreen
from foldline.tui.screens.sessions import SessionsScreen
from foldline.tui.screens.sessions_list import Listed, export_session, fork_session, kept_title
from foldline.tui.session_facts import cost_lines, status_lines
from foldline.tui.terminal import clipboard

if TYPE_CHECKING:
    from foldline.tui.app import FoldlineApp
    from foldline.tui.inspector.app import Followed

Commands = dict[str, Callable[[Runner, str], None]]


def session_commands(
    app: "FoldlineApp", root: Path, where: Callable[[], str], go_on_with: Callable[[str], None]
) -> Commands:
    """`where` says what stands before a screen's name; `go_on_with` leaves this chat for the session in an
    event file, or for a new one where that is empty."""
    commands = _SessionCommands(app, root, where, go_on_with)
    return {
        "sessions": lambda runner, path: commands.resume(path) if path else commands.open(runner, None),
        "search": commands.open,
        "rename": commands.rename,
        "fork": lambda runner, _: commands.fork(runner),
        "new": lambda _, __: commands.begin(),
        "copy": lambda runner, _: commands.copy_answer(runner),
        "export": commands.export,
        "init": lambda runner, _: runner.send(load_prompt("init")),
        "cost": commands.page("Cost of this session", cost_lines),
        "status": commands.page("Status", status_lines),
        "diff": lambda runner, _: commands.show_diffs(runner),
    }


@dataclass(frozen=True, slots=True)
class _SessionCommands:
    _app: "FoldlineApp"
    _root: Path
    _where: Callable[[], str]
    _go_on_with: Callable[[str], None]

    def open(self, runner: Runner, query: str | None) -> None:
        """Show the sessions; with a query, even an empty one, the search line has the focus."""
        screen = SessionsScreen(
            self._where(),
            home=data_home(),
            root=self._root,
            here=_kept_in(runner),
            now=lambda: utc_now().astimezone(),
            query=query,
            lost=self._lost,
            read=lambda listed, index: read_along(self._app, listed, index),
            retitle=lambda title: _retitle(runner, title),
        )
        self._app.push_screen(screen, self._go)

    def resume(self, path: str) -> None:
        """Resume the session in this event file, unless something running here would end."""
        if lost := self._lost():
            self._app.chat.remark(f"Not opened. {lost} /sessions opens it all the same")
        else:
            self._go_on_with(path)

    def begin(self) -> None:
        """Begin a session in this folder, unless something running here would end."""
        if lost := self._lost():
            self._app.chat.remark(f"No new session yet. {lost}")
        else:
            self._go_on_with("")

    def copy_answer(self, runner: Runner) -> None:
        """Put the newest answer that says something into the clipboard."""
        projection = runner.agent.session.projection
        said = (
            outline.index
            for outline in reversed(projection.entries.outlines)
            if isinstance(outline, MessageOutline) and outline.type == "assistant" and outline.in_words
        )
        answer = next(map(projection.entry, said), None)
        if not isinstance(answer, AssistantMessage):
            self._app.chat.remark("There is no answer yet")
            return
        doubt = clipboard.copy(self._app, answer.text)
        self._app.chat.remark(" · ".join(filter(None, ("Copied the last answer", doubt))))

    def export(self, runner: Runner, argument: str) -> None:
        """Write this session to a new file, in a format and at a path where they are given."""
        path = _kept_in(runner)
        if path is None:
            self._app.chat.remark("Nothing has been said here yet: there is nothing to export")
        else:
            self._app.run_worker(self._exported(path, argument), group="export", exclusive=True)

    async def _exported(self, path: Path, argument: str) -> None:
        self._app.chat.remark("Writing the session …")
        try:
            written, notes = await asyncio.to_thread(export_session, path, argument, self._root)
        except FoldlineError as failure:
            self._app.chat.remark(str(failure).replace(f"{self._root}{os.sep}", ""))
        else:
            shown = written.name if written.parent == self._root else with_tilde(str(written))
            self._app.chat.remark(" ".join((f"Written to {shown}.", *notes)))

    def page(
        self, title: str, lines: Callable[[Agent], Awaitable[list[str]]]
    ) -> Callable[[Runner, str], None]:
        """A command that shows these lines on a page."""

        async def show(agent: Agent) -> None:
            text = "\n".join(await lines(agent))
            self._app.push_screen(OutputScreen(title, lambda: text))

        return lambda runner, _: self._in_background(show(runner.agent))

    def show_diffs(self, runner: Runner) -> None:
        """Show what became of the files of this session."""

        async def show() -> None:
            files = await diffs_since(runner.agent.state)
            self._app.push_screen(DiffScreen("Changed since the session began", files))

        self._in_background(show())

    def _in_background(self, work: Coroutine[Any, Any, None]) -> None:
        self._app.run_worker(work, group="page", exclusive=True)

    def _go(self, chosen: Path | None) -> None:
        if chosen is not None:
            self._go_on_with(str(chosen))

    def _lost(self) -> str:
        """What leaving this chat ends, as sentences; empty where it ends nothing."""
        state = self._app.state
        waits = bool(state.waiting.count or self._app.chat.prompt.editor.text.strip())
        kept = self._app.runner is not None and _kept_in(self._app.runner) is not None
        sentences = [
            "What runs is cancelled." if state.busy else "",
            "The text in the prompt goes." if waits and not kept else "",
            "What waits to be sent is there next time." if waits and kept and state.busy else "",
        ]
        return " ".join(filter(None, sentences))

    def rename(self, runner: Runner, title: str) -> None:
        """Give this session another title; without one, say which it has."""
        kept = kept_title(title)
        if kept:
            self._app.run_worker(self._renamed(runner, kept), group="rename", exclusive=True)
        else:
            now = runner.agent.session.meta().title or "not named yet"
            self._app.chat.remark(f"Now: {now}. /rename TITLE gives it another title")

    async def _renamed(self, runner: Runner, title: str) -> None:
        try:
            await _retitle(runner, title)
        except FoldlineError as failure:
            self._app.chat.remark(str(failure))
        else:
            self._app.chat.remark(f"This session is called “{title}” now")

    def fork(self, runner: Runner) -> None:
        """Continue in a copy of this session, from here; the session itself stays as it is."""
        path, lost = _kept_in(runner), self._lost()
        if path is None:
            self._app.chat.remark("Nothing has been said here yet: there is nothing to fork")
        elif lost:
            self._app.chat.remark(f"Not forked. {lost}")
        else:
            self._app.run_worker(self._forked(path), group="fork", exclusive=True)

    async def _forked(self, path: Path) -> None:
        self._app.chat.remark("Copying this session …")
        try:
            copy = await asyncio.to_thread(fork_session, path, data_home(), self._root)
        except FoldlineError as failure:
            self._app.chat.remark(str(failure))
        else:
            self._go_on_with(str(copy))


def _kept_in(runner: Runner) -> Path | None:
    """The event file of this session; None where nothing was said in it yet."""
    path = runner.agent.session.path
    return path if path is not None and path.exists() else None


async def _retitle(runner: Runner, title: str) -> None:
    session = runner.agent.session
    await session.append(Title(title=title), durable=True)
    session.save_meta()


async def read_along(app: App[Any], row: Listed, index: int | None) -> None:
    """Open the Inspector on a session, at an entry where one is given.

    Raises:
        FoldlineError: it cannot be read.
    """
    from foldline.tui.inspector import InspectorPanels, InspectorScreen
    from foldline.tui.inspector.app import EVERY, Following

    followed = await asyncio.to_thread(_followed, row)
    session = followed.session
    panels = InspectorPanels(session.projection, cwd=session.header.cwd)
    screen = InspectorScreen(panels, row.title or short_id(row.id))
    await app.push_screen(screen)
    following = Following(followed, screen)
    following.begin()
    screen.run_worker(following.run(EVERY), group="follow")
    if index is not None:
        screen.call_after_refresh(panels.reveal, index)


def _followed(row: Listed) -> "Followed[Any]":
    if row.ours:
        return Follower(row.path)
    # Here, in a thread: nobody waits for it before the screen is open.
    from foldline.formats import read_foreign
    from foldline.formats.reader import Rereader

    found = read_foreign(row.path, row.agent)
    session = Session.from_entries(found.header, found.entries, damage=found.damage)
    return Rereader(row.path, found.format, session)
