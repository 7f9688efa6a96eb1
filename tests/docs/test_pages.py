import json
import re
import runpy
from pathlib import Path

import pyte
import pytest

from foldline.cli.commands import whole_parser
from foldline.tui.demo.replay import recorded_prompts

TOP = Path(__file__).parents[2]
PAGES = sorted([TOP / "README.md", *(TOP / "docs").rglob("*.md")])
BUILD_FILES = [
    TOP / "Makefile",
    TOP / "pyproject.toml",
    *sorted((TOP / ".ci").iterdir()),
    *sorted((TOP / ".github" / "workflows").iterdir()),
]


def test_the_generated_pages_are_up_to_date() -> None:
    pages = runpy.run_path(str(TOP / "docs" / "make_pages.py"))["pages"]()
    for name, text in pages.items():
        assert (TOP / "docs" / name).read_text(encoding="utf-8") == text, (
            f"run: python docs/make_pages.py ({name})"
        )


def test_the_manual_page_has_every_command_and_option() -> None:
    page = (TOP / "docs" / "foldline.1").read_text(encoding="utf-8").replace("\\", "")
    whole = whole_parser()
    [commands] = [
        each
        for each in whole._get_positional_actions()
        if isinstance(each.choices, dict)
    ]
    for name, parser in {"": whole, **commands.choices}.items():
        section = page
        if name:
            section = page.partition(f"OPTIONS fI,'foldline {name}'")[2].partition(
                ".SH COMMAND"
            )[0]
        assert section, name
        for action in parser._get_optional_actions():
            named = action.dest == "help" or all(
                option in section for option in action.option_strings
            )
            assert named, (name, action.option_strings)


def test_the_cast_of_the_demo_shows_every_recorded_prompt() -> None:
    header, *rows = map(
        json.loads,
        (TOP / "docs" / "demo.cast").read_text(encoding="utf-8").splitlines(),
    )
    assert header["version"] == 2
    assert [row[0] for row in rows] == sorted(row[0] for row in rows)
    assert {kind for _, kind, _ in rows} == {"o"}
    screen = pyte.Screen(header["width"], header["height"])
    stream, missing = pyte.Stream(screen), set(recorded_prompts())
    for _, _, text in rows:
        stream.feed(text)
        shown = "\n".join(screen.display)
        missing -= {prompt for prompt in missing if prompt[:40] in shown}
    assert not missing


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_within_the_pages_leads_to_a_file(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", page.read_text(encoding="utf-8")):
        if "://" not in target:
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_the_modules_that_pages_name_exist() -> None:
    modules = [
        f"/{path.relative_to(TOP)}"
        for top in ("src", "tests", "docs")
        for path in TOP.glob(f"{top}/**/*.py")
    ]
    for page in PAGES:
        for path in re.findall(
            r"`(\w+(?:/\w+)+\.py)`", page.read_text(encoding="utf-8")
        ):
            assert any(module.endswith(f"/{path}") for module in modules), (
                f"{page.name} names {path}"
            )


def test_the_source_cites_only_pages_of_the_project() -> None:
    pages = [
        f"/{page.relative_to(TOP)}"
        for page in (*PAGES, *(TOP / "prompts").rglob("*.md"))
    ]
    others = ("AGENTS.md", "CLAUDE.md", "GEMINI.md")
    for source in (TOP / "src").rglob("*.py"):
        text = source.read_text(encoding="utf-8")
        assert not re.search(
            r"\b(DESIGN|SCREENS)\b[^:\[]{0,5}(§|rule|picture|\.md)", text
        ), source
        for path in re.findall(r"[\w/-]+\.md\b", text):
            known = path in others or any(page.endswith(f"/{path}") for page in pages)
            assert known or "/" not in path.strip("/"), f"{source.name} cites {path}"


@pytest.mark.parametrize("script", BUILD_FILES, ids=lambda script: script.name)
def test_the_folders_and_files_that_a_build_file_names_exist(script: Path) -> None:
    lines = script.read_text(encoding="utf-8")
    for path in re.findall(
        r"(?<![\w./-])(?:src|tests|docs|prompts|themes|findings|\.ci)/[\w./-]*\w", lines
    ):
        assert (TOP / path).exists(), f"{script.name} names {path}"


def test_every_make_target_the_readme_names_exists() -> None:
    makefile = (TOP / "Makefile").read_text(encoding="utf-8")
    for target in set(
        re.findall(r"\bmake (\w+)", (TOP / "README.md").read_text(encoding="utf-8"))
    ):
        assert f"\n{target}:" in makefile or target == "are", target


def test_no_page_or_pin_names_a_package_index() -> None:
    for page in [
        *PAGES,
        TOP / "constraints.txt",
        TOP / "pyproject.toml",
        TOP / "Makefile",
    ]:
        assert not re.search(
            r"https?://[^\s)]*(?:pypi|pythonhosted)", page.read_text(encoding="utf-8")
        ), page
