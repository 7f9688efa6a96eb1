"""The prompt as one uses it: its own shell, completion, the queue, earlier prompts."""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len

from foldline.frontend.inputs import (
    EmptyShellCall,
    PromptText,
    ShellCall,
    TypedWord,
    parse_input,
    typed_word,
)
from foldline.frontend.state import ChatState, Stepping, Waiting
from foldline.protocol import ImagePart, TextPart, UserMessage, dump_entry, text_parts
from foldline.tui.chat.escape_actions import ESC_CLOSES_LIST
from foldline.tui.messages import PromptSubmitted, QueueEdited
from foldline.tui.prompting import file_finder
from foldline.tui.prompting.attachments import Attachments
from foldline.tui.prompting.earlier import (
    EarlierPrompts,
    prompt_texts,
    prompts_in,
    typed_messages,
)
from foldline.tui.prompting.file_finder import (
    SLICE,
    FileFinder,
    FileListing,
    list_tree,
    matching,
)
from foldline.tui.prompting.prompt import SHELL_HINT
from foldline.tui.prompting.queue import (
    EDIT_QUEUED,
    HIDES_OUTPUT,
    RUNS_SHELL,
    SEES_OUTPUT,
    move_prompt,
    without_prompt,
)
from support.agents import PATIENCE
from support.chat_app import ChatApp, burst, screen_text
from support.history import history
from support.stories import screen_rows

QUEUED = ChatState(
    activity=Stepping(90.0), waiting=Waiting(queued=("one", "two", "three"))
)


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not condition():
            await asyncio.sleep(0.01)


# --- the reader's own shell -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("!ls -la", ShellCall("ls -la", aside=False)),
        ("!! ls\n", ShellCall("ls", aside=True)),
        ("! a\nb", ShellCall("a\nb", aside=False)),
        ("! ", EmptyShellCall()),
        ("!!", EmptyShellCall()),
        (" !important", PromptText(" !important")),
    ],
)
def test_what_begins_with_an_exclamation_mark_is_for_the_shell(
    typed: str, meant: object
) -> None:
    assert parse_input(typed) == meant


async def test_the_frame_says_who_sees_what_a_command_puts_out() -> None:
    app = ChatApp(ChatState())
    async with app.run_test(size=(120, 36)) as pilot:
        frame = [row for row in screen_text(app) if "Enter sends" in row]
        assert "· / commands · @ files · ! shell ━" in frame[0]
        for typed, words in (
            ("!ls", f"{RUNS_SHELL} · {SEES_OUTPUT}"),
            ("!!ls", HIDES_OUTPUT),
        ):
            app.chat.prompt.editor.put(typed)
            await pilot.pause()
            assert any(words in row for row in screen_text(app))
        await pilot.press("enter")
        assert [
            posted.text for posted in app.posted if isinstance(posted, PromptSubmitted)
        ] == ["!!ls"]
        app.chat.prompt.editor.put("!")
        await pilot.press("enter")
        await pilot.pause()
        assert SHELL_HINT in screen_text(app)[-2] and len(app.posted) == 1
    app = ChatApp(ChatState())
    async with app.run_test(size=(80, 24)) as pilot:
        assert any("Enter sends · / @ ! ━" in row for row in screen_text(app))


# --- completion -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "asked", "found"),
    [
        ("/theme fo", False, TypedWord("argument", "fo", 7, "theme")),
        ("/theme ", False, TypedWord("argument", "", 7, "theme")),
        ("/help me", False, None),
        ("!cat src/a", False, None),
        ("!cat src/a", True, TypedWord("path", "src/a", 5)),
        ("!", True, TypedWord("path", "", 1)),
        ("!cat a\\ b", True, TypedWord("path", "a\\ b", 5)),
        ("!cat 'a", True, None),
    ],
)
def test_arguments_complete_by_themselves_and_paths_for_the_shell_when_asked(
    line: str, asked: bool, found: object
) -> None:
    assert typed_word(line, len(line), first_line=True, asked=asked) == found


