"""Records the demo as an asciicast, `docs/demo.cast`: `python docs/make_cast.py`.

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

from foldline.tui.demo.replay import recorded_prompts  # noqa: E402
from support.terminal import Terminal, terminal  # noqa: E402

COLUMNS, ROWS = 100, 30
PAUSE = 2.5
"""Seconds for which each screen can be read."""
F2, F3 = "\x1bOQ", "\x1bOR"
KEYS = ("\t", "{", "\r", F2, ",", ",", "0", "\x1b", F3, "+", "\x1b")
"""The keys after the recording: the last compaction, the Inspector, two earlier requests, the preview."""


def play(demo: Terminal) -> None:
    last = recorded_prompts()[-1]
    demo.until(lambda seen: f"❯ {last}" in seen.text, patience=120)
    demo.until("Enter sends", patience=60)
    demo.lives_for(PAUSE)
    for key in KEYS:
        demo.send(key)
        demo.lives_for(PAUSE)


def main() -> None:
    """Written at once when it is complete: one that was broken off leaves the old one."""
    decode = codecs.getincrementaldecoder("utf-8")(errors="replace").decode
    rows: list[object] = [
        {"version": 2, "width": COLUMNS, "height": ROWS, "title": "foldline demo"}
    ]
    with tempfile.TemporaryDirectory() as home:
        folder = Path(home) / "shop"
        with terminal(
            folder, "demo", columns=COLUMNS, rows=ROWS, COLORTERM="truecolor"
        ) as demo:
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
