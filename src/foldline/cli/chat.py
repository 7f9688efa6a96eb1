"""`foldline`: the chat. What is slow is imported after the first paint, in `_load`."""

import gc
import os
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from .arguments import UsageError
from .streams import has_terminal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from foldline.agent import Agent
    from foldline.tui.startup import Load

    from .agents import Refused


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
    chosen = {"model": model, "context__window": window, "compaction__strategy": strategy}
    if plain or _is_dumb():
        from .plain import talk

        return talk(prompt, continues, resume, chosen)
    if not has_terminal():
        raise UsageError(
            "The chat needs a terminal: `foldline run PROMPT` works without one, and `foldline --plain` "
            "reads prompts line by line."
        )
    with _without_collector():
        if resume == "":
            from .resume import choose

            resume = str(choose())
        root = _folder_of(resume, Path.cwd()) if resume else Path.cwd()
        return _chats(_Start(resume, root, continues), prompt or "", theme, {**chosen, "theme": theme})


class _Start(NamedTuple):
    """Which session a chat is about, and where."""

    ref: str | None
    """None: a new one, or with `continues` the last one of the folder."""
    root: Path
    continues: bool = False


def _chats(start: _Start, prompt: str, theme: str | None, chosen: "Mapping[str, object]") -> int:
    """Shows the chat, and what is opened beside it; the exit code at the end. Where its session is refused,
    the user may continue in a copy.

    `chosen` are the settings that the options set.
    """
    from foldline.tui.app import FoldlineApp
    from foldline.tui.terminal.app import run_app

    from .screens import chosen_theme, own_themes, use_chosen_keys

    named = chosen_theme(theme, start.root)
    use_chosen_keys()

    def another(file: str, here: Path, ask: "Callable[[str], bool]") -> "tuple[Load, Path]":
        beside = _Start(file or None, _folder_of(file, here, ask) if file else here)
        return lambda: _load(beside, chosen)[0], beside.root

    while True:
        attempt = _Attempt(start, chosen)
        app = FoldlineApp(
            attempt,
            root=start.root,
            theme=named,
            prompt=prompt,
            themes_dir=own_themes(),
            is_first_start=attempt.is_first_start,
            another=another,
        )
        run_app(app)
        if attempt.refused is not None:
            from .resume import instead

            end = instead(attempt.refused, theme=theme)
            if isinstance(end, int):
                return end
            start = _Start(str(end), attempt.refused.folder)
        elif app.failure is not None:
            from .output import note

            note(app.failure)
            return 1
        else:
            _say_how_to_resume(session.file for session in app.sessions)
            return app.return_code or 0


def _say_how_to_resume(files: "Iterable[str]") -> None:
    """Names the sessions below the screen that is gone, where anything was said in them."""
    from foldline.history import short_id

    from .output import note

    for file in filter(None, files):
        ref = short_id(Path(file).parent.name)
        note(f"session {ref}; `foldline -r {ref}` continues it.")


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


def _folder_of(resume: str, here: Path, ask: "Callable[[str], bool] | None" = None) -> Path:
    from .resume_folder import folder_of  # of no use to any other start

    return folder_of(resume, here, ask)


class _Attempt:
    """Opens the session of a chat, as the screen does in a thread; keeps the refusal."""

    def __init__(self, start: _Start, chosen: "Mapping[str, object]") -> None:
        self._start = start
        self._chosen = chosen
        self.refused: Refused | None = None
        self._first = False

    def is_first_start(self) -> bool:
        """Whether nothing was set up when it was opened."""
        return self._first

    def __call__(self) -> "Agent":
        from .agents import Refused

        try:
            agent, self._first = _load(self._start, self._chosen)
        except Refused as refused:
            self.refused = refused
            raise
        return agent


def _load(start: _Start, chosen: "Mapping[str, object]") -> "tuple[Agent, bool]":
    """The agent, and whether nothing at all was set up before."""
    from foldline.agent.model_choice import is_first_start
    from foldline.agent.settings import connect_llm
    from foldline.history import data_home

    from .agents import agent_for, chosen_session
    from .screens import check_chosen_keys
    from .settings import settings_here

    session = chosen_session(start.continues, start.ref, start.root)
    try:
        check_chosen_keys()
        settings = settings_here(session.cwd, **chosen)
        agent = agent_for(session, settings, connect_llm(settings, os.environ), interactive=True)
    except BaseException:
        session.close()  # other sessions of this process go on, and this one may be asked for again
        raise
    return agent, is_first_start(settings, os.environ, data_home())
