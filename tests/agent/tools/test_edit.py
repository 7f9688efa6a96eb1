import asyncio
import os
import stat
from pathlib import Path

import pytest

from foldline.agent.tools import ToolContext, ToolFailure
from support.tools import TOOLS, call


@pytest.fixture
def file(context: ToolContext) -> Path:
    path = context.cwd / "a.py"
    path.write_text("def one():\n    return 1\n\n\ndef two():\n    return 2\n")
    return path


async def test_an_edit_replaces_the_only_occurrence_and_counts_lines(
    context: ToolContext, file: Path
) -> None:
    outcome = await call(context, "edit", path="a.py", old="    return 1\n", new="    x = 1\n    return x\n")
    assert file.read_text() == "def one():\n    x = 1\n    return x\n\n\ndef two():\n    return 2\n"
    assert outcome.brief == "+2 −1"
    (touch,) = outcome.files
    assert (touch.path, touch.action, touch.added, touch.removed) == ("a.py", "modified", 2, 1)
    assert outcome.diff is not None
    assert "-    return 1\n+    x = 1\n+    return x\n" in outcome.diff


async def test_an_edit_that_is_not_unique_names_the_lines(context: ToolContext, file: Path) -> None:
    before = file.read_bytes()
    outcome = await call(context, "edit", path="a.py", old="    return", new="    yield")
    assert outcome.is_error
    assert "2 times" in outcome.text
    assert "lines 2, 6" in outcome.text
    assert file.read_bytes() == before


async def test_replace_all_replaces_every_occurrence(context: ToolContext, file: Path) -> None:
    outcome = await call(context, "edit", path="a.py", old="return", new="yield", replace_all=True)
    assert file.read_text().count("yield") == 2
    assert outcome.brief == "+2 −2"


@pytest.mark.parametrize(
    ("old", "hint"),
    [
        ("  return 2", ""),
        ("def two():\n    return 3", "begins at line 5, but line 6 differs: the file has `    return 2`"),
        ("def one():\n  return 1", "line 2 differs only in white space"),
        ("\tdef one():", "nearest line is 1, but it differs only in white space"),
        ("def three():", "nearest line is 1: `def one():`"),
        ("zzz", "No line is like"),
    ],
)
async def test_text_that_is_not_there_says_where_it_almost_is(
    context: ToolContext, file: Path, old: str, hint: str
) -> None:
    outcome = await call(context, "edit", path="a.py", old=old, new="x")
    if hint:
        assert outcome.is_error
        assert hint in outcome.text
    else:
        assert not outcome.is_error


async def test_a_file_changed_since_it_was_read_is_not_edited(context: ToolContext, file: Path) -> None:
    await call(context, "read", path="a.py")
    file.write_text("def one():\n    return 10\n")
    outcome = await call(context, "edit", path="a.py", old="def one", new="def uno")
    assert outcome.is_error
    assert "changed on disk" in outcome.text
    assert file.read_text() == "def one():\n    return 10\n"
    await call(context, "read", path="a.py")
    assert not (await call(context, "edit", path="a.py", old="def one", new="def uno")).is_error


async def test_a_touched_file_with_the_same_content_is_not_stale(context: ToolContext, file: Path) -> None:
    await call(context, "read", path="a.py")
    os.utime(file, (1, 1))
    assert not (await call(context, "edit", path="a.py", old="def one", new="def uno")).is_error


async def test_our_own_edits_make_nothing_stale(context: ToolContext, file: Path) -> None:
    await call(context, "read", path="a.py")
    for old, new in [("one", "uno"), ("two", "due"), ("uno", "un")]:
        assert not (await call(context, "edit", path="a.py", old=old, new=new)).is_error


async def test_a_write_over_a_stale_file_is_refused(context: ToolContext, file: Path) -> None:
    await call(context, "read", path="a.py")
    file.write_text("the user's\n")
    outcome = await call(context, "write", path="a.py", content="ours\n")
    assert outcome.is_error
    assert file.read_text() == "the user's\n"


async def test_what_was_previewed_is_what_is_applied(context: ToolContext, file: Path) -> None:
    arguments = {"path": "a.py", "old": "one", "new": "uno"}
    diff = TOOLS["edit"].preview(arguments, context)
    assert diff is not None
    assert "+def uno():" in diff
    file.write_text("one\n")
    assert (await call(context, "edit", **arguments)).is_error


async def test_edits_at_the_same_time_do_not_lose_one_another(context: ToolContext) -> None:
    path = context.cwd / "many.txt"
    path.write_text("".join(f"<{n}>\n" for n in range(20)))
    await asyncio.gather(
        *(call(context, "edit", path="many.txt", old=f"<{n}>", new=f"[{n}]") for n in range(20))
    )
    assert path.read_text() == "".join(f"[{n}]\n" for n in range(20))


async def test_crlf_and_byte_order_mark_are_kept(context: ToolContext) -> None:
    path = context.cwd / "a.txt"
    path.write_bytes(b"\xef\xbb\xbfone\r\ntwo\r\nthree\r\n")
    outcome = await call(context, "edit", path="a.txt", old="one\ntwo\n", new="1\n2\n2b\n")
    assert not outcome.is_error
    assert path.read_bytes() == b"\xef\xbb\xbf1\r\n2\r\n2b\r\nthree\r\n"


async def test_new_lines_within_a_line_get_the_line_ends_of_the_file(context: ToolContext) -> None:
    path = context.cwd / "a.txt"
    path.write_bytes(b"one\r\ntwo\r\n")
    await call(context, "edit", path="a.txt", old="two", new="2\n3")
    assert path.read_bytes() == b"one\r\n2\r\n3\r\n"