async def test_tab_takes_arguments_and_paths_and_enter_never_runs_another_command(
    tmp_path: Path,
) -> None:
    (tmp_path / "my file.txt").write_text("")
    app = ChatApp(ChatState(), root=tmp_path)
    async with app.run_test(size=(100, 30)) as pilot:
        editor, shown = app.chat.prompt.editor, app.chat.completion
        editor.put("/strategy ")
        await pilot.pause()
        assert shown.open and shown.offered.marked is None, (
            "nothing is taken where the command is whole"
        )
        editor.put("/strategy hier")
        await pilot.pause()
        await pilot.press("tab")
        assert editor.text == "/strategy hierarchical"
        editor.put("!cat my")
        await pilot.pause()
        assert not shown.open, "Enter runs what is typed"
        await pilot.press("tab")
        await until(lambda: shown.open or editor.text != "!cat my")
        await pilot.press("tab")
        assert editor.text == "!cat my\\ file.txt "


def box(app: ChatApp) -> str:
    """What stands on the screen where the list of completions is."""
    area = app.chat.completion.region
    return "\n".join(
        row[area.x : area.right] for row in screen_text(app)[area.y : area.bottom]
    )


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize(
    ("typed", "first", "one"), [("@proj", 10, "p0/proj.py"), ("/", 10, "/sessions")]
)
async def test_completions_for_keys_in_one_burst_are_painted_each_time_they_come_up(
    tmp_path: Path, typed: str, first: int, one: str
) -> None:
    for number in range(12):
        (tmp_path / f"p{number}").mkdir()
        (tmp_path / f"p{number}" / "proj.py").touch()
    app = ChatApp(ChatState(), root=tmp_path)
    async with app.run_test(size=(100, 30)) as pilot:
        for _ in range(3):
            burst(app, typed)
            await until(lambda: app.chat.completion.open)
            await pilot.pause()
            assert box(app).count("\n") == first + 1 and one in box(app)
            await pilot.press("ctrl+u")
            assert not app.chat.completion.open


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize(
    ("typed", "marked", "then"),
    [
        ("@proj", "projects/", "@projects/"),
        ("/appr", "/approvals", "/approvals"),
        ("/theme high", "high-contrast", "/theme high-contrast"),
    ],
)
async def test_only_a_completion_that_was_painted_is_taken(
    tmp_path: Path, typed: str, marked: str, then: str
) -> None:
    (tmp_path / "projects").mkdir()
    (tmp_path / "projects" / "a.py").touch()
    app = ChatApp(ChatState(), root=tmp_path)
    async with app.run_test(size=(100, 30)) as pilot:
        editor, shown = app.chat.prompt.editor, app.chat.completion
        burst(app, "@")
        await until(lambda: shown.open)
        await pilot.press("ctrl+u")
        burst(app, f"{typed}\t")
        await pilot.pause()
        assert editor.text == typed and editor.has_focus and f"▶{marked}" in box(app)
        burst(app, "\t")
        await pilot.pause()
        assert editor.text.rstrip() == then
        await pilot.press("ctrl+u")
        burst(app, f"{typed}\r")
        await pilot.pause()
        sent = [each.text for each in app.posted if isinstance(each, PromptSubmitted)]
        assert sent == ["@proj"] * (typed == "@proj") and then not in editor.text


async def test_enter_takes_nothing_that_came_into_the_list_since_it_was_painted(
    tmp_path: Path,
) -> None:
    for name in ("projects.py", "zebra_proj.py"):
        (tmp_path / name).touch()
    app = ChatApp(ChatState(), root=tmp_path)
    async with app.run_test(size=(100, 30)) as pilot:
        burst(app, "@")
        await until(lambda: app.chat.completion.open)
        await pilot.pause()
        burst(app, "z\r")
        await pilot.pause()
        assert (
            app.chat.prompt.editor.text == "@z"
            and "▶zebra_proj.py" in box(app)
            and not app.posted
        )
        await pilot.press("enter")
        assert app.chat.prompt.editor.text == "@zebra_proj.py "


