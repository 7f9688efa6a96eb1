import re
import runpy
from pathlib import Path

import pytest

TOP = Path(__file__).parents[2]
PAGES = sorted([TOP / "README.md", *(TOP / "docs").rglob("*.md")])


def test_the_generated_pages_are_those_the_program_would_write_now() -> None:
    pages = runpy.run_path(str(TOP / "docs" / "make_pages.py"))["pages"]()
    for name, text in pages.items():
        assert (TOP / "docs" / name).read_text(encoding="utf-8") == text, (
            f"run: python docs/make_pages.py ({name})"
        )


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_within_the_pages_leads_to_a_file(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", page.read_text(encoding="utf-8")):
        if "://" not in target:
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_every_make_target_the_readme_names_exists() -> None:
    makefile = (TOP / "Makefile").read_text(encoding="utf-8")
    for target in set(re.findall(r"\bmake (\w+)", (TOP / "README.md").read_text(encoding="utf-8"))):
        assert f"\n{target}:" in makefile or target == "are", target


def test_no_page_or_pin_names_a_package_index() -> None:
    for page in [*PAGES, TOP / "constraints.txt", TOP / "pyproject.toml", TOP / "Makefile"]:
        assert not re.search(r"https?://[^\s)]*(?:pypi|pythonhosted)", page.read_text(encoding="utf-8")), page