async def test_bytes_that_are_not_utf8_survive_an_edit_elsewhere(context: ToolContext) -> None:
    path = context.cwd / "latin.txt"
    path.write_bytes(b"caf\xe9\nname = 1\n")
    await call(context, "edit", path="latin.txt", old="name = 1", new="name = 2")
    assert path.read_bytes() == b"caf\xe9\nname = 2\n"


async def test_a_file_in_utf16_is_not_edited(context: ToolContext) -> None:
    path = context.cwd / "a.txt"
    path.write_bytes("one\n".encode("utf-16"))
    before = path.read_bytes()
    assert "UTF-16" in (await call(context, "edit", path="a.txt", old="one", new="two")).text
    assert path.read_bytes() == before


async def test_patterns_in_the_text_are_only_text(context: ToolContext) -> None:
    path = context.cwd / "a.txt"
    path.write_text("a.*b [x]\n")
    await call(context, "edit", path="a.txt", old="a.*b [x]", new=r"\1 \g<0>")
    assert path.read_text() == "\\1 \\g<0>\n"


async def test_chinese_text_is_edited(context: ToolContext) -> None:
    path = context.cwd / "说明.md"
    path.write_text("# 标题\n必须保留。\n")
    outcome = await call(context, "edit", path="说明.md", old="必须保留", new="不要删除")
    assert path.read_text() == "# 标题\n不要删除。\n"
    assert outcome.text.startswith("Edited 说明.md")


@pytest.mark.parametrize(("old", "new"), [("", "x"), ("one", "one")])
async def test_an_empty_or_pointless_edit_is_refused(
    context: ToolContext, file: Path, old: str, new: str
) -> None:
    assert (await call(context, "edit", path="a.py", old=old, new=new)).is_error


async def test_mode_and_link_survive_an_edit(context: ToolContext, file: Path) -> None:
    file.chmod(0o750)
    link = context.cwd / "link.py"
    link.symlink_to("a.py")
    await call(context, "edit", path="link.py", old="one", new="uno")
    assert link.is_symlink()
    assert "uno" in file.read_text()
    assert stat.S_IMODE(file.stat().st_mode) == 0o750


async def test_a_write_makes_folders_and_leaves_no_temporary_files(context: ToolContext) -> None:
    outcome = await call(context, "write", path="x/y/新.txt", content="a\r\nb\n")
    assert (context.cwd / "x/y/新.txt").read_bytes() == b"a\r\nb\n"
    assert [path.name for path in (context.cwd / "x/y").iterdir()] == ["新.txt"]
    assert (outcome.brief, outcome.files[0].path, outcome.files[0].added) == ("2 lines", "x/y/新.txt", 2)


async def test_a_write_over_a_file_counts_what_changed(context: ToolContext, file: Path) -> None:
    outcome = await call(context, "write", path="a.py", content="def one():\n    return 1\n")
    assert (outcome.files[0].added, outcome.files[0].removed) == (0, 4)
    assert outcome.text == "Replaced a.py: 2 lines."


@pytest.mark.parametrize("name", ["-n.txt", "with space.txt", "quote'\".txt", "new\nline.txt", "[/red].txt"])
async def test_weird_file_names_are_written_read_and_edited(context: ToolContext, name: str) -> None:
    assert not (await call(context, "write", path=name, content="one\n")).is_error
    assert (await call(context, "read", path=name)).text == "one\n"
    outcome = await call(context, "edit", path=name, old="one", new="two")
    assert (context.cwd / name).read_text() == "two\n"
    assert "\n" not in outcome.files[0].path


async def test_a_folder_in_place_of_a_file_is_refused(context: ToolContext) -> None:
    (context.cwd / "folder").mkdir()
    (context.cwd / "file").write_text("x")
    assert (await call(context, "write", path="folder", content="x")).is_error
    assert (await call(context, "write", path="file/below", content="x")).is_error
    assert (await call(context, "edit", path="folder", old="a", new="b")).is_error


async def test_a_symlink_loop_is_refused(context: ToolContext) -> None:
    (context.cwd / "loop").symlink_to("loop")
    assert (await call(context, "edit", path="loop", old="a", new="b")).is_error
    outcome = await call(context, "write", path="loop", content="b")
    assert outcome.is_error
    assert (context.cwd / "loop").is_symlink()


async def test_lone_surrogates_are_refused_before_anything_is_written(context: ToolContext) -> None:
    assert (await call(context, "write", path="a", content="\ud800")).is_error
    assert not (context.cwd / "a").exists()


def test_changes_elsewhere_count_as_outside(context: ToolContext) -> None:
    assert TOOLS["write"].inside({"path": "a", "content": ""}, context)
    assert not TOOLS["edit"].inside({"path": "/etc/hosts", "old": "a", "new": "b"}, context)


def test_a_preview_of_a_call_that_would_fail_says_why(context: ToolContext) -> None:
    with pytest.raises(ToolFailure, match="none does not exist"):
        TOOLS["edit"].preview({"path": "none", "old": "a", "new": "b"}, context)
    assert TOOLS["read"].preview({"path": "none"}, context) is None


def test_a_preview_of_a_new_file_adds_all_its_lines(context: ToolContext) -> None:
    diff = TOOLS["write"].preview({"path": "n.txt", "content": "a\nb\n"}, context)
    assert diff == "--- /dev/null\n+++ n.txt\n@@ -0,0 +1,2 @@\n+a\n+b\n"
