"""Real sessions replayed through windows of every size, step by step, with every invariant checked.

Here each session of some meets two windows, each under one strategy; `make campaign` sends all through all.
"""

from pathlib import Path

import pytest

from foldline.compaction import BUILT_IN
from foldline.formats import read_foreign
from foldline_eval.replay import recorded_messages
from support.recorded_compactions import play_recording
from support.recordings import compactable_recordings, needs_recorded

pytestmark = [needs_recorded, pytest.mark.slow]
WINDOWS = (8_192, 32_768, 131_072, 1_048_576)
NAMES = list(BUILT_IN)
SAMPLE = [
    (path, window, NAMES[(at * len(WINDOWS) + nth) % len(NAMES)])
    for at, path in enumerate(compactable_recordings())
    for nth, window in enumerate(WINDOWS)
    if nth % 2 == at % 2
]


@pytest.mark.parametrize(
    ("path", "window", "name"),
    SAMPLE,
    ids=[f"{path.stem}-{window}-{name}" for path, window, name in SAMPLE],
)
async def test_a_recorded_session_passes_through_a_window(
    path: Path, window: int, name: str
) -> None:
    playing = await play_recording(path, name, window)
    large = (
        sum(
            len(message.text)
            for message in recorded_messages(read_foreign(path).entries)
        )
        > 40_000
    )
    assert playing.compactions or not large
