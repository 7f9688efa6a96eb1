"""`foldline`: runs the chat.

Slow modules are imported in `_load`, after the first paint.
"""

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
    from foldline.tui.app.startup import Load


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
    chosen = {
        "model": model,
        "context__window": window,
        "compaction__strategy": strategy,
    }
    if plain or _is_dumb():
        if resume == "":
            raise UsageError(NAME_SESSION)
        from .plain import plain_chat

        return plain_chat(prompt, continues, resume, chosen)
    if not has_terminal():
        raise UsageError(NEEDS_TERMINAL)
    with _without_collector():
        root = _folder_of(resume, Path.cwd()) if resume else Path.cwd()
        return _chats(
            _Start(resume or None, root, continues),
            prompt or "",
            theme,
            {**chosen, "theme": theme},
            lists_sessions=resume == "",
        )


NEEDS_TERMINAL = (
    "The chat needs a terminal. Without one, use `foldline run PROMPT`, or `foldline --plain`, which reads "
    "prompts line by line."
)
NAME_SESSION = (
    "Name the session: `foldline sessions` lists the sessions of this folder."
)


class _Start(NamedTuple):
    """The session to open, and its working folder."""

    ref: str | None
    """Id or path of the session.

    None for a new session or, with `continues`, for the folder's last session.
    """
    root: Path
    continues: bool = False


def _chats(
    start: _Start,
    prompt: str,
    theme: str | None,
    chosen: "Mapping[str, object]",
    *,
    lists_sessions: bool,
) -> int:
    """Run the chat app, and return its exit code.

    Args:
        chosen: settings given as command line options, by name.
        lists_sessions: whether to let the user choose a session first.
    """
    from foldline.tui.app.app import FoldlineApp
    from foldline.tui.terminal.app import run_app

    from .screens import chosen_theme, own_themes, use_chosen_keys

    theme_name = chosen_theme(theme, start.root)
    use_chosen_keys()

    def another(
        file: str, here: Path, ask: "Callable[[str], bool]"
    ) -> "tuple[Load, Path]":
        tab = _Start(file or None, _folder_of(file, here, ask) if file else here)
        return _Loader(tab, chosen), tab.root

    load = _Loader(start, chosen)
    app = FoldlineApp(
        load,
        root=start.root,
        theme=theme_name,
        prompts=(prompt,) if prompt else (),
        themes_dir=own_themes(),
        is_first_start=lambda: load.is_first_start,
        another=another,
        lists_sessions=lists_sessions,
    )
    run_app(app)
    if app.failure is not None:
        from .output import note

        note(app.failure)
        return 1
    _say_how_to_resume(session.file for session in app.sessions)
    return app.return_code or 0


def _say_how_to_resume(files: "Iterable[str]") -> None:
    """Print how to resume the sessions.

    Sessions with empty file names are skipped, because they were never stored.
    """
    from foldline.history import short_id

    from .output import note_session

    for file in filter(None, files):
        ref = short_id(Path(file).parent.name)
        note_session(ref, f"foldline -r {ref}")


@contextmanager
def _without_collector() -> "Iterator[None]":
    """Disable garbage collection during imports.

    This saves a tenth of the startup time. The app enables garbage collection again after it has opened its
    session.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def _is_dumb() -> bool:
    """Return whether the terminal can only print lines.

    This is the case in an editor's shell window, for example.
    """
    return has_terminal() and os.environ.get("TERM") == "dumb"


def _folder_of(
    resume: str, here: Path, ask: "Callable[[str], bool] | None" = None
) -> Path:
    from .resume_folder import folder_of  # only needed when resuming

    return folder_of(resume, here, ask)


class _Loader:
    """Opens a session and creates its agent, in one of the app's threads."""

    def __init__(self, start: _Start, chosen: "Mapping[str, object]") -> None:
        self._start = start
        self._chosen = chosen
        self.is_first_start = False
        """Whether no model has been set up yet. Known once the session is open."""

    def __call__(self) -> "Agent":
        from foldline.agent.settings.model_choice import is_first_start
        from foldline.agent.settings.settings import connect_llm
        from foldline.history import data_home

        from .agents import agent_for, chosen_session
        from .screens import check_chosen_keys
        from .settings import settings_here

        start = self._start
        session = chosen_session(start.continues, start.ref, start.root)
        try:
            check_chosen_keys()
            settings = settings_here(session.cwd, **self._chosen)
            llm = connect_llm(settings, os.environ)
            agent = agent_for(session, settings, llm, interactive=True)
        except BaseException:
            session.close()  # the process keeps running, and may open this session again
            raise
        self.is_first_start = is_first_start(settings, os.environ, data_home())
        return agent
