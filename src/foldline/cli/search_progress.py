"""Brings the search index up to date, with a bar on stderr where that takes long."""

from contextlib import ExitStack

from foldline.history.library.session_search import Progress, SessionSearch
from foldline.history.meta import clip_cells

from .progress import Bar

_LONG = 16 * 2**20
"""Bytes of event files from which a bar is worth its while: a second's work."""


def refreshed(search: SessionSearch) -> bool:
    """Whether everything is in the index now."""
    with ExitStack() as until_done:
        bar: Bar | None = None
        shown = 0

        def show(progress: Progress) -> None:
            nonlocal bar, shown
            if bar is None and progress.total - shown > _LONG:
                bar = until_done.enter_context(Bar(progress.total))
            if bar is not None:
                bar.step(f"taking in {clip_cells(progress.name, 40)}", progress.done - shown)
                shown = progress.done

        return search.refresh(show)
