"""The commands on sessions: this one copied, exported, renamed; another one found, resumed, begun."""

import asyncio
import os
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from foldline.agent import Agent
from foldline.agent.rewind import diffs_since
from foldline.compaction import load_prompt
from foldline.context.outline import MessageOutline
from foldline.history import data_home, short_id, utc_now
from foldline.history.follower import Follower
from foldline.history.paths import with_tilde
from foldline.protocol import AssistantMessage, FoldlineError, Title
from foldline.tui.runner import Commands, Runner
from foldline.tui.screens.diff import DiffScreen
from foldline.tui.screens.jobs import TextScreen
from foldline.tui.screens.sessions import SessionsScreen
from foldline.tui.screens.sessions_list import Listed, export_session, fork_session, kept_title
from foldline.tui.session_facts import cost_lines, status_lines
from foldline.tui.terminal import clipboard

if TYPE_CHECKING:
    from textual.app import App

    from foldline.tui.chat import ChatScreen
    from foldline.tui.inspector.following import Followed
    from foldline.tui.open_session import OpenSession


def session_commands(chat: "OpenSession") -> Commands:
    commands, open_session = _SessionCommands(chat), chat.program.open_session
    return {
        "sessions": lambda runner, file: open_session(file) if file else commands.open(runner, None),
        "search": commands.open,
        "rename": commands.rename,
        "fork": lambda runner, _: commands.fork(runner),
        "new": lambda _, __: open_session(),
        "copy": lambda runner, _: commands.copy_answer(runner),
        "export": commands.export,
        "init": lambda runner, _: runner.send(load_prompt("init")),
        "cost": commands.page("Cost of this session", cost_lines),
        "status": commands.page("Status", status_lines),
        "diff": lambda runner, _: commands.show_diffs(runner),
    }


@dataclass(frozen=True, slots=True)
class _SessionCommands:
    _chat: "OpenSession"

    def open(self, runner: Runner, query: str | None) -> None:
        """Show the sessions; with a query, even an empty one, the search line has the focus."""
        screen = SessionsScreen(
            self._chat.where,
            home=data_home(),
            root=self._chat.root,
            here=_kept_in(runner),
            beside={Path(each.file) for each in self._chat.program.sessions if each.file},
            now=lambda: utc_now().astimezone(),
            query=query,
            read=lambda listed, index: read_along(self._chat, listed, index),
            retitle=lambda title: _retitle(runner, title),
        )
        open_session = self._chat.program.open_session
        self._chat.push_screen(screen, lambda chosen: open_session(str(chosen)) if chosen else None)

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
            self._chat.remark("There is no answer yet")
            return
        doubt = clipboard.copy(self._chat.app, answer.text)
        self._chat.remark(" · ".join(filter(None, ("Copied the last answer", doubt))))

    def export(self, runner: Runner, argument: str) -> None:
        """Write this session to a new file, in a format and at a path where they are given."""
        path = _kept_in(runner)
        if path is None:
            self._chat.remark("Nothing has been said here yet: there is nothing to export")
        else:
            self._chat.remark("Writing the session …")
            self._chat.report(self._exported(path, argument), "export")

    async def _exported(self, path: Path, argument: str) -> str:
        root = self._chat.root
        try:
            written, notes = await asyncio.to_thread(export_session, path, argument, root)
        except FoldlineError as failure:
            return str(failure).replace(f"{root}{os.sep}", "")
        shown = written.name if written.parent == root else with_tilde(str(written))
        return " ".join((f"Written to {shown}.", *notes))

    def page(
        self, title: str, lines: Callable[[Agent], Awaitable[list[str]]]
    ) -> Callable[[Runner, str], None]:
        """A command that shows these lines on a page."""

        async def show(agent: Agent) -> None:
            text = "\n".join(await lines(agent))
            self._chat.push_screen(TextScreen(title, lambda: text))

        return lambda runner, _: self._in_background(show(runner.agent))

    def show_diffs(self, runner: Runner) -> None:
        """Show what became of the files of this session."""

        async def show() -> None:
            files = await diffs_since(runner.agent.state)
            self._chat.push_screen(DiffScreen("Changed since the session began", files))

        self._in_background(show())

    def _in_background(self, work: Coroutine[Any, Any, None]) -> None:
        self._chat.run_worker(work, group="page", exclusive=True)

    def rename(self, runner: Runner, title: str) -> None:
        """Give this session another title; without one, say which it has."""
        kept = kept_title(title)
        if kept:
            self._chat.report(_retitle(runner, kept), "rename")
        else:
            now = runner.agent.session.meta().title or "not named yet"
            self._chat.remark(f"Now: {now}. /rename TITLE gives it another title")

    def fork(self, runner: Runner) -> None:
        """Continue in a copy of this session, from here; the session itself stays as it is."""
        path = _kept_in(runner)
        if path is None:
            self._chat.remark("Nothing has been said here yet: there is nothing to fork")
        else:
            self._chat.remark("Copying this session …")
            self._chat.report(self._forked(path), "fork")

    async def _forked(self, path: Path) -> str:
        copy = await asyncio.to_thread(fork_session, path, data_home(), self._chat.root)
        self._chat.program.open_session(str(copy))
        return ""


def _kept_in(runner: Runner) -> Path | None:
    """The event file of this session; None where nothing was said in it yet."""
    path = runner.agent.session.path
    return path if path is not None and path.exists() else None


async def _retitle(runner: Runner, title: str) -> str:
    session = runner.agent.session
    await session.append(Title(title=title), durable=True)
    session.save_meta()
    return f"This chat is called “{title}” now."


async def read_along(over: "App[Any] | ChatScreen", row: Listed, index: int | None) -> None:
    """Open the Inspector on a session, at an entry where one is given.

    Raises:
        FoldlineError: it cannot be read.
    """
    from foldline.tui.inspector.following import FollowingInspector

    followed = await asyncio.to_thread(_followed, row)
    screen = FollowingInspector(followed.session, row.title or short_id(row.id), followed)
    await over.push_screen(screen)
    if index is not None:
        screen.call_after_refresh(screen.panels.reveal, index)


def _followed(row: Listed) -> "Followed[Any]":
    if row.ours:
        return Follower(row.path)
    # Here, in a thread: nobody waits for it before the screen is open.
    from foldline.formats.reader import Rereader

    return Rereader.read(row.path, row.agent)
