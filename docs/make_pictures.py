"""Makes the pictures of the pages: the program on a made-up session, by its own hand.

.venv/bin/python docs/make_pictures.py [chat.svg …]
"""

import asyncio
import os
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parent
sys.path.insert(0, str(DOCS.parent / "tests"))
os.environ["TZ"] = "UTC"
os.environ.pop("NO_COLOR", None)
time.tzset()

from textual._doc import take_svg_screenshot  # noqa: E402
from textual.pilot import Pilot  # noqa: E402

from support import scenes  # noqa: E402
from support.live import StreamedAnswer  # noqa: E402
from support.scenes import Scene, scene  # noqa: E402

CALL_OUTS = {"chat.svg": ((0.9, 8), (99, 1), (66, 26), (64.5, 33))}
"""Column and row of the numbers that the README explains."""
_CELL_WIDTH, _CELL_HEIGHT = 12.2, 24.4
"""Size of a cell in Rich's pictures of a terminal, in units of the picture."""


def picture(name: str, made: Scene, size: tuple[int, int]) -> None:
    svg = take_svg_screenshot(app=made.app, terminal_size=size, run_before=made)
    svg = _with_call_outs(svg, CALL_OUTS.get(name, ()))
    (DOCS / name).write_text(_same_every_time(svg), encoding="utf-8")


def _with_call_outs(svg: str, places: Sequence[tuple[float, float]]) -> str:
    """Add numbered discs to a picture of a terminal, each at a column and row."""
    discs = []
    for number, (column, row) in enumerate(places, 1):
        x, y = column * _CELL_WIDTH, (row + 0.5) * _CELL_HEIGHT
        discs.append(
            f'<circle cx="{x}" cy="{y}" r="15" fill="#f5c542"/>'
            f'<text x="{x}" y="{y + 7}" text-anchor="middle" font-family="sans-serif" '
            f'font-size="20" font-weight="bold" fill="#1a1a1a">{number}</text>'
        )
    group = f'<g transform="translate(9, 41)">{"".join(discs)}</g>'
    return svg.replace("</svg>", f"{group}\n</svg>") if discs else svg


def _same_every_time(svg: str) -> str:
    """Without the number Rich draws for each picture, so that only what has changed differs."""
    start = (
        svg.index('class="terminal-')
        if 'class="terminal-' in svg
        else svg.index(".terminal-")
    )
    number = svg[start:].split("terminal-", 1)[1].split("-", 1)[0].split('"', 1)[0]
    return svg.replace(f"terminal-{number}", "terminal-foldline")


def main() -> None:
    asyncio.set_event_loop(asyncio.new_event_loop())
    summary = StreamedAnswer()
    written = scenes.written_compaction()
    plays: dict[
        str, tuple[Callable[[Scene, Pilot[None]], Any], Sequence[Any], tuple[int, int]]
    ] = {
        "chat.svg": (
            scenes.compaction_with_a_queue,
            scenes.held_compaction(),
            (120, 36),
        ),
        "inspector.svg": (scenes.inspect_after_the_compaction, written, (160, 44)),
        "difference.svg": (scenes.compare_at_the_compaction, written, (120, 30)),
        "preview.svg": (scenes.preview_of(summary), (summary,), (120, 36)),
        "context.svg": (scenes.look_at_the_context, (), (120, 36)),
        "settings.svg": (scenes.look_at_the_settings, (), (100, 30)),
    }
    with tempfile.TemporaryDirectory() as folder:
        os.environ["FOLDLINE_HOME"] = str(Path(folder, "home"))
        for name in sys.argv[1:] or plays:
            play, summaries, size = plays[name]
            where = Path(folder, name, "shop-api")
            where.mkdir(parents=True)
            made = scene(
                where,
                scenes.shop_api(),
                play=play,
                summaries=summaries,
                branch="orders-idempotent ±3",
            )
            picture(name, made, size)


if __name__ == "__main__":
    main()
