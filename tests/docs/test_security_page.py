"""Every promise of docs/security.md names a test that exists."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

TOP = Path(__file__).parents[2]
ROWS = [
    tuple(cell.strip() for cell in line.strip("|\n ").split("|"))
    for line in (TOP / "docs" / "security.md")
    .read_text(encoding="utf-8")
    .partition("## What holds")[2]
    .splitlines()
    if line.startswith("|") and not line.startswith(("| promise", "|---"))
]


@cache
def defined_in(path: Path) -> frozenset[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return frozenset(
        node.name
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    )


@pytest.mark.parametrize(("promise", "named"), ROWS)
def test_a_promise_names_tests_that_exist(promise: str, named: str) -> None:
    tests = re.findall(r"`([^`]+)::([^`]+)`", named)
    assert tests, f"no test holds: {promise}"
    assert [
        name for path, name in tests if name not in defined_in(TOP / "tests" / path)
    ] == []


def test_the_page_has_promises() -> None:
    assert len(ROWS) > 20
