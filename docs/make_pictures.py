"""Makes docs/chat.svg, inspector.svg and preview.svg: the program on a made-up session, by its own hand.

.venv/bin/python docs/make_pictures.py
"""

import asyncio
import os
import sys
import tempfile
import time
from pathlib import Path

DOCS = Path(__file__).parent
sys.path.insert(0, str(DOCS.parent / "tests"))
os.environ["TZ"] = "UTC"
os.environ.pop("NO_COLOR", None)
time.tzset()

from textual._doc import take_svg_screenshot  # noqa: E402

from support import scenes  # noqa: E402
from support.live import Spoken  # noqa: E402
from support.scenes import Scene, scene  # noqa: E402


def picture(name: str, made: Scene, size: tuple[int, int]) -> None:
    svg = take_svg_screenshot(app=made.app, terminal_size=size, run_before=made)
    (DOCS / name).write_text(_same_every_time(svg), encoding="utf-8")


def _same_every_time(svg: str) -> str:
    """Without the number Rich draws for each picture, so that only what has changed differs."""
    start = svg.index('class="terminal-') if 'class="terminal-' in svg else svg.index(".terminal-")
    number = svg[start:].split("terminal-", 1)[1].split("-", 1)[0].split('"', 1)[0]
    return svg.replace(f"terminal-{number}", "terminal-foldline")


def main() -> None:
    asyncio.set_event_loop(asyncio.new_event_loop())
    branch = "orders-idempotent ±3"
    with tempfile.TemporaryDirectory() as folder:
        made = scene(
            Path(folder, "chat", "shop-api"),
            scenes.shop_api(),
            play=scenes.fold_with_a_queue,
            summaries=scenes.held_fold(),
            branch=branch,
        )
        picture("chat.svg", made, (120, 36))
        made = scene(
            Path(folder, "inspector", "shop-api"),
            scenes.shop_api(),
            play=scenes.inspect_after_the_fold,
            summaries=scenes.written_fold(),
            branch=branch,
        )
        picture("inspector.svg", made, (160, 44))
        summary = Spoken()
        made = scene(
            Path(folder, "preview", "shop-api"),
            scenes.shop_api(),
            play=scenes.preview_of(summary),
            summaries=(summary,),
            branch=branch,
        )
        picture("preview.svg", made, (120, 36))


if __name__ == "__main__":
    main()
