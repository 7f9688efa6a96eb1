"""The page of strategies: its table is what there is, its example is the package beside it."""

import re
from pathlib import Path

from foldline.compaction import BUILT_IN

DOCS = Path(__file__).parents[2] / "docs"
PAGE = DOCS / "strategies.md"
EXAMPLE = DOCS / "examples" / "foldline-questions"


def test_the_table_lists_every_built_in_strategy_in_its_order() -> None:
    listed = re.findall(r"^\| `([\w-]+)` \| `(\w+)` \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert listed == [(name, kind.__name__) for name, kind in BUILT_IN.items()]


def test_the_page_shows_the_code_of_the_package_as_it_is() -> None:
    [shown] = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert shown == (EXAMPLE / "src" / "foldline_questions" / "__init__.py").read_text(encoding="utf-8")
