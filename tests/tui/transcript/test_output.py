"""What tools put out, on the screen: colours as roles, JSON in lines, nothing raw, nothing endless."""

import json

import pytest

from foldline.protocol import (
    ImagePart,
    ToolCallPart,
    ToolDetails,
    ToolResultMessage,
    text_parts,
)
from foldline.text.harmless import clean
from foldline.tui.look.styles import Styles
from foldline.tui.transcript.calls import call_title, tool_name
from foldline.tui.transcript.output import (
    LINE_LENGTH,
    NO_OUTPUT,
    PART,
    PICTURE,
    call_body,
    more_words,
    output_lines,
    plain_output,
)
from foldline.view.projection import Projection

KEY = (1, 1_000_000)


def lines_of(text: str, most: int = 100) -> list[list[tuple[str, str]]]:
    return [list(line) for line in output_lines(text, most).lines]


@pytest.mark.parametrize(
    ("text", "spans"),
    [
        ("\x1b[31mred\x1b[0m plain", [("red", "alert"), (" plain", "muted")]),
        ("\x1b[1;92mgreen\x1b[22m on", [("green", "live bold"), (" on", "live")]),
        (
            "\x1b[38;5;3mx\x1b[39my\x1b[38;2;1;2;3mz",
            [("x", "altered"), ("y", "muted"), ("z", "text")],
        ),
        ("a\x1b[2K\x1b[10;20Hb\x1b]0;title\x07", [("ab", "muted")]),
        ("10 %\r50 %\r100 %", [("100 %", "muted")]),
        ("\x1b[31ma\tb", [("a       ", "alert"), ("b", "alert")]),
        ("[/nope] [red]", [("[/nope] [red]", "muted")]),
    ],
)
def test_colours_become_roles_and_nothing_else_of_an_escape_is_left(
    text: str, spans: list[tuple[str, str]]
) -> None:
    assert lines_of(text) == [spans]
    assert (
        clean(plain_output(text)) == "".join(part for part, _ in spans) or "\t" in text
    )


def test_a_colour_goes_on_over_the_end_of_a_line() -> None:
    assert lines_of("\x1b[31mone\ntwo\x1b[m\nthree") == [
        [("one", "alert")],
        [("two", "alert")],
        [("three", "muted")],
    ]


@pytest.mark.parametrize(
    "acting", ["\x1b", "\x07", "\x1b[", "\u202e", "\x9b31m", "\x1b]8;;http://x\x1b\\"]
)
def test_nothing_that_acts_reaches_the_screen(acting: str) -> None:
    shown = "".join(
        text for line in lines_of(f"\x1b[32ma{acting}b\x1b[0m") for text, _ in line
    )
    assert shown.isprintable()


def test_json_on_one_line_is_set_in_lines_and_coloured() -> None:
    lines = lines_of(json.dumps({"items": [1, "键"]}))
    assert ["".join(text for text, _ in line) for line in lines] == [
        "{",
        '  "items": [',
        "    1,",
        '    "键"',
        "  ]",
        "}",
    ]
    assert ("1", "altered") in lines[2]


def test_of_an_endless_line_the_first_part_is_shown_and_the_rest_is_counted() -> None:
    ((first, more),) = lines_of("x" * 5_000_000)
    assert (
        len(first[0]) == LINE_LENGTH
        and more[0] == f"… {5_000_000 - LINE_LENGTH:,} more characters"
    )


def body(
    call: ToolCallPart, result: ToolResultMessage | None, most: int = PART
) -> tuple[str, bool]:
    shown = call_body(KEY, call, result, Projection(), most=most, further="Enter opens")
    text = "\n".join(strip.text.rstrip() for strip in shown.block.render(76, Styles()))
    return text, shown.more


def result(text: str = "ok", **details: object) -> ToolResultMessage:
    return ToolResultMessage(
        call_id="c", parts=text_parts(text), details=ToolDetails.model_validate(details)
    )


def call(name: str, **arguments: object) -> ToolCallPart:
    return ToolCallPart(call_id="c", name=name, arguments=json.dumps(arguments))


@pytest.mark.parametrize(
    ("made", "answer", "shown"),
    [
        (
            call("bash", command="a\nb", timeout=5),
            result("x"),
            "$ a\n  b\ntimeout: 5\nx",
        ),
        (
            call("mcp__s__find", query="q", tags=["a"]),
            result("x"),
            'query: q\ntags: ["a"]\n\nx',
        ),
        (call("edit", path="a"), result(diff="@@ -7 +7 @@\n-x\n+y\n"), "7 − x\n7 + y"),
        (call("write", path="a", content="one\ntwo\n"), result(), "1 + one\n2 + two"),
        (
            call("Edit", file_path="a", old_string="x", new_string="y"),
            result(),
            " − x\n + y",
        ),
        (call("ls"), result(""), NO_OUTPUT),
        (call("read", path="a"), None, "path: a"),
    ],
)
def test_an_opened_call_shows_what_it_was_given_and_gave_back(
    made: ToolCallPart, answer: ToolResultMessage | None, shown: str
) -> None:
    assert body(made, answer) == (shown, False)


def test_a_long_diff_is_cut_and_says_what_opens_the_rest() -> None:
    diff = "@@ -1,0 +1,40 @@\n" + "".join(f"+line {n}\n" for n in range(40))
    text, more = body(call("edit", path="a"), result(diff=diff))
    assert (
        more
        and text.endswith(more_words(24, "Enter opens"))
        and len(text.split("\n")) == PART + 1
    )
    assert body(call("edit", path="a"), result(diff=diff), most=400)[1] is False


def test_a_picture_is_named_by_kind_and_size() -> None:
    picture = ImagePart(media_type="image/png", data="", width=800, height=600)
    seen = result().model_copy(update={"parts": (picture,)})
    assert body(call("read", path="a.png"), seen)[0].endswith(
        PICTURE.format(kind="png 800×600", key="v")
    )


def test_a_servers_tool_is_named_by_server_and_tool() -> None:
    assert tool_name("mcp__github__search_issues") == "github · search_issues"
    assert tool_name("bash") == "bash"
    assert call_title(call("job", job=3)) == "job 3"
