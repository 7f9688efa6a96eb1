"""Placeholders in prompts: what they stand for, what is pasted, named and fetched, and what is sent."""

import asyncio
import base64
from collections.abc import Callable
from pathlib import Path

import pytest
from textual import events

from foldline.frontend.state import ChatState
from foldline.llm.models import takes_pictures
from foldline.protocol import (
    FoldlineError,
    ImagePart,
    TextPart,
    UserMessage,
    text_parts,
)
from foldline.text.tags import piped_part
from foldline.tui.messages import PromptSubmitted
from foldline.tui.prompting.attachments import (
    NO_PICTURE,
    PASTE_TOO_LONG,
    TAKES_NO_PICTURES,
    Attachments,
    detach_pictures,
    is_long,
    named_paths,
    named_pictures,
    pasted,
    pasted_paths,
    read_picture,
)
from foldline.tui.terminal import clipboard
from support.agents import PATIENCE
from support.chat_app import ChatApp, screen_text
from support.images import image

LONG = "a line of text\n" * 120


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not condition():
            await asyncio.sleep(0.01)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "my shot.png").write_bytes(image("png", 320, 200))
    (tmp_path / "shot.jpg").write_bytes(image("jpeg", 640, 480))
    (tmp_path / "fake.png").write_text("no picture")
    return tmp_path


def test_a_placeholder_is_sent_as_what_it_stands_for_wherever_it_was_moved() -> None:
    ours, part = (
        Attachments(),
        ImagePart(media_type="image/png", data="AAAA", width=8, height=9),
    )
    paste, picture = ours.paste(LONG), ours.picture("a[b]\x07.png", part)
    assert paste == "[pasted 120 lines, 1.8k characters]"
    assert picture == "[picture 1: ab␇.png 8×9]"
    text, *images = ours.parts(
        f"{picture} see {paste} and {picture}, not [picture 9: x]"
    )
    assert (
        text.type == "text"
        and text.text == f"{picture} see {LONG} and {picture}, not [picture 9: x]"
    )
    assert images == [part], "each picture once"
    assert ours.parts(paste[:-1])[0] == Attachments().parts(paste[:-1])[0], (
        "half of one is text"
    )
    assert (
        ours.paste(LONG) == paste
        and ours.paste(LONG[:-2] + "!\n") == paste[:-1] + ", 2]"
    )


def test_a_resumed_prompt_has_its_pictures_again_and_new_ones_get_other_numbers() -> (
    None
):
    before, part = Attachments(), ImagePart(media_type="image/png", data="AAAA")
    text = f"See {before.picture('a.png', part)}"
    after = Attachments()
    after.remember(UserMessage(parts=before.parts(text)))
    assert after.parts(text) == before.parts(text)
    assert after.picture("a.png", part).startswith("[picture 2: ")
    assert len(named_pictures(text)) == 1 and not named_pictures(detach_pictures(text))


@pytest.mark.parametrize(
    ("dragged", "names"),
    [
        ("{0}/shot.jpg", ["shot.jpg"]),
        ("{0}/my shot.png ", ["my shot.png"]),
        ("'{0}/my shot.png' {0}/shot.jpg\n", ["my shot.png", "shot.jpg"]),
        ("{0}/my\\ shot.png", ["my shot.png"]),
        ("file://{0}/my%20shot.png", ["my shot.png"]),
        ("shot.jpg", ["shot.jpg"]),
        ("look at {0}/shot.jpg", []),
        ("{0}/none.png", []),
        ("it's.png", []),
    ],
)
def test_dragged_paths_of_pictures_are_told_from_text(
    project: Path, dragged: str, names: list[str]
) -> None:
    assert [
        path.name for path in pasted_paths(dragged.format(project), project)
    ] == names


def test_pictures_are_known_by_their_bytes_and_their_size_is_bounded(
    project: Path,
) -> None:
    part = read_picture(project / "my shot.png")
    assert (part.media_type, part.width, part.height) == ("image/png", 320, 200)
    (project / "huge.png").write_bytes(image("png") + b"\x00" * 5_000_000)
    for name, sentence in (
        ("fake.png", NO_PICTURE.format(name="fake.png")),
        ("huge.png", "make it smaller first"),
        ("none.png", "none.png cannot be read: No such file or directory."),
    ):
        with pytest.raises(FoldlineError) as refused:
            read_picture(project / name)
        assert sentence in str(refused.value)
    assert [
        word
        for word, _ in named_paths(
            "@shot.jpg, (@fake.png) me@shot.jpg @nope.png", project
        )
    ] == [
        "@shot.jpg",
        "@fake.png",
    ]


async def test_a_huge_paste_is_cleaned_in_pieces_and_nothing_of_it_is_torn() -> None:
    turns, ended = 0, False

    async def others() -> None:
        nonlocal turns
        while not ended:
            turns += 1
            await asyncio.sleep(0)

    beside = asyncio.create_task(others())
    ours = Attachments()
    placeholder = await pasted("one\r\ntwo\x1b[2J\n" * 100_000, None, ours)
    ended = True
    await beside
    assert turns > 15, "others had their turn"
    assert ours.expand(placeholder) == "one\ntwo␛\n" * 100_000
    with pytest.raises(FoldlineError, match=PASTE_TOO_LONG.partition(". ")[2]):
        await pasted("x" * 16_000_001, None, ours)


