"""`foldline`: the chat. What is slow is imported after the first paint, in `_load`."""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from .arguments import UsageError
from .themes import chosen_theme, own_themes

if TYPE_CHECKING:
    from collections.abc import Callable

    from foldline.agent import Agent
    from foldline.history import Session

    from .held import Refused


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
        from .choosing import choose

        resume = str(choose())
    root = _folder_of(resume, Path.cwd()) if resume else Path.cwd()
    named = chosen_theme(theme, root)
    first, again = prompt or "", resume
    before: _Before | None = None
    while True:
        ref, goes_on = again, continues and again is None

        def load(ref: str | None = ref, goes_on: bool = goes_on, root: Path = root) -> "Agent":
            chosen = {"context__window": window, "compaction__strategy": strategy, "theme": theme}
            return _load(goes_on, ref, root, model=model, **chosen)

        attempt = _Attempt(load)
        app = FoldlineApp(attempt, root=root, theme=named, prompt=first, themes_dir=own_themes())
        app.run()
        if attempt.refused is not None:
            from .held import instead

            end = instead(attempt.refused, theme=theme, back=before is not None)
            if isinstance(end, int) and before is None:
                return end
            if before is not None:
                again, root, continues, before = before.ref, before.root, False, None
            if not isinstance(end, int):
                again, root = str(end), attempt.refused.folder
            continue
        if app.failure is not None:
            return _failed(app.failure)
        if app.resume is None:
            return app.return_code or 0
        before = _Before(attempt.kept, root)
        first, again, root = "", app.resume, _folder_of(app.resume, root)


class _Before(NamedTuple):
    """The chat that was left for another session, to come back to where that one is refused."""

    ref: str | None
    """None where nothing was said in it."""
    root: Path


class _Attempt:
    """Opening a chat, as the screen does in a thread; keeps the refusal, or its session."""

    def __init__(self, load: "Callable[[], Agent]") -> None:
        self._load = load
        self.refused: Refused | None = None
        self._session: Session | None = None

    @property
    def kept(self) -> str | None:
        """The event file of the session, where it has one by now."""
        path = self._session.path if self._session is not None else None
        return str(path) if path is not None and path.exists() else None

    def __call__(self) -> "Agent":
        from .held import Refused

        try:
            agent = self._load()
        except Refused as refused:
            self.refused = refused
            raise
        self._session = agent.session
        return agent


def _load(continues: bool, resume: str | None, root: Path, **chosen: object) -> "Agent":
    """The agent; what is resumed goes on in `root`. `chosen` is what the options set."""
    from foldline.agent.settings import connect_llm

    from .agents import agent_for, chosen_session
    from .windows import settings_here

    session = chosen_session(continues, resume, root)
    settings = settings_here(session.cwd, **chosen)
    return agent_for(session, settings, connect_llm(settings, os.environ), interactive=True)


def _failed(sentence: str) -> int:
    from .output import note

    note(sentence)
    return 1


def _folder_of(ref: str, here: Path) -> Path:
    """The working folder of a session that is resumed from `here`, wherever that is now.

    Raises:
        FoldlineError: it is gone, and the user does not want to go on in this one.
    """
    from foldline.history import Folder, data_home, find_session, read_header
    from foldline.protocol import FoldlineError

    from .asking import confirmed
    from .output import note

    header = read_header(find_session(data_home(), ref))
    place = Folder(here).place(header)
    if place.tie is None:
        question = f"{header.cwd}, where this session was held, is gone. Go on with it in {place.folder}?"
        if not confirmed(question, yes=False, how="y"):
            raise FoldlineError("The session was not resumed: do so in the folder where its project is now.")
    elif place.tie != "path":
        note(f"This session was held in {header.cwd}; it goes on in {place.folder}.")
    return place.folder