async def test_a_click_takes_the_completion_that_stands_there(tmp_path: Path) -> None:
    for name in ("proj_a.py", "proj_b.py"):
        (tmp_path / name).touch()
    app = ChatApp(ChatState(), root=tmp_path)
    async with app.run_test(size=(100, 30)) as pilot:
        burst(app, "@proj")
        await until(lambda: app.chat.completion.open)
        await pilot.pause()
        assert ESC_CLOSES_LIST in screen_text(app)[-2], (
            "also where the files became known later"
        )
        await pilot.click("#completion", offset=(5, 2))
        assert app.chat.prompt.editor.text == "@proj_b.py "


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize(
    ("keys", "text"),
    [
        (("a", "alt+enter", "b"), "a\nb"),
        (("a", "shift+enter", "b"), "a\nb"),
        (("a", "backslash", "enter", "b"), "a\nb"),
        (("exclamation_mark", "a", "backslash", "enter", "b"), "!a\\\nb"),
        (("a", "backslash", "x", "left", "enter", "b"), "a\nbx"),
        (("a", "backslash", "backslash", "enter"), ""),
    ],
)
async def test_keys_of_other_agents_begin_a_new_line(
    keys: tuple[str, ...], text: str
) -> None:
    app = ChatApp(ChatState())
    async with app.run_test(size=(100, 30)) as pilot:
        await pilot.press(*keys)
        assert app.chat.prompt.editor.text == text
        assert len(app.posted) == (not text)


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize(
    ("keys", "text"),
    [
        (("ctrl+w", "home", "ctrl+y"), "threeone two "),
        (("alt+b", "alt+b", "alt+d", "end", "ctrl+y"), "one  threetwo"),
        (("home", "alt+f", "ctrl+k", "ctrl+y", "ctrl+y"), "one two three two three"),
        (("alt+b", "ctrl+u", "end", "ctrl+y"), "threeone two "),
        (("ctrl+w", "x", "backspace", "ctrl+y"), "one two three"),
        (("ctrl+y",), "one two three"),
        (("ctrl+w", "ctrl+underscore", "alt+underscore"), "one two "),
    ],
)
async def test_words_and_lines_are_deleted_and_inserted_again_as_in_a_shell(
    keys: tuple[str, ...], text: str
) -> None:
    app = ChatApp(ChatState())
    async with app.run_test(size=(100, 30)) as pilot:
        app.chat.prompt.editor.put("one two three")
        await pilot.press(*keys)
        assert app.chat.prompt.editor.text == text


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize(
    ("key", "shown"),
    [
        ("ctrl+a", "|one two three"),
        ("ctrl+e", "one two three|"),
        ("alt+b", "one |two three"),
        ("alt+f", "one two| three"),
        ("ctrl+w", "one |o three"),
        ("alt+d", "one tw| three"),
        ("ctrl+u", "|o three"),
        ("ctrl+k", "one tw|"),
    ],
)
async def test_each_key_of_a_shell_moves_or_deletes_from_the_cursor(
    key: str, shown: str
) -> None:
    app = ChatApp(ChatState())
    async with app.run_test(size=(100, 30)) as pilot:
        editor = app.chat.prompt.editor
        editor.put("one two three")
        editor.move_cursor((0, 6))
        await pilot.press(key)
        column = editor.cursor_location[1]
        assert f"{editor.text[:column]}|{editor.text[column:]}" == shown


def test_matching_fifty_thousand_files_takes_slices_and_finds_folders(
    tmp_path: Path,
) -> None:
    paths = tuple(f"src/part{n // 100}/module_{n}.py" for n in range(50_000))
    steps = list(matching("module_49999", FileListing(paths, paths)))
    assert steps[-1] == ("src/part499/module_49999.py",)
    assert len(steps) == 50_000 // SLICE and steps[:-1] == [None] * (len(steps) - 1)
    (tmp_path / "src" / "deep").mkdir(parents=True)
    (tmp_path / "src" / "deep" / "a.py").write_text("")
    assert list_tree(tmp_path).paths == ("src/deep/", "src/", "src/deep/a.py")


