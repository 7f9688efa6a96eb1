"""The title a user gives to a session."""

from foldline.protocol import Title

from ..meta import clip_cells

_MOST_CELLS = 200
"""Of a title that is kept. Lists show less of it."""


def title_entry(text: str) -> Title | None:
    """The entry that gives a session this title, on one line and of a bearable length; None where `text` says
    nothing that could be shown."""
    kept = clip_cells(text, _MOST_CELLS)
    return Title(title=kept) if kept else None
