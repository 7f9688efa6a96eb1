"""`foldline`: the chat. What is slow is imported after the first paint, in `_load`."""

import gc
import os
from argparse import ArgumentParser
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from foldline.version import __version__

from .arguments import (
    Handler,
    UsageError,
    add_continue,
    add_model,
    add_strategy,
    add_theme,
    add_window,
    text_of,
)
from .streams import has_terminal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from foldline.agent import Agent

    from .agents import Refused


def chat_command(parser: ArgumentParser) -> Handler:
    parser.add_argument(
        "prompt", type=text_of, nargs="?", metavar="PROMPT", help="the first prompt, in quotes"
    )
    which = parser.add_mutually_exclusive_group()
    add_continue(which)
    which.add_argument(
        "-r", "--resume", nargs="?", const="", metavar="ID", help="resume a session; without ID, choose one"
    )
    add_model(parser)
    add_window(parser)
    add_strategy(parser)
    add_theme(parser)
    parser.add_argument(
        "--plain", action="store_true", help="linear text without a screen, for screen readers and pipes"
    )
    parser.add_argument("--version", action="version", version=f"foldline {__version__}")
    return chat


def chat(
    prompt: str | None,
    continues: bool,
    resume: str | None,
    model: str | None,
    window: int | None,
    strategy: str | None,
    theme: str | None,
    plain: bool = False,
) -> int:
    if plain or _is_dumb():
        from .plain import talk

        return talk(prompt, continues, resume, model, window, strategy)
    if not has_terminal() and "TEXTUAL_DRIVER" not in os.environ:
        raise UsageError(
            "The chat needs a terminal: `foldline run PROMPT` works without one, and `foldline --plain` "
            "reads prompts line by line."
        )
    from .screens import chosen_theme, own_themes, use_chosen_keys

    with _without_collector():
        from foldline.tui.app import FoldlineApp
        from foldline.tui.terminal.app import run_app

        if resume == "":
            from .resume import choose

            resume = str(choose())
        root = _folder_of(resume, Path.cwd()) if resume else Path.cwd()
        named = chosen_theme(theme, root)
        use_chosen_keys()
        first, again = prompt or "", resume
        before: _Before | None = None
        while True:
            ref, goes_on = again, continues and again is None

            def load(ref: str | None = ref, goes_on: bool = goes_on, root: Path = root) -> _Opened:
                chosen = {"context__window": window, "compaction__strategy": strategy, "theme": theme}
                return _load(goes_on, ref, root, model=model, **chosen)

            attempt = _Attempt(load)
            app = FoldlineApp(
                attempt,
                root=root,
                theme=named,
                prompt=first,
                themes_dir=own_themes(),
                is_first_start=attempt.is_first_start,
            )
            run_app(app)
            if attempt.refused is not None:
                from .resume import instead

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
                attempt.tell_way_back()
                return app.return_code or 0
            before = _Before(attempt.kept, root)
            first, again, root = "", app.resume, _folder_of(app.resume, root)


@contextmanager
def _without_collector() -> "Iterator[None]":
    """Imports make nothing but what stays; looking for garbage in it costs a tenth of the start. Until the
    end at the latest: the app turns it on once its session is open."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def _is_dumb() -> bool:
    """Whether there is a terminal, and it can only print lines, as in an editor's shell window."""
    return has_terminal() and os.environ.get("TERM") == "dumb"


def _folder_of(resume: str, here: Path) -> Path:
    from .resume_folder import folder_of  # of no use to any other start

    return folder_of(resume, here)


class _Before(NamedTuple):
    """The chat that was left for another session, to come back to where that one is refused."""

    ref: str | None
    """None where nothing was said in it."""
    root: Path


class _Attempt:
    """Opening a chat, as the screen does in a thread; keeps the refusal, or its session."""

    def __init__(self, load: "Callable[[], _Opened]") -> None:
        self._load = load
        self._opened: _Opened | None = None
        self.refused: Refused | None = None

    def is_first_start(self) -> bool:
        """Whether nothing was set up when it was opened."""
        return self._opened is not None and self._opened.is_first_start

    @property
    def kept(self) -> str | None:
        """The event file of the session, where it has one by now."""
        path = self._opened.agent.session.path if self._opened is not None else None
        return str(path) if path is not None and path.exists() else None

    def tell_way_back(self) -> None:
        """Below the screen that is gone: what brings the session back, where anything was said in it."""
        from foldline.history import short_id

        from .output import note

        if self._opened is not None and self.kept is not None:
            ref = short_id(self._opened.agent.session.id)
            note(f"session {ref}; `foldline -r {ref}` goes on with it.")

    def __call__(self) -> "Agent":
        from .agents import Refused

        try:
            self._opened = self._load()
        except Refused as refused:
            self.refused = refused
            raise
        return self._opened.agent


class _Opened(NamedTuple):
    """An agent, and whether nothing at all was set up before."""

    agent: "Agent"
    is_first_start: bool


def _load(continues: bool, resume: str | None, root: Path, **chosen: object) -> _Opened:
    """The agent; what is resumed goes on in `root`. `chosen` is what the options set."""
    from foldline.agent.model_choice import is_first_start
    from foldline.agent.settings import connect_llm
    from foldline.history import data_home

    from .agents import agent_for, chosen_session, settings_here
    from .screens import check_chosen_keys

    session = chosen_session(continues, resume, root)
    check_chosen_keys()
    settings = settings_here(session.cwd, **chosen)
    agent = agent_for(session, settings, connect_llm(settings, os.environ), interactive=True)
    return _Opened(agent, is_first_start(settings, os.environ, data_home()))


def _failed(sentence: str) -> int:
    from .output import note

    note(sentence)
    return 1
