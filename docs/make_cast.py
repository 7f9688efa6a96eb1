"""Records the demo and its tour as an asciicast, `docs/demo.cast`: `python docs/make_cast.py`.

The real program writes it, in a pseudo-terminal; `asciinema play docs/demo.cast` shows it. The format is
version 2 of https://docs.asciinema.org/manual/asciicast/v2/.
"""

import codecs
import json
import sys
import tempfile
import time
from pathlib import Path

DOCS = Path(__file__).parent
sys.path.insert(0, str(DOCS.parent / "tests"))

from foldline.tui.demo.tour import LAST  # noqa: E402
from support.terminal import Terminal, terminal  # noqa: E402

COLUMNS, ROWS = 100, 30
PAUSE = 2.5
"""Seconds for which each step of the tour can be read before its keys are pressed."""
F2, F3, HOME, DOWN = "\x1bOQ", "\x1bOR", "\x1b[H", "\x1b[B"
TOUR: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("Nothing is gone", ("\t", "{", "\r")),
    ("Two sides", (F2,)),
    ("Two panels, one place", (HOME, DOWN, "g")),
    ("Back in time", (",", ",")),
    ("And back", ("0",)),
    ("Your word counts", ("[", "p")),
    ("Take it back", ("u",)),
    ("Before it happens", (F2, F3)),
    ("Move the cut", ("+", "\x1b")),
    ("Undo a compaction", ("\x1b", *"/undo", "\r", "", "", "\r")),
    ("Everything", ("\x10",)),
)
"""The steps by their titles, and what is pressed at each; an empty key waits until a question hears."""


def play(demo: Terminal) -> None:
    for title, keys in TOUR:
        demo.until(lambda seen, title=title: f"▸ {title} " in seen.rows[0], patience=90)
        demo.lives_for(PAUSE)
        for key in keys:
            demo.send(key)
            demo.lives_for(0.15 if key.isalpha() else 0.8)
    demo.until(LAST[:20])
    demo.lives_for(PAUSE)


def main() -> None:
    """Written at once when it is complete: one that was broken off leaves the old one."""
    decode = codecs.getincrementaldecoder("utf-8")(errors="replace").decode
    rows: list[object] = [{"version": 2, "width": COLUMNS, "height": ROWS, "title": "foldline demo"}]
    with tempfile.TemporaryDirectory() as home:
        folder = Path(home) / "shop"
        with terminal(folder, "demo", columns=COLUMNS, rows=ROWS, COLORTERM="truecolor") as demo:
            begun, draw = time.monotonic(), demo.feed

            def recorded(chunk: bytes) -> None:
                rows.append([round(time.monotonic() - begun, 2), "o", decode(chunk)])
                draw(chunk)

            demo.feed = recorded  # type: ignore[method-assign]
            play(demo)
    lines = (json.dumps(row, ensure_ascii=False) for row in rows)
    (DOCS / "demo.cast").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