async def test_files_made_since_are_found_and_a_search_that_was_overtaken_ends(
    tmp_path: Path,
) -> None:
    tasks: list[asyncio.Task[object]] = []
    changes, now = [], [0.0]

    def start(work: Callable[[], Coroutine[Any, Any, object]]) -> None:
        tasks.append(asyncio.create_task(work()))

    finder = FileFinder(
        tmp_path, lambda: changes.append(1), start, clock=lambda: now[0]
    )
    (tmp_path / "first.py").write_text("")
    assert finder.find("") == ()
    await tasks[-1]
    assert finder.find("") == ("first.py",) and changes
    (tmp_path / "second.py").write_text("")
    assert finder.find("sec") == ()
    now[0] = 10.0
    finder.find("")
    await tasks[-1]
    assert finder.find("sec") == ("second.py",)
    finder._listing = FileListing(
        *([tuple(f"{n}/second.py" for n in range(3 * SLICE))] * 2)
    )
    assert finder.find("5999/s") == ("second.py",), (
        "what was found before stays until there is more"
    )
    finder.find("12/s")
    await asyncio.gather(*tasks[-2:])
    assert finder.find("12/s")[0] == "12/second.py"
    assert finder.find("77/s", now=True)[0] == "77/second.py", (
        "Tab does not take what was for less"
    )


async def test_in_a_tree_that_is_cut_what_stands_before_the_last_slash_is_read_as_a_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder in ("a", "m/deep", "z/deep"):
        (tmp_path / folder).mkdir(parents=True)
        for number in range(5):
            (tmp_path / folder / f"{folder[0]}{number}.py").write_text("")
    (tmp_path / "z" / ".gitignore").write_text("z4*\n")
    (tmp_path / "link").symlink_to(tmp_path / "z")
    monkeypatch.setattr(file_finder, "list_tree", partial(list_tree, most=7))
    tasks: list[asyncio.Task[object]] = []
    finder = FileFinder(
        tmp_path, lambda: None, lambda work: tasks.append(asyncio.create_task(work()))
    )

    async def found(typed: str) -> list[str]:
        finder.find(typed)
        while tasks:
            await tasks.pop()
            finder.find(typed)
        return sorted(finder.find(typed))

    assert not await found("z2.py") and not finder.is_complete
    assert await found("z") == ["z/"], "the uppermost folder is listed, too"
    assert await found("z/deep/z2") == ["z/deep/z2.py"]
    assert await found("z/deep/z4") == [], "ignored"
    assert "m/deep/m4.py" in await found("m/deep/m")
    for nowhere in ("no/such/", "../", "/etc/", "a/a1.py/", "a\0b/", "x" * 5_000 + "/"):
        assert await found(nowhere) == []


def test_a_tree_of_exactly_so_many_files_is_whole(tmp_path: Path) -> None:
    for name in ("a", "b", "turned\u202eround"):
        (tmp_path / name).write_text("")
    assert list_tree(tmp_path, 2).is_complete and not list_tree(tmp_path, 1).is_complete


# --- the queue ------------------------------------------------------------------------------------------


def test_a_queued_prompt_moves_within_the_queue_and_leaves_it() -> None:
    queue = ("a", "b", "c")
    assert move_prompt(queue, 2, -1) == (("a", "c", "b"), 1)
    assert move_prompt(queue, 0, -1) == (queue, 0) and move_prompt(queue, 2, 1) == (
        queue,
        2,
    )
    assert without_prompt(queue, 1) == ("a", "c")


