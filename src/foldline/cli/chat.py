"""`foldline`: the chat. What is slow is imported after the first paint, in `_load`."""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from .arguments import UsageError
from .themes import chosen_theme, own_themes

if TYPE_CHECKING:
    from foldline.agent import Agent

_CHOICES = 20
"""Sessions offered where `-r` names none."""


def run(
    prompt: str | None,
    continues: bool,
    resume: str | None,
    model: str | None,
    window: int | None,
    strategy: str | None,
    theme: str | None,
) -> int:
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError("The chat needs a terminal: `foldline run PROMPT` works without one.")
    from foldline.tui.app import FoldlineApp

    if resume == "":
        resume = _choose()
    root = _folder_of(resume) if resume else Path.cwd()
    named = chosen_theme(theme, root)
    first, again = prompt or "", resume
    while True:
        ref, goes_on = again, continues and again is None

        def load(ref: str | None = ref, goes_on: bool = goes_on) -> "Agent":
            chosen = {"context__window": window, "compaction__strategy": strategy, "theme": theme}
            return _load(goes_on, ref, model=model, **chosen)

        app = FoldlineApp(load, root=root, theme=named, prompt=first, themes_dir=own_themes())
        app.run()
        if app.failure is not None:
            return _failed(app.failure)
        if app.resume is None:
            return app.return_code or 0
        first, again, root = "", app.resume, _folder_of(app.resume)


def _load(continues: bool, resume: str | None, **chosen: object) -> "Agent":
    """The agent; `chosen` is what the options set."""
    from foldline.agent.settings import connect_llm

    from .agents import agent_for, chosen_session
    from .windows import settings_here

    session = chosen_session(continues, resume)
    settings = settings_here(session.cwd, **chosen)
    return agent_for(session, settings, connect_llm(settings, os.environ), interactive=True)


def _failed(sentence: str) -> int:
    from .output import note

    note(sentence)
    return 1


def _folder_of(ref: str) -> Path:
    """The working folder of a session; this one, where that is gone."""
    from foldline.history import data_home, find_session, read_log

    folder = Path(read_log(find_session(data_home(), ref)).header.cwd)
    return folder if folder.is_dir() else Path.cwd()


def _choose() -> str:
    """Ask which of this folder's sessions to resume; the newest one by default.

    Raises:
        FoldlineError: there is none.
    """
    from foldline.history import data_home, list_sessions
    from foldline.protocol import FoldlineError

    from .output import harmless, say

    infos = [info for info in list_sessions(data_home(), Path.cwd()) if info.readable][:_CHOICES]
    if not infos:
        raise FoldlineError("There is no session in this folder to resume: start one without -r.")
    for number, info in enumerate(infos, start=1):
        written = info.meta.updated_at.astimezone().strftime("%Y-%m-%d %H:%M")
        say(f"{number:>3}  {written}  {harmless(info.meta.title) or '(nothing said yet)'}")
    while True:
        try:
            answer = input("Resume which one? [1] ").strip() or "1"
        except EOFError:
            raise FoldlineError("No session was chosen.") from None
        if answer.isdecimal() and 1 <= int(answer) <= len(infos):
            return infos[int(answer) - 1].id
        say(f"Type a number from 1 to {len(infos)}.")
