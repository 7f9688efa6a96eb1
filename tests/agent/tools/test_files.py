import asyncio
import base64
import errno
import os
import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foldline.agent.tools import ToolContext, ToolFailure, files
from foldline.agent.tools.text import decoded, with_line_ends
from foldline.view.tokens import estimate_tokens
from support.agents import PATIENCE
from support.images import KINDS, image, with_damaged_note
from support.sentences import says
from support.tools import TOOLS, call, tool_context


async def test_a_file_is_returned_plain_and_whole(context: ToolContext) -> None:
    (context.cwd / "a.txt").write_text("one\n\ttwo\nthree")
    outcome = await call(context, "read", path="a.txt")
    assert outcome.text == "one\n\ttwo\nthree"
    assert outcome.brief == "3 lines"
    assert [(touch.path, touch.action) for touch in outcome.files] == [
        ("a.txt", "read")
    ]


async def test_a_range_says_which_lines_it_is(context: ToolContext) -> None:
    (context.cwd / "a.txt").write_text("".join(f"line {n}\n" for n in range(1, 11)))
    outcome = await call(context, "read", path="a.txt", offset=3, limit=2)
    assert outcome.text == "line 3\nline 4\n[lines 3–4 of 10]"
    assert outcome.brief == "2 lines"


async def test_an_offset_beyond_the_end_is_an_error(context: ToolContext) -> None:
    (context.cwd / "a.txt").write_text("one\n")
    outcome = await call(context, "read", path="a.txt", offset=5)
    assert outcome.is_error
    assert "only 1 line" in outcome.text


async def test_a_long_file_is_clipped_and_its_pointer_gives_exactly_what_was_left_out(
    context: ToolContext,
) -> None:
    lines = [f"line {n} of a long file\n" for n in range(1, 3001)]
    (context.cwd / "a.txt").write_text("".join(lines))
    context.max_tokens = 800
    outcome = await call(context, "read", path="a.txt")
    assert estimate_tokens(outcome.text) <= 800
    shown = outcome.text.splitlines(keepends=True)
    at = next(number for number, line in enumerate(shown) if line.startswith("[…"))
    offset = int(shown[at].partition("offset ")[2].split()[0])
    limit = int(shown[at].partition("limit ")[2].split()[0])
    context.max_tokens = 1_000_000
    rest = await call(context, "read", path="a.txt", offset=offset, limit=limit)
    middle = rest.text.rpartition("[lines ")[0]
    assert "".join(shown[:at]) + middle + "".join(shown[at + 1 :]) == "".join(lines)


async def test_a_clipped_range_points_at_lines_of_the_file(
    context: ToolContext,
) -> None:
    (context.cwd / "a.txt").write_text(
        "".join(f"line {n} of a long file\n" for n in range(1, 3001))
    )
    context.max_tokens = 400
    outcome = await call(context, "read", path="a.txt", offset=1001, limit=1000)
    pointer = next(line for line in outcome.text.splitlines() if line.startswith("[…"))
    first_left_out = int(pointer.partition("offset ")[2].split()[0])
    assert f"line {first_left_out - 1} of" in outcome.text
    assert f"line {first_left_out} of" not in outcome.text
    assert outcome.text.endswith("[lines 1001–2000 of 3000]")


async def test_a_huge_line_is_clipped_within_its_room(context: ToolContext) -> None:
    (context.cwd / "a.js").write_text("x = 1; " * 300_000)
    context.max_tokens = 500
    outcome = await call(context, "read", path="a.js")
    assert estimate_tokens(outcome.text) <= 500
    assert "characters of line 1 left out" in outcome.text
    pointer = outcome.text.partition("`bash` ")[2].partition(" …]")[0]
    assert (await call(context, "bash", command=pointer)).text.startswith(
        ("x", " ", "=", "1", ";")
    )


async def test_no_room_at_all_still_gives_the_pointer(context: ToolContext) -> None:
    (context.cwd / "a.txt").write_text("word\n" * 1000)
    context.max_tokens = 0
    assert "offset 1 and limit 1000" in (await call(context, "read", path="a.txt")).text


