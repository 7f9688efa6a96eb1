"""Commands that concern sessions, such as /sessions, /rename, /fork and /export."""

import asyncio
import os
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from foldline.agent import Agent
from foldline.agent.session.rewind import diffs_since
from foldline.compaction import load_prompt
from foldline.files import is_file
from foldline.frontend.facts import NO_TITLE, status_lines
from foldline.frontend.runner import Commands, Runner
from foldline.history import data_home, short_id, utc_now
from foldline.history.follower import Follower
from foldline.history.paths import with_tilde
from foldline.protocol import AssistantMessage, FoldlineError, Title
from foldline.tui.lists.page import TextScreen
from foldline.tui.overlays.diff import DiffScreen
from foldline.tui.overlays.sessions import SessionsScreen
from foldline.tui.overlays.sessions_list import (
    SessionRow,
    export_session,
    fork_session,
    normalize_title,
)
from foldline.tui.session_window import SessionWindow
from foldline.tui.terminal import clipboard
from foldline.view.outline import MessageOutline

if TYPE_CHECKING:
    from textual.app import App

    from foldline.tui.browser.inspector.follow import FollowedSession

NO_ANSWER = "There is no answer to copy yet"
ANSWER_COPIED = "Copied the last answer"
NOTHING_TO_EXPORT = "This session is empty: there is nothing to export"
NOTHING_TO_FORK = "This session is empty: there is nothing to fork"
TITLE_NOW = "Current title: {title}. Use /rename TITLE to change it"
EXPORTING = "Exporting the session …"
EXPORTED = "Exported to {file}."
COPYING = "Copying this session …"
CHANGES_TITLE = "Changes since the session began"
RENAMED = "Renamed to “{title}”"


def session_commands(chat: SessionWindow) -> Commands:
    commands = _SessionCommands(chat)
    open_session = chat.program.open_session
    return {
        "sessions": lambda runner, argument: (
            open_session(argument)
            if is_file(argument)
            else commands.open(runner, argument or None)
        ),
        "rename": commands.rename,
        "fork": commands.fork,
        "new": lambda _, __: open_session(),
        "copy": commands.copy_answer,
        "export": commands.export,
        "init": lambda runner, _: runner.send(load_prompt("init")),
        "status": commands.page("Status", status_lines),
        "diff": commands.show_diffs,
    }


@dataclass(frozen=True, slots=True)
class _SessionCommands:
    _chat: SessionWindow

    def open(self, runner: Runner, query: str | None) -> None:
        """List the sessions that match a query."""
        screen = SessionsScreen(
            home=data_home(),
            root=self._chat.root,
            here=Path(self._chat.file) if self._chat.file else None,
            open_files={
                Path(session.file)
                for session in self._chat.program.sessions
                if session.file
            },
            now=lambda: utc_now().astimezone(),
            query=query or "",
            read=lambda listed, index: follow_session(self._chat, listed, index),
            retitle=lambda title: _retitle(runner, title),
        )
        open_session = self._chat.program.open_session
        self._chat.push_screen(
            screen, lambda path: open_session(path) if path else None
        )

    def copy_answer(self, runner: Runner, _: str) -> None:
        """Copy the newest answer that has text to the clipboard."""
        projection = runner.agent.session.projection
        answers = (
            outline.index
            for outline in reversed(projection.entries.outlines)
            if isinstance(outline, MessageOutline)
            and outline.type == "assistant"
            and outline.in_words
        )
        answer = next(map(projection.entry, answers), None)
        if not isinstance(answer, AssistantMessage):
            self._chat.remark(NO_ANSWER)
            return
        warning = clipboard.copy(self._chat.app, answer.text)
        self._chat.remark(" · ".join(filter(None, (ANSWER_COPIED, warning))))

    def export(self, _: Runner, argument: str) -> None:
        """Export this session.

        The argument may name a format and a path.
        """
        if self._chat.file:
            self._chat.remark(EXPORTING)
            self._chat.report(self._export_file(argument), "export")
        else:
            self._chat.remark(NOTHING_TO_EXPORT)

    async def _export_file(self, argument: str) -> str:
        root = self._chat.root
        try:
            written, notes = await asyncio.to_thread(
                export_session, Path(self._chat.file), argument, root
            )
        except FoldlineError as failure:
            return str(failure).replace(f"{root}{os.sep}", "")
        name = written.name if written.parent == root else with_tilde(str(written))
        return " ".join((EXPORTED.format(file=name), *notes))

    def page(
        self, title: str, lines: Callable[[Agent], Awaitable[list[str]]]
    ) -> Callable[[Runner, str], None]:
        """Return a command handler that shows the result of `lines` on a page."""

        async def show(agent: Agent) -> None:
            text = "\n".join(await lines(agent))
            self._chat.push_screen(TextScreen(title, text))

        return lambda runner, _: self._in_background(show(runner.agent))

    def show_diffs(self, runner: Runner, _: str) -> None:
        """Show the changes to files in this session."""

        async def show() -> None:
            files = await diffs_since(runner.agent.state)
            self._chat.push_screen(DiffScreen(CHANGES_TITLE, files))

        self._in_background(show())

    def _in_background(self, work: Coroutine[Any, Any, None]) -> None:
        self._chat.run_worker(work, group="page", exclusive=True)

    def rename(self, runner: Runner, title: str) -> None:
        """Rename this session. Without a title, show the current title."""
        new_title = normalize_title(title)
        if new_title:
            self._chat.report(_retitle(runner, new_title), "rename")
        else:
            self._chat.remark(
                TITLE_NOW.format(title=runner.agent.session.meta().title or NO_TITLE)
            )

    def fork(self, _: Runner, __: str) -> None:
        """Continue in a copy of this session.

        The original is not changed.
        """
        if self._chat.file:
            self._chat.remark(COPYING)
            self._chat.report(self._open_fork(), "fork")
        else:
            self._chat.remark(NOTHING_TO_FORK)

    async def _open_fork(self) -> str:
        copy = await asyncio.to_thread(
            fork_session, Path(self._chat.file), data_home(), self._chat.root
        )
        self._chat.program.open_session(str(copy))
        return ""


async def _retitle(runner: Runner, title: str) -> str:
    session = runner.agent.session
    await session.append(Title(title=title), durable=True)
    session.save_meta()
    return RENAMED.format(title=title)


async def follow_session(
    over: "App[Any] | SessionWindow", row: SessionRow, index: int | None
) -> None:
    """Open the Inspector on another session, at an entry if `index` is given.

    Raises:
        FoldlineError: The session cannot be read.
    """
    from foldline.tui.browser.inspector.follow import FollowingInspector

    follower = await asyncio.to_thread(_follower, row)
    screen = FollowingInspector(
        follower.session, row.title or short_id(row.id), follower
    )
    await over.push_screen(screen)
    if index is not None:
        screen.call_after_refresh(screen.panels.reveal, index)


def _follower(row: SessionRow) -> "FollowedSession":
    if row.is_ours:
        return Follower(row.path)
    # Imported here, in a thread, because the import is slow.
    from foldline.formats.reader import Rereader

    return Rereader.read(row.path, row.agent)