async def test_the_prompt_shows_placeholders_deletes_them_whole_and_opens_pastes(
    project: Path,
) -> None:
    app = ChatApp(root=project)
    async with app.run_test(size=(100, 30)) as pilot:
        prompt, editor = app.chat.prompt, app.chat.prompt.editor
        editor.post_message(events.Paste(LONG))
        editor.post_message(events.Paste(f"'{project}/my shot.png'"))
        await pilot.pause()
        await until(lambda: "picture" in editor.text)
        assert (
            editor.text
            == "[pasted 120 lines, 1.8k characters][picture 1: my shot.png 320×200] "
        )
        await pilot.press("backspace", "backspace")
        assert editor.text == "[pasted 120 lines, 1.8k characters]"
        await pilot.press("ctrl+underscore", "enter")
        (sent,) = app.posted
        assert isinstance(sent, PromptSubmitted)
        assert [part.type for part in prompt.attachments.parts(sent.text)] == [
            "text",
            "image",
        ]
        await pilot.press("up")
        assert editor.text.startswith("[pasted")
        assert prompt.attachments.expand(editor.text).startswith(LONG + "[picture 1"), (
            "for $EDITOR"
        )
        assert prompt.give_back("other") is False
        editor.put("")
        assert (
            prompt.give_back("x" * 50_000)
            and editor.text == "[pasted 1 line, 50.0k characters]"
        )


async def test_named_pictures_are_attached_when_sent_and_refused_in_a_sentence(
    project: Path,
) -> None:
    app = ChatApp(ChatState(model="deepseek-chat"), root=project)
    async with app.run_test(size=(100, 30)) as pilot:
        editor = app.chat.prompt.editor
        editor.put("see @fake.png")
        await pilot.press("enter")
        await until(
            lambda: (
                NO_PICTURE.partition("(")[0].format(name="fake.png")
                in screen_text(app)[-2]
            )
        )
        assert editor.text == "see @fake.png" and not app.posted
        editor.put("see @shot.jpg, please")
        await pilot.press("enter")
        await until(
            lambda: (
                TAKES_NO_PICTURES.partition("}")[2].partition(".")[0]
                in screen_text(app)[-2]
            )
        )
        assert (
            editor.text == "see [picture 1: shot.jpg 640×480], please"
            and not app.posted
        )
        await pilot.press("enter")
        await until(lambda: app.posted)
    assert takes_pictures("openai/gpt-oss-120b") is False
    assert (
        takes_pictures("gpt-5") is None
        and takes_pictures("a model of one's own") is None
    )


@pytest.mark.parametrize(
    ("environ", "platform", "there", "command"),
    [
        (
            {"WAYLAND_DISPLAY": "w", "DISPLAY": ":0"},
            "linux",
            {"wl-paste", "xclip"},
            "wl-paste",
        ),
        ({"WAYLAND_DISPLAY": "w", "DISPLAY": ":0"}, "linux", {"xclip"}, "xclip"),
        ({"WSL_DISTRO_NAME": "d"}, "linux", {"powershell.exe"}, "powershell.exe"),
        ({}, "linux", {"xclip"}, None),
        ({}, "darwin", {"osascript"}, "osascript"),
        ({}, "win32", {"powershell"}, "powershell"),
    ],
)
def test_the_clipboard_is_asked_by_what_is_there(
    monkeypatch: pytest.MonkeyPatch,
    environ: dict[str, str],
    platform: str,
    there: set[str],
    command: str | None,
) -> None:
    monkeypatch.setattr(
        clipboard,
        "find_program",
        lambda name: f"/usr/bin/{name}" if name in there else None,
    )
    found = clipboard.fetching_command(environ, platform)
    assert (Path(found[0]).name if found else None) == command


def test_what_the_clipboard_gives_is_a_picture_or_a_sentence(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    program = tmp_path / "xclip"
    program.write_text(
        f"#!/bin/sh\nbase64 -d <<'END'\n{base64.b64encode(image('png')).decode()}\nEND\n"
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert clipboard.clipboard_picture({"DISPLAY": ":0"}, "linux").width == 640
    program.write_text("#!/bin/sh\necho no image >&2\nexit 1\n")
    with pytest.raises(FoldlineError, match=clipboard.NO_PICTURE):
        clipboard.clipboard_picture({"DISPLAY": ":0"}, "linux")
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(FoldlineError, match="xclip is not installed"):
        clipboard.clipboard_picture({"DISPLAY": ":0"}, "linux")


def test_a_paste_is_long_by_its_lines_or_its_characters() -> None:
    assert not is_long("x\n" * 19) and is_long("x\n" * 20)
    assert not is_long("x" * 2_000) and is_long("x" * 2_001)


def test_a_recalled_prompt_keeps_its_piped_input_apart_from_the_typed_text() -> None:
    attachments = Attachments()
    piped = piped_part("+ a line")
    prompt = UserMessage(parts=(*text_parts("Review this:"), piped))
    attachments.remember(prompt)
    assert attachments.parts(prompt.editable) == prompt.parts
    changed = attachments.parts(prompt.editable + "\nAnd this?")
    assert [part.origin for part in changed if isinstance(part, TextPart)] == ["typed"]
