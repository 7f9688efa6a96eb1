# ruff: noqa: PTH123 (a test may look at the disk where it stands)
"""grep, glob and ls. grep runs both ways: with ripgrep and without."""

import asyncio
import os
import shutil
import sysconfig
from pathlib import Path

import pytest

from foldline.agent.tools import ToolContext, search
from foldline.agent.tools.tree import TOO_MANY_STARS
from support.tools import call

pytestmark = pytest.mark.quick_cases(1)


@pytest.fixture(params=["ripgrep", "python"])
def searcher(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    # The package `ripgrep` puts it beside Python, which need not be on the path.
    found = shutil.which("rg") or shutil.which("rg", path=sysconfig.get_path("scripts"))
    if request.param == "ripgrep" and found is None:
        pytest.skip("ripgrep is not installed")
    chosen = found if request.param == "ripgrep" else None
    monkeypatch.setattr(search, "find_program", lambda name: chosen)
    return str(request.param)


@pytest.fixture
def tree(context: ToolContext) -> Path:
    files = {
        "src/a.py": "import os\nneedle = 1\n",
        "src/b.ts": "const needle = 2\n",
        "src/gen/c.py": "needle\n",
        "src/keep.log": "needle\n",
        "build/d.py": "needle\n",
        "e.log": "needle\n",
        ".github/f.yml": "needle: 1\n",
        ".git/config": "needle\n",
        "sub/dir/g.py": "needle\n",
        "sub/dir/h.tmp": "needle\n",
        "文档/说明.md": "第一行\n这里有 needle 一根\n",
        ".gitignore": "build/\n*.log\n!src/keep.log\n/src/gen\n",
        "sub/.gitignore": "*.tmp\n",
    }
    for name, content in files.items():
        path = context.cwd / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    return context.cwd


VISIBLE = {
    ".github/f.yml",
    "src/a.py",
    "src/b.ts",
    "src/keep.log",
    "sub/dir/g.py",
    "文档/说明.md",
}


def files_of(text: str) -> set[str]:
    return {line.partition(":")[0] for line in text.splitlines()}


async def test_grep_honours_gitignore(
    context: ToolContext, tree: Path, searcher: str
) -> None:
    outcome = await call(context, "grep", pattern="needle")
    assert files_of(outcome.text) == VISIBLE
    assert "src/a.py:2: needle = 1\n" in outcome.text
    assert "文档/说明.md:2: 这里有 needle 一根\n" in outcome.text
    assert outcome.brief == "6 matches"


async def test_gitignore_above_the_searched_folder_counts(
    context: ToolContext, tree: Path, searcher: str
) -> None:
    outcome = await call(context, "grep", pattern="needle", path="src")
    assert files_of(outcome.text) == {"src/a.py", "src/b.ts", "src/keep.log"}


async def test_an_ignored_folder_named_expressly_is_searched(
    context: ToolContext, tree: Path, searcher: str
) -> None:
    assert files_of(
        (await call(context, "grep", pattern="needle", path="build")).text
    ) == {"build/d.py"}


async def test_an_ignored_file_named_expressly_is_searched(
    context: ToolContext, tree: Path, searcher: str
) -> None:
    assert files_of(
        (await call(context, "grep", pattern="needle", path="e.log")).text
    ) == {"e.log"}


@pytest.mark.parametrize(
    ("glob", "expected"),
    [
        ("*.py", {"src/a.py", "sub/dir/g.py"}),
        ("*.{ts,md}", {"src/b.ts", "文档/说明.md"}),
        ("src/*", {"src/a.py", "src/b.ts", "src/keep.log"}),
        ("sub/**/*.py", {"sub/dir/g.py"}),
        ("!*.py", VISIBLE - {"src/a.py", "sub/dir/g.py"}),
        ("*.log", {"src/keep.log"}),
    ],
)
async def test_a_glob_narrows_and_never_brings_back_what_is_ignored(
    context: ToolContext, tree: Path, searcher: str, glob: str, expected: set[str]
) -> None:
    assert (
        files_of((await call(context, "grep", pattern="needle", glob=glob)).text)
        == expected
    )


async def test_case_is_ignored_only_when_asked(
    context: ToolContext, tree: Path, searcher: str
) -> None:
    assert (await call(context, "grep", pattern="NEEDLE")).brief == "no matches"
    assert (
        await call(context, "grep", pattern="NEEDLE", ignore_case=True)
    ).brief == "6 matches"


async def test_a_pattern_that_looks_like_an_option_is_a_pattern(
    context: ToolContext, searcher: str
) -> None:
    (context.cwd / "a").write_text("--help me\n")
    assert (await call(context, "grep", pattern="--help")).text == "a:1: --help me\n"


async def test_a_bad_expression_is_one_sentence(
    context: ToolContext, tree: Path, searcher: str
) -> None:
    outcome = await call(context, "grep", pattern="(")
    assert outcome.is_error
    assert "\n" not in outcome.text


async def test_a_missing_path_is_an_error_not_an_empty_result(
    context: ToolContext, searcher: str
) -> None:
    assert (await call(context, "grep", pattern="x", path="nowhere")).is_error


async def test_of_a_huge_line_the_part_around_the_match_is_shown(
    context: ToolContext, searcher: str
) -> None:
    (context.cwd / "a.js").write_text("x" * 1_000_000 + "needle" + "y" * 1_000_000)
    outcome = await call(context, "grep", pattern="needle")
    assert "needle" in outcome.text
    assert len(outcome.text) < 500


async def test_binary_files_and_links_are_passed_over(
    context: ToolContext, searcher: str
) -> None:
    (context.cwd / "a.bin").write_bytes(b"\x00\x01needle\n")
    (context.cwd / "b.txt").write_text("needle\n")
    (context.cwd / "link").symlink_to("b.txt")
    (context.cwd / "loop").symlink_to(".")
    assert (await call(context, "grep", pattern="needle")).text == "b.txt:1: needle\n"


async def test_a_link_named_expressly_is_searched_and_a_pipe_is_refused(
    context: ToolContext, searcher: str
) -> None:
    (context.cwd / "b.txt").write_text("needle\n")
    (context.cwd / "link").symlink_to("b.txt")
    os.mkfifo(context.cwd / "pipe")
    assert (
        await call(context, "grep", pattern="needle", path="link")
    ).text == "link:1: needle\n"
    assert (await call(context, "grep", pattern="needle", path="pipe")).is_error


async def test_weird_names_and_bytes_stay_one_line_each(
    context: ToolContext, searcher: str
) -> None:
    (context.cwd / "new\nline").write_bytes(b"needle \xff\n")
    with open(os.fsencode(context.cwd) + b"/bad\xff", "wb") as file:
        file.write(b"needle\r\n")
    outcome = await call(context, "grep", pattern="needle")
    assert sorted(outcome.text.splitlines()) == [
        "bad�:1: needle",
        "new ⏎ line:1: needle �",
    ]
    outcome.text.encode()


async def test_many_matches_stop_with_a_word(
    context: ToolContext, searcher: str
) -> None:
    (context.cwd / "a").write_text("needle\n" * 5000)
    context.max_tokens = 1_000_000
    outcome = await call(context, "grep", pattern="needle")
    assert outcome.brief == "1000+ matches"
    assert "stopped after 1000 matches" in outcome.text


async def test_clipped_matches_are_kept_whole_in_a_file(
    context: ToolContext, searcher: str
) -> None:
    (context.cwd / "a").write_text("needle in a line\n" * 500)
    context.max_tokens = 300
    outcome = await call(context, "grep", pattern="needle")
    assert outcome.full_output is not None
    assert len(Path(outcome.full_output).read_text().splitlines()) == 500
    assert f"`read` {outcome.full_output} with offset" in outcome.text


@pytest.mark.parametrize("start", [".", "inner"])
async def test_a_repository_inside_is_judged_by_its_own_rules(
    context: ToolContext, searcher: str, start: str
) -> None:
    (context.cwd / ".git").mkdir()
    (context.cwd / ".gitignore").write_text("*.txt\n")
    inner = context.cwd / "inner"
    inner.mkdir()
    (inner / ".git").mkdir()
    (inner / "a.txt").write_text("needle\n")
    outcome = await call(context, "grep", pattern="needle", path=start)
    assert outcome.text == "inner/a.txt:1: needle\n"


async def test_glob_gives_the_newest_first_and_honours_gitignore(
    context: ToolContext, tree: Path
) -> None:
    for age, name in enumerate(["sub/dir/g.py", "src/a.py", "build/d.py"]):
        os.utime(tree / name, (1_000_000 - age, 1_000_000 - age))
    outcome = await call(context, "glob", pattern="**/*.py")
    assert outcome.text == "sub/dir/g.py\nsrc/a.py\n"
    assert outcome.brief == "2 files"


@pytest.mark.parametrize(
    ("pattern", "path", "expected"),
    [
        ("src/*", None, {"src/a.py", "src/b.ts", "src/keep.log"}),
        ("src/**", None, {"src/a.py", "src/b.ts", "src/keep.log"}),
        ("*.{py,ts}", "src", {"src/a.py", "src/b.ts"}),
        ("./src/?.py", None, {"src/a.py"}),
        ("src/[!a].ts", None, {"src/b.ts"}),
        ("**/说*.md", None, {"文档/说明.md"}),
        (".github/**", None, {".github/f.yml"}),
    ],
)
async def test_glob_patterns_mean_what_shells_mean(
    context: ToolContext, tree: Path, pattern: str, path: str | None, expected: set[str]
) -> None:
    assert (
        set((await call(context, "glob", pattern=pattern, path=path)).text.splitlines())
        == expected
    )


async def test_glob_without_a_match_says_what_would_look_deeper(
    context: ToolContext, tree: Path
) -> None:
    outcome = await call(context, "glob", pattern="*.py")
    assert (outcome.brief, outcome.is_error) == ("no files", False)
    assert "`**/*.py`" in outcome.text


@pytest.mark.parametrize("pattern", ["../*", "/etc/*", "~/x", "{a,b}" * 20])
async def test_glob_patterns_that_leave_the_folder_or_explode_are_refused(
    context: ToolContext, pattern: str
) -> None:
    assert (await call(context, "glob", pattern=pattern)).is_error


async def test_glob_ends_in_a_tree_with_link_loops(context: ToolContext) -> None:
    (context.cwd / "a").mkdir()
    (context.cwd / "a" / "up").symlink_to("..")
    (context.cwd / "a" / "f.txt").write_text("")
    assert (await call(context, "glob", pattern="**/*.txt")).text == "a/f.txt\n"


async def test_glob_is_capped(context: ToolContext) -> None:
    for number in range(510):
        (context.cwd / f"f{number}").touch()
    outcome = await call(context, "glob", pattern="*")
    assert outcome.brief == "510 files"
    assert "the 500 newest of 510" in outcome.text


async def test_ls_shows_folders_first_with_sizes_and_links(
    context: ToolContext,
) -> None:
    (context.cwd / "b").mkdir()
    (context.cwd / "a.txt").write_text("x" * 1234)
    (context.cwd / ".hidden").write_text("")
    (context.cwd / "link").symlink_to("a.txt")
    (context.cwd / "loop").symlink_to("loop")
    outcome = await call(context, "ls")
    assert (
        outcome.text == "b/\n.hidden  0 B\na.txt  1.2 kB\nlink -> a.txt\nloop -> loop\n"
    )
    assert outcome.brief == "5 entries"


async def test_ls_of_a_file_or_of_nothing_is_an_error(context: ToolContext) -> None:
    (context.cwd / "a").write_text("")
    assert "use `read`" in (await call(context, "ls", path="a")).text
    assert (await call(context, "ls", path="nowhere")).is_error


async def test_ls_is_capped(context: ToolContext) -> None:
    for number in range(510):
        (context.cwd / f"f{number:03}").touch()
    assert "[10 more" in (await call(context, "ls")).text


async def test_grep_runs_no_module_of_the_folder(
    context: ToolContext, tree: Path, searcher: str
) -> None:
    """Python, told to run a module, takes those of the current folder first: `json` may be anybody's."""
    for name in ("json", "base64", "foldline", "pathspec"):
        (tree / f"{name}.py").write_text("open('ran', 'w')\n")
    assert files_of((await call(context, "grep", pattern="needle")).text) == VISIBLE
    assert not (tree / "ran").exists()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names")
@pytest.mark.parametrize("kind", ["pipe", "endless", "slow", "stars"])
async def test_an_ignore_file_made_to_hold_us_up_is_passed_over(
    context: ToolContext, kind: str
) -> None:
    """A pipe nobody writes to, a link to a device without end, patterns that take hours with a long name."""
    ignore = context.cwd / ".gitignore"
    long = "a" * 240
    (context.cwd / long).touch()
    match kind:
        case "pipe":
            os.mkfifo(ignore)
        case "endless":
            ignore.symlink_to("/dev/zero")
        case "slow":
            ignore.write_text("**a" * 12 + "b\n*.log\n")
        case _:
            ignore.write_text("*" * 40 + "b\n")
    outcome = await asyncio.wait_for(call(context, "glob", pattern="a*"), 60)
    assert outcome.text.startswith(long)


@pytest.mark.parametrize("tool", ["glob", "grep"])
@pytest.mark.parametrize(
    "pattern", ["*a" * 12 + "b", "**/" * 12 + "b", "**a" * 12 + "b", "*" * 40 + "b"]
)
async def test_a_pattern_that_would_take_hours_is_refused(
    context: ToolContext, tool: str, pattern: str, searcher: str
) -> None:
    (context.cwd / ("a" * 240)).write_text("needle")
    given = {
        "glob": {"pattern": pattern},
        "grep": {"pattern": "needle", "glob": pattern},
    }[tool]
    outcome = await asyncio.wait_for(call(context, tool, **given), 60)
    assert outcome.is_error
    assert TOO_MANY_STARS in outcome.text
