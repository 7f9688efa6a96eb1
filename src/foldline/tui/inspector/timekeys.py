"""The keys of the timeline, part of the Inspector's table: they work in all its panels."""

from typing import Final

from foldline.tui.keys.table import ScreenKey

TIME: Final[tuple[ScreenKey[bool], ...]] = (
    ScreenKey(
        "older-request",
        (",",),
        "All panels as of the request before. Nothing can be edited there.",
        "Time",
        title="As of the request before",
    ),
    ScreenKey("newer-request", (".",), "As of the next request.", "Time", title="As of the next request"),
    ScreenKey(
        "fold-before",
        ("<",),
        "Right after the fold before: what it left of the view.",
        "Time",
        title="As of the fold before",
    ),
    ScreenKey("fold-after", (">",), "Right after the next fold.", "Time", title="As of the next fold"),
    ScreenKey("now", ("0",), "Back to now, to where you were.", "Time", title="Back to now"),
    ScreenKey(
        "along",
        ("left", "right"),
        "On the timeline: one request. Home: the first one. End: now. Enter: the first entry it sent anew.",
        "Time",
        title="Along the timeline",
        own=True,
        palette=False,
    ),
    ScreenKey(
        "mark",
        ("space",),
        "Marks an entry: pin, hide, drop and restore act on all that are marked. On the timeline: marks the "
        "shown request to compare others with. Again, unmarks it.",
        "Time",
        title="Mark",
    ),
    ScreenKey(
        "diff",
        ("d",),
        "What this request and the one before do not share; on a compaction, the views before and after it; "
        "with a marked request, that one and this.",
        "Time",
        "diff",
        title="Compare two views",
    ),
)