async def test_chinese_text_is_clipped_by_its_own_weight(context: ToolContext) -> None:
    (context.cwd / "中文.md").write_text("压缩之后什么都没有丢失。\n" * 2000)
    context.max_tokens = 600
    outcome = await call(context, "read", path="中文.md")
    assert estimate_tokens(outcome.text) <= 600
    assert "中文.md with offset" in outcome.text


async def test_what_is_not_utf8_is_replaced_and_nul_never_comes_through(
    context: ToolContext,
) -> None:
    (context.cwd / "a.txt").write_bytes(b"caf\xe9\n" + b"x" * 9000 + b"\x00\n")
    outcome = await call(context, "read", path="a.txt")
    assert outcome.text.startswith("caf�\n")
    assert "\x00" not in outcome.text
    outcome.text.encode("utf-8")


async def test_byte_order_marks_are_not_content(context: ToolContext) -> None:
    (context.cwd / "a.txt").write_bytes(b"\xef\xbb\xbfhello\n")
    (context.cwd / "b.txt").write_bytes("hello\n".encode("utf-16"))
    assert (await call(context, "read", path="a.txt")).text == "hello\n"
    assert (await call(context, "read", path="b.txt")).text == "hello\n"


async def test_a_binary_file_is_refused(context: ToolContext) -> None:
    (context.cwd / "a.bin").write_bytes(b"\x7fELF\x00\x01")
    outcome = await call(context, "read", path="a.bin")
    assert outcome.is_error
    assert "binary" in outcome.text


@pytest.mark.parametrize("kind", KINDS)
async def test_an_image_is_returned_with_its_size_whatever_its_name(
    context: ToolContext, kind: str
) -> None:
    (context.cwd / "shot.dat").write_bytes(image(kind, 641, 483))
    outcome = await call(context, "read", path="shot.dat")
    (part,) = outcome.images
    assert part.media_type == f"image/{kind.partition('-')[0]}"
    assert (part.width, part.height) == (641, 483)
    assert "641 × 483" in outcome.text


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("left", [4, 20, -3])
async def test_an_image_that_is_cut_off_is_refused(
    context: ToolContext, kind: str, left: int
) -> None:
    (context.cwd / "a.img").write_bytes(
        image(kind)[: max(left, 12) if left > 0 else left]
    )
    outcome = await call(context, "read", path="a.img")
    assert outcome.is_error
    assert "is a broken image" in outcome.text


async def test_an_image_with_a_changed_byte_is_refused(context: ToolContext) -> None:
    whole = bytearray(image("png"))
    whole[-20] ^= 1
    (context.cwd / "a.png").write_bytes(whole)
    assert "is a broken image" in (await call(context, "read", path="a.png")).text


async def test_of_an_image_a_damaged_part_that_nothing_depends_on_is_left_out(
    context: ToolContext,
) -> None:
    (context.cwd / "a.png").write_bytes(with_damaged_note(image("png", 641, 483)))
    (part,) = (await call(context, "read", path="a.png")).images
    assert base64.b64decode(part.data) == image("png", 641, 483)


@pytest.mark.slow
@pytest.mark.parametrize(
    "content", [image("png") + b"\x00" * 5_000_000, image("gif", 9000, 10)]
)
async def test_a_giant_image_is_refused(context: ToolContext, content: bytes) -> None:
    (context.cwd / "a.png").write_bytes(content)
    outcome = await call(context, "read", path="a.png")
    assert outcome.brief == "too large ✗"
    assert not outcome.images


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="no /proc")
async def test_a_file_whose_size_the_system_does_not_know_is_read(
    context: ToolContext,
) -> None:
    assert (await call(context, "read", path="/proc/self/status")).text.startswith(
        "Name:"
    )


