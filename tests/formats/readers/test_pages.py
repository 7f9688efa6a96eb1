"""Sessions of other agents beside the entries that are read from them.

A page is a file, or a folder of files, in `pages/AGENT`, and a text of the same name. The first line of the
text may say which file of the folder is read. `FOLDLINE_WRITE_PAGES=1` rewrites the texts: look at what
changed before you keep it.
"""

import os
from pathlib import Path

import pytest

from foldline.formats import read_foreign
from support.foreign import faults
from support.pages import page_of

PAGES = Path(__file__).parent / "pages"
_FILE = "file: "


@pytest.mark.parametrize(
    "page",
    sorted(PAGES.rglob("*.txt")),
    ids=lambda page: page.relative_to(PAGES).with_suffix("").as_posix(),
)
def test_a_file_reads_as_its_page_says(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    opening = text.partition("\n")[0] if text.startswith(_FILE) else ""
    [rows] = [
        path
        for path in page.parent.glob(f"{page.stem}*")
        if path.stem == page.stem and path != page
    ]
    session = read_foreign(rows / opening.removeprefix(_FILE) if opening else rows)
    assert faults(session) == []
    written = f"{opening}\n{page_of(session)}" if opening else page_of(session)
    if os.environ.get("FOLDLINE_WRITE_PAGES"):
        page.write_text(written, encoding="utf-8")
    assert written == text
