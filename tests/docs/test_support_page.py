"""The page about the tests' helpers names every module there is, and none that is gone."""

import re
from pathlib import Path

SUPPORT = Path(__file__).parents[1] / "support"


def test_the_page_lists_every_module_of_support() -> None:
    page = (SUPPORT / "README.md").read_text(encoding="utf-8")
    first_cells = re.findall(r"^\| (`[^|]*) \|", page, re.MULTILINE)
    listed = re.findall(r"`(\w+\.\w+)`", " ".join(first_cells))
    files = [path.name for path in SUPPORT.iterdir() if path.is_file()]
    assert sorted(listed) == sorted(set(files) - {"README.md"})