async def test_a_file_that_grows_beyond_the_bound_is_refused(
    context: ToolContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    (context.cwd / "a").write_text("text" * 100)
    monkeypatch.setattr(files, "LARGEST", 100)
    monkeypatch.setattr(
        files, "_refuse_unreadable", lambda status, shown: None
    )  # it was small then
    outcome = await call(context, "read", path="a")
    assert "more than 100 B" in outcome.text


async def test_a_pipe_in_place_of_a_file_is_not_waited_for(
    context: ToolContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.mkfifo(context.cwd / "a")
    (context.cwd / "b").touch()
    file = (context.cwd / "b").stat()
    monkeypatch.setattr(files, "status_in", lambda *_: file)
    async with asyncio.timeout(PATIENCE):
        assert "not a regular file" in (await call(context, "read", path="a")).text


async def test_a_missing_file_suggests_near_names(context: ToolContext) -> None:
    (context.cwd / "service.py").write_text("")
    (context.cwd / "deep").mkdir()
    (context.cwd / "deep" / "other.py").write_text("")
    near = await call(context, "read", path="servce.py")
    assert near.is_error
    assert "Did you mean service.py?" in near.text
    elsewhere = await call(context, "read", path="src/other.py")
    assert "Did you mean deep/other.py?" in elsewhere.text


async def test_a_folder_a_pipe_and_a_link_in_a_loop_are_refused(
    context: ToolContext,
) -> None:
    (context.cwd / "folder").mkdir()
    (context.cwd / "loop").symlink_to("loop")
    os.mkfifo(context.cwd / "pipe")
    for name, reason in [
        ("folder", files.A_FOLDER),
        ("pipe", files.NOT_ORDINARY),
        ("loop", files.NOT_READ),
    ]:
        outcome = await call(context, "read", path=name)
        assert outcome.is_error
        assert says(outcome.text, reason)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
async def test_a_file_without_permission_is_an_error(context: ToolContext) -> None:
    path = context.cwd / "secret"
    path.write_text("x")
    path.chmod(0)
    outcome = await call(context, "read", path="secret")
    assert outcome.is_error
    assert "permission denied" in outcome.text


async def test_an_empty_file_says_so(context: ToolContext) -> None:
    (context.cwd / "a").write_text("")
    outcome = await call(context, "read", path="a")
    assert (outcome.text, outcome.brief, outcome.is_error) == (
        "[a is empty]",
        "0 lines",
        False,
    )


async def test_home_is_expanded_and_paths_inside_are_named_relative(
    context: ToolContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(context.cwd))
    (context.cwd / "a").write_text("x\n")
    outcome = await call(context, "read", path="~/a")
    assert outcome.files[0].path == "a"


@pytest.mark.parametrize("path", ["", "  ", "a\x00b", "~nobody-of-that-name/x"])
async def test_a_senseless_path_is_one_sentence(
    context: ToolContext, path: str
) -> None:
    assert (await call(context, "read", path=path)).is_error


def test_reading_outside_is_outside_also_through_a_link_but_spilled_output_is_not(
    tmp_path: Path,
) -> None:
    cwd = tmp_path / "project"
    cwd.mkdir()
    context = tool_context(cwd)
    (cwd / "out").symlink_to("/etc")
    read = TOOLS["read"]
    assert read.inside({"path": "a/b"}, context)
    assert not read.inside({"path": "../x"}, context)
    assert not read.inside({"path": "out/hosts"}, context)
    assert read.inside({"path": str(context.spill_dir / "bash-1.txt")}, context)


@pytest.fixture
def file(context: ToolContext) -> Path:
    path = context.cwd / "a.py"
    path.write_text("def one():\n    return 1\n\n\ndef two():\n    return 2\n")
    return path


async def test_an_edit_replaces_the_only_occurrence_and_counts_lines(
    context: ToolContext, file: Path
) -> None:
    outcome = await call(
        context,
        "edit",
        path="a.py",
        old="    return 1\n",
        new="    x = 1\n    return x\n",
    )
    assert (
        file.read_text()
        == "def one():\n    x = 1\n    return x\n\n\ndef two():\n    return 2\n"
    )
    assert outcome.brief == "+2 −1"
    (touch,) = outcome.files
    assert (touch.path, touch.action, touch.added, touch.removed) == (
        "a.py",
        "modified",
        2,
        1,
    )
    assert outcome.diff is not None
    assert "-    return 1\n+    x = 1\n+    return x\n" in outcome.diff


async def test_an_edit_that_is_not_unique_names_the_lines(
    context: ToolContext, file: Path
) -> None:
    before = file.read_bytes()
    outcome = await call(
        context, "edit", path="a.py", old="    return", new="    yield"
    )
    assert outcome.is_error
    assert "2 times" in outcome.text
    assert "lines 2, 6" in outcome.text
    assert file.read_bytes() == before


async def test_replace_all_replaces_every_occurrence(
    context: ToolContext, file: Path
) -> None:
    outcome = await call(
        context, "edit", path="a.py", old="return", new="yield", replace_all=True
    )
    assert file.read_text().count("yield") == 2
    assert outcome.brief == "+2 −2"


@pytest.mark.parametrize(
    ("old", "hint"),
    [
        ("  return 2", ""),
        (
            "def two():\n    return 3",
            files.DIFFERS_AT.format(
                start=5, line=6, differs=files.DIFFERS, text="`    return 2`"
            ),
        ),
        (
            "def one():\n  return 1",
            files.DIFFERS_AT.format(
                start=1, line=2, differs=files.WHITE_SPACE, text="`    return 1`"
            ),
        ),
        (
            "\tdef one():",
            files.DIFFERS_AT.format(
                start=1, line=1, differs=files.WHITE_SPACE, text="`def one():`"
            ),
        ),
        (
            "def onee():",
            files.DIFFERS_AT.format(
                start=1, line=1, differs=files.DIFFERS, text="`def one():`"
            ),
        ),
        ("zzz", files.NOTHING_SIMILAR),
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


async def test_a_file_changed_since_it_was_read_is_not_edited(
    context: ToolContext, file: Path
) -> None:
    await call(context, "read", path="a.py")
    file.write_text("def one():\n    return 10\n")
    outcome = await call(context, "edit", path="a.py", old="def one", new="def uno")
    assert outcome.is_error
    assert says(outcome.text, files.STALE)
    assert file.read_text() == "def one():\n    return 10\n"
    await call(context, "read", path="a.py")
    assert not (
        await call(context, "edit", path="a.py", old="def one", new="def uno")
    ).is_error


async def test_a_touched_file_with_the_same_content_is_not_stale(
    context: ToolContext, file: Path
) -> None:
    await call(context, "read", path="a.py")
    os.utime(file, (1, 1))
    assert not (
        await call(context, "edit", path="a.py", old="def one", new="def uno")
    ).is_error


async def test_our_own_edits_make_nothing_stale(
    context: ToolContext, file: Path
) -> None:
    await call(context, "read", path="a.py")
    for old, new in [("one", "uno"), ("two", "due"), ("uno", "un")]:
        assert not (await call(context, "edit", path="a.py", old=old, new=new)).is_error


async def test_a_write_over_a_stale_file_is_refused(
    context: ToolContext, file: Path
) -> None:
    await call(context, "read", path="a.py")
    file.write_text("the user's\n")
    outcome = await call(context, "write", path="a.py", content="ours\n")
    assert outcome.is_error
    assert file.read_text() == "the user's\n"


async def test_what_was_previewed_is_what_is_applied(
    context: ToolContext, file: Path
) -> None:
    arguments = {"path": "a.py", "old": "one", "new": "uno"}
    diff = TOOLS["edit"].preview(arguments, context)
    assert diff is not None
    assert "+def uno():" in diff
    file.write_text("one\n")
    assert (await call(context, "edit", **arguments)).is_error


async def test_edits_at_the_same_time_do_not_lose_one_another(
    context: ToolContext,
) -> None:
    path = context.cwd / "many.txt"
    path.write_text("".join(f"<{n}>\n" for n in range(20)))
    await asyncio.gather(
        *(
            call(context, "edit", path="many.txt", old=f"<{n}>", new=f"[{n}]")
            for n in range(20)
        )
    )
    assert path.read_text() == "".join(f"[{n}]\n" for n in range(20))


async def test_crlf_and_byte_order_mark_are_kept(context: ToolContext) -> None:
    path = context.cwd / "a.txt"
    path.write_bytes(b"\xef\xbb\xbfone\r\ntwo\r\nthree\r\n")
    outcome = await call(
        context, "edit", path="a.txt", old="one\ntwo\n", new="1\n2\n2b\n"
    )
    assert not outcome.is_error
    assert path.read_bytes() == b"\xef\xbb\xbf1\r\n2\r\n2b\r\nthree\r\n"


async def test_new_lines_within_a_line_get_the_line_ends_of_the_file(
    context: ToolContext,
) -> None:
    path = context.cwd / "a.txt"
    path.write_bytes(b"one\r\ntwo\r\n")
    await call(context, "edit", path="a.txt", old="two", new="2\n3")
    assert path.read_bytes() == b"one\r\n2\r\n3\r\n"


async def test_bytes_that_are_not_utf8_survive_an_edit_elsewhere(
    context: ToolContext,
) -> None:
    path = context.cwd / "latin.txt"
    path.write_bytes(b"caf\xe9\nname = 1\n")
    await call(context, "edit", path="latin.txt", old="name = 1", new="name = 2")
    assert path.read_bytes() == b"caf\xe9\nname = 2\n"


async def test_a_file_in_utf16_is_not_edited(context: ToolContext) -> None:
    path = context.cwd / "a.txt"
    path.write_bytes("one\n".encode("utf-16"))
    before = path.read_bytes()
    assert (
        "UTF-16"
        in (await call(context, "edit", path="a.txt", old="one", new="two")).text
    )
    assert path.read_bytes() == before


async def test_patterns_in_the_text_are_only_text(context: ToolContext) -> None:
    path = context.cwd / "a.txt"
    path.write_text("a.*b [x]\n")
    await call(context, "edit", path="a.txt", old="a.*b [x]", new=r"\1 \g<0>")
    assert path.read_text() == "\\1 \\g<0>\n"


async def test_chinese_text_is_edited(context: ToolContext) -> None:
    path = context.cwd / "说明.md"
    path.write_text("# 标题\n必须保留。\n")
    outcome = await call(
        context, "edit", path="说明.md", old="必须保留", new="不要删除"
    )
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


async def test_a_write_makes_folders_and_leaves_no_temporary_files(
    context: ToolContext,
) -> None:
    outcome = await call(context, "write", path="x/y/新.txt", content="a\r\nb\n")
    assert (context.cwd / "x/y/新.txt").read_bytes() == b"a\r\nb\n"
    assert [path.name for path in (context.cwd / "x/y").iterdir()] == ["新.txt"]
    assert (outcome.brief, outcome.files[0].path, outcome.files[0].added) == (
        "2 lines",
        "x/y/新.txt",
        2,
    )


async def test_a_write_over_a_file_counts_what_changed(
    context: ToolContext, file: Path
) -> None:
    outcome = await call(
        context, "write", path="a.py", content="def one():\n    return 1\n"
    )
    assert (outcome.files[0].added, outcome.files[0].removed) == (0, 4)
    assert outcome.text == "Replaced a.py: 2 lines."


@pytest.mark.parametrize(
    "name", ["-n.txt", "with space.txt", "quote'\".txt", "new\nline.txt", "[/red].txt"]
)
async def test_weird_file_names_are_written_read_and_edited(
    context: ToolContext, name: str
) -> None:
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


async def test_lone_surrogates_are_refused_before_anything_is_written(
    context: ToolContext,
) -> None:
    assert (await call(context, "write", path="a", content="\ud800")).is_error
    assert not (context.cwd / "a").exists()


def test_changes_elsewhere_count_as_outside(context: ToolContext) -> None:
    assert TOOLS["write"].inside({"path": "a", "content": ""}, context)
    assert not TOOLS["edit"].inside(
        {"path": "/etc/hosts", "old": "a", "new": "b"}, context
    )


def test_a_preview_of_a_call_that_would_fail_says_why(context: ToolContext) -> None:
    with pytest.raises(ToolFailure, match="none does not exist"):
        TOOLS["edit"].preview({"path": "none", "old": "a", "new": "b"}, context)
    assert TOOLS["read"].preview({"path": "none"}, context) is None


def test_a_preview_of_a_new_file_adds_all_its_lines(context: ToolContext) -> None:
    diff = TOOLS["write"].preview({"path": "n.txt", "content": "a\nb\n"}, context)
    assert diff == "--- /dev/null\n+++ n.txt\n@@ -0,0 +1,2 @@\n+a\n+b\n"


# --- what a changed file keeps ---------------------------------------------------------------------------


def attributes(path: Path) -> dict[str, bytes]:
    return {
        name: os.getxattr(path, name)
        for name in os.listxattr(path)
        if name.startswith("user.")
    }


def with_attribute(path: Path) -> None:
    try:
        os.setxattr(path, "user.origin", b"a download")
    except (OSError, AttributeError):
        pytest.skip("no extended attributes here")


@pytest.mark.parametrize("name", ["edit", "write"])
async def test_a_changed_file_keeps_its_mode_and_extended_attributes(
    context: ToolContext, name: str
) -> None:
    path = context.cwd / "a.txt"
    path.write_text("one\n")
    path.chmod(0o2751)
    with_attribute(path)
    changes = {"edit": {"old": "one", "new": "two"}, "write": {"content": "two\n"}}
    await call(context, name, path="a.txt", **changes[name])
    assert path.read_text() == "two\n" and path.stat().st_mode & 0o7777 == 0o2751
    assert attributes(path) == {"user.origin": b"a download"}


@pytest.mark.parametrize("forbidden", ["fchown", "rename"])
async def test_a_file_that_cannot_be_replaced_by_its_like_is_written_in_its_place(
    context: ToolContext, monkeypatch: pytest.MonkeyPatch, forbidden: str
) -> None:
    """It is another user's, or mounted by itself."""

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    def busy(*_: object, **__: object) -> None:
        raise OSError(errno.EBUSY, "Device or resource busy")

    path = context.cwd / "a.txt"
    path.write_text("one and much more\n")
    inode = path.stat().st_ino
    if forbidden == "fchown":
        monkeypatch.setattr("foldline.files._give_owner", refuse)
    else:
        monkeypatch.setattr("foldline.files.os.replace", busy)
    await call(context, "edit", path="a.txt", old="one and much more", new="two")
    assert path.read_text() == "two\n" and path.stat().st_ino == inode
    assert [each.name for each in context.cwd.iterdir()] == ["a.txt"], (
        "no draft is left"
    )


async def test_a_hard_linked_file_of_another_user_is_not_written_through(
    context: ToolContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr("foldline.files._give_owner", refuse)
    (context.cwd / "a.txt").write_text("one\n")
    (context.cwd / "b.txt").hardlink_to(context.cwd / "a.txt")
    outcome = await call(context, "edit", path="a.txt", old="one", new="two")
    assert (
        outcome.is_error
        and (context.cwd / "b.txt").read_text()
        == (context.cwd / "a.txt").read_text()
        == "one\n"
    )


async def test_a_changed_hard_link_is_said(context: ToolContext) -> None:
    (context.cwd / "a.txt").write_text("one\n")
    for name in ("b.txt", "c.txt"):
        (context.cwd / name).hardlink_to(context.cwd / "a.txt")
    outcome = await call(context, "edit", path="a.txt", old="one", new="two")
    assert files.OTHER_LINKS.format(links="2 other names") in outcome.text
    assert outcome.brief.endswith("hard link")
    assert (context.cwd / "b.txt").read_text() == "one\n"
    again = await call(context, "edit", path="a.txt", old="two", new="three")
    assert "hard link" not in again.text + again.brief


async def test_a_full_disk_tears_no_file_that_is_written_in_its_place(
    context: ToolContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("foldline.files._give_owner", refuse)
    monkeypatch.setattr("foldline.files.os.posix_fallocate", full)
    (context.cwd / "a.txt").write_text("one\n")
    outcome = await call(context, "edit", path="a.txt", old="one", new="two, and more")
    assert outcome.is_error and (context.cwd / "a.txt").read_text() == "one\n"


# --- line ends and byte order marks ----------------------------------------------------------------------

BOM = b"\xef\xbb\xbf"
FORMS = {
    "CRLF": (b"one\r\ntwo\r\n", "one\nnew\ntwo\n", b"one\r\nnew\r\ntwo\r\n"),
    "LF": (b"one\ntwo\n", "one\r\nnew\r\ntwo\r\n", b"one\nnew\ntwo\n"),
    "byte order mark": (BOM + b"one\r\n", "two\n", BOM + b"two\r\n"),
    "a mark that the text has, too": (BOM + b"one\n", "\ufefftwo\n", BOM + b"two\n"),
    "mixed, mostly LF": (
        b"a\r\nb\nc\nd\ne\r\n",
        "a\nb\nX\nY\nd\ne\n",
        b"a\r\nb\nX\nY\nd\ne\r\n",
    ),
    "mixed, mostly CRLF": (
        b"a\nb\r\nc\r\nd\r\n",
        "a\nX\nY\nd\n",
        b"a\nX\r\nY\r\nd\r\n",
    ),
    "no line end yet": (b"one", "one\r\ntwo\n", b"one\r\ntwo\n"),
    "no line end any more": (b"one\r\ntwo\r\n", "one", b"one"),
    "without its last line end": (b"one\r\ntwo\r\n", "one\ntwo", b"one\r\ntwo"),
    "emptied": (BOM + b"one\r\n", "", b""),
    "empty before": (b"", "one\r\ntwo\n", b"one\r\ntwo\n"),
    "the same": (b"a\r\nb\nc\r\n", "a\nb\nc\n", b"a\r\nb\nc\r\n"),
    "repeated lines": (b"x\r\nx\nx\r\n", "x\nx\n", b"x\r\nx\n"),
    "binary": (b"\x00\r\n\r\n", "one\ntwo\n", b"one\ntwo\n"),
    "UTF-16": (
        "\ufeffone\r\n".encode("utf-16-le"),
        "zwölf\nzwei\n",
        "\ufeffzwölf\r\nzwei\r\n".encode("utf-16-le"),
    ),
    "old Mac": (b"one\rtwo\r", "one\rtwo\nthree\n", b"one\rtwo\nthree\n"),
}


@pytest.mark.parametrize("before, content, after", FORMS.values(), ids=FORMS)
async def test_write_keeps_line_ends_and_byte_order_mark(
    context: ToolContext, before: bytes, content: str, after: bytes
) -> None:
    path = context.cwd / "a.txt"
    path.write_bytes(before)
    outcome = await call(context, "write", path="a.txt", content=content)
    assert path.read_bytes() == after
    assert (outcome.diff is None) is (decoded(before) == decoded(after))


async def test_a_new_file_gets_exactly_what_was_written(context: ToolContext) -> None:
    await call(context, "write", path="new.txt", content="\ufeffa\r\nb\n")
    assert (context.cwd / "new.txt").read_bytes() == BOM + b"a\r\nb\n"


async def test_an_edit_keeps_the_line_ends_of_the_lines_it_repeats(
    context: ToolContext,
) -> None:
    path = context.cwd / "a.txt"
    path.write_bytes(BOM + b"a\r\nb\nc\r\nd\r\n")
    await call(context, "edit", path="a.txt", old="a\nb\nc\n", new="a\nb\nX\nc\n")
    assert path.read_bytes() == BOM + b"a\r\nb\nX\r\nc\r\nd\r\n"


@given(
    st.lists(st.sampled_from(["a", "b", "", "c\r"])),
    st.lists(st.sampled_from(["a", "b", "", "d"])),
)
def test_only_line_ends_differ_from_the_text_that_was_given(
    old: list[str], new: list[str]
) -> None:
    before, text = "\n".join(old).encode(), "\n".join(new)
    assert with_line_ends(text, before, before).decode().replace("\r\n", "\n") == text