async def test_the_marked_prompt_is_moved_put_aside_and_found_again() -> None:
    app = ChatApp(QUEUED)
    async with app.run_test(size=(120, 36)) as pilot:
        await pilot.press("up")
        assert any(
            EDIT_QUEUED.format(send="Enter", delete="Del") in row
            for row in screen_text(app)
        )
        await pilot.press("alt+shift+up")
        (edit,) = app.posted
        assert isinstance(edit, QueueEdited) and edit.after == ("one", "three", "two")
        app.chat.show(replace(QUEUED, waiting=Waiting(queued=edit.after)))
        await pilot.press("delete")
        edit = app.posted[-1]
        assert isinstance(edit, QueueEdited) and edit.after == ("one", "two")
        app.chat.show(ChatState())
        await pilot.press("up")
        assert app.chat.prompt.editor.text == "three", "nothing is lost"


# --- earlier prompts ------------------------------------------------------------------------------------


async def test_what_was_sent_before_the_history_was_known_is_recalled_first() -> None:
    app = ChatApp(ChatState())
    async with app.run_test(size=(100, 30)) as pilot:
        await pilot.press(*"mine", "enter")
        app.chat.prompt.set_history(["of the session"])
        await pilot.press("up")
        assert app.chat.prompt.editor.text == "mine"
        await pilot.press("up")
        assert app.chat.prompt.editor.text == "of the session"


async def test_earlier_prompts_are_searched_and_the_draft_is_kept(
    tmp_path: Path,
) -> None:
    app = ChatApp(ChatState())
    async with app.run_test(size=(100, 30)) as pilot:
        app.chat.prompt.set_history(
            ["fix the [bug]", "write docs\nand tests", "fix it"]
        )
        app.chat.prompt.editor.put("a draft")
        await pilot.press("ctrl+r", "d", "o", "c", "enter")
        assert app.chat.prompt.editor.text == "write docs\nand tests"
        await pilot.press("ctrl+r")
        assert isinstance(app.screen, EarlierPrompts)
        assert app.screen.text_of("0") == "a draft"
        await pilot.press("escape")
        assert app.chat.prompt.editor.text == "write docs\nand tests"


def test_prompts_of_other_sessions_are_read_without_their_answers_and_pictures(
    tmp_path: Path,
) -> None:
    picture = ImagePart(media_type="image/png", data="AAAA")
    ours = Attachments()
    told = f"See {ours.picture('a.png', picture)}"
    entries = [
        *history().user("one").assistant("no").entries,
        UserMessage(parts=ours.parts(told)),
        UserMessage(origin="shell", parts=text_parts("$ ls")),
    ]
    file = tmp_path / "events.jsonl"
    file.write_bytes(
        b"\n".join(
            [b'{"type":"session"}', *map(dump_entry, entries), b'{"type":"user",torn']
        )
    )
    assert prompts_in(file) == ["See (picture 1: a.png)", "one"]


def test_a_resumed_session_recalls_prompts_and_commands() -> None:
    shell = UserMessage(
        origin="shell", parts=(TextPart(text="$ ls -la"), TextPart(text="a.py"))
    )
    built = history().user("one").assistant("yes").add(shell).user("two")
    messages = typed_messages(built.projection().entries)
    assert prompt_texts(messages, Attachments()) == ["one", "!ls -la", "two"]


# --- any text -------------------------------------------------------------------------------------------


async def test_no_text_breaks_the_frame() -> None:
    app = ChatApp(ChatState())
    async with app.run_test(size=(80, 24)) as pilot:
        for text in (
            "x" * 500,
            "订单" * 90,
            "👩‍💻" * 40,
            "مرحبا بالعالم " * 20,
            "a\u0301\u200d\tb" * 60,
        ):
            app.chat.prompt.editor.put(text)
            await pilot.pause()
            rows = screen_rows(app)
            top = next(at for at, row in enumerate(rows) if row.startswith("┏"))
            end = next(at for at, row in enumerate(rows) if row.startswith("┗"))
            assert end - top > 3, "it is wrapped"
            assert all(
                row.startswith("┃") and row.endswith("┃") for row in rows[top + 1 : end]
            )
            assert {cell_len(row) for row in rows[top : end + 1]} == {80}
