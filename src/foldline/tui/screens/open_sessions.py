"""The list of the open sessions: how it is with each, and what may be opened beside them."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from foldline.tui.keys.commands import BY_ID
from foldline.tui.lists.picker import Choice, Picker

if TYPE_CHECKING:
    from foldline.tui.app import FoldlineApp
    from foldline.tui.open_session import OpenSession

_EVERY: Final = 0.25
"""Seconds between two looks at the sessions."""
_BESIDE: Final = ("new", "sessions")
"""Commands that open one beside them."""


class OpenSessions(Picker):
    """The key that opens it marks the next one."""


def pick_session(app: "FoldlineApp", before: "OpenSession") -> None:
    """Let the user choose; the session that was shown `before` is marked."""
    if isinstance(app.screen, OpenSessions):
        app.screen.do("down")
        return

    def chosen(choice: str | None) -> None:
        if choice in _BESIDE:
            app.chat.run_command(choice)
        for session in app.sessions:
            if session.mode == choice:
                app.show_session(session)

    picker = OpenSessions("Open sessions", [*_choices(app)], marked=before.mode)
    app.chat.push_screen(picker, chosen)
    picker.set_interval(_EVERY, lambda: picker.offer(_choices(app)))


def _choices(app: "FoldlineApp") -> Iterator[Choice]:
    for session in app.sessions:
        tab = session.tab
        how = tab.state or ("on the screen" if tab.shown else "at rest")
        yield Choice(session.mode, tab.title, f"{how} · {session.presenter.state.workdir}")
    yield from (Choice(each, BY_ID[each].title, BY_ID[each].usage) for each in _BESIDE)
