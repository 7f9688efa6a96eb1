"""Links of the terminal: what is shown is what is linked, and nothing else is."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foldline.text.harmless import clean
from foldline.tui.blocks.markdown import markdown_blocks
from foldline.tui.blocks.plain import LinesBlock, TextBlock
from foldline.tui.look.links import file_links, linked, to_file
from foldline.tui.look.styles import Styles


def links_of(blocks, width: int = 60) -> list[tuple[str, str]]:
    """(shown, address) of what is linked."""
    return [
        (segment.text, segment.style.link)
        for block in blocks
        for strip in block.render(width, Styles())
        for segment in strip
        if segment.style is not None and segment.style.link
    ]


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("see https://example.org/a?b=c&d#e.", "https://example.org/a?b=c&d#e"),
        ("(http://localhost:8000/x)", "http://localhost:8000/x"),
        (
            "https://en.wikipedia.org/wiki/A_(b), and",
            "https://en.wikipedia.org/wiki/A_(b)",
        ),
        ("<https://example.org>", "https://example.org"),
        ("见https://example.org/路", "https://example.org/"),
    ],
)
def test_an_address_in_a_text_is_linked_to_itself_without_the_sentence_around_it(
    text: str, address: str
) -> None:
    assert links_of([TextBlock((0, 0), text)]) == [(address, address)]
    assert "".join(part for part, _ in linked(text, "text")) == text


@pytest.mark.parametrize(
    "text",
    ["javascript://x", "file:///etc/passwd", "https://", "plain", "ftp://a.b", ""],
)
def test_other_schemes_and_no_address_are_no_link(text: str) -> None:
    assert links_of([TextBlock((0, 0), text)]) == []


@given(
    st.text(st.sampled_from("https://a.b()%;\x1b\x07\x9c\u202e'\" \n]\\"), max_size=60)
)
def test_an_address_holds_nothing_that_acts_on_the_terminal(text: str) -> None:
    shown = clean(f"https://x.y/{text} {text}")
    spans = linked(shown, "text")
    assert "".join(part for part, _ in spans) == shown
    for part, style in spans:
        assert "link=" not in style or style == f"text link={part}"
        assert "link=" not in style or (
            part.isascii() and part.isprintable() and " " not in part
        )


def test_an_address_over_two_lines_leads_to_the_whole_of_it() -> None:
    address = "https://example.org/" + "long/" * 12
    pieces = links_of(
        [LinesBlock((0, 0), ((("at ", "muted"), (address, "muted")),))], 40
    )
    assert len(pieces) > 1 and {each for _, each in pieces} == {address}
    assert "".join(part for part, _ in pieces) == address


@pytest.mark.parametrize(
    ("source", "links"),
    [
        ("[our bank](https://evil.example/)", [("https://evil.example/",) * 2]),
        (
            "[https://bank.example](https://evil.example/)",
            [("https://bank.example",) * 2, ("https://evil.example/",) * 2],
        ),
        ("<https://example.org/a>", [("https://example.org/a",) * 2]),
        ("bare https://example.org here", [("https://example.org",) * 2]),
        ("[here](javascript:alert)", []),
        ("[x](https://evil.example/&#27;]8;;https://other.example)", None),
    ],
)
def test_no_words_of_a_model_lead_elsewhere_than_they_say(
    source: str, links: list[tuple[str, str]] | None
) -> None:
    found = links_of(markdown_blocks(source, 0), 100)
    assert all(shown == address for shown, address in found)
    if links is not None:
        assert found == links


@pytest.mark.parametrize(
    ("path", "environ", "address"),
    [
        ("src/a b.py", {}, "file://far/work/my%20shop/src/a%20b.py"),
        ("src/a.py", {"KITTY_WINDOW_ID": "1"}, "file://far/work/my%20shop/src/a.py#12"),
        (
            "src/a.py",
            {"TERM_PROGRAM": "iTerm.app"},
            "file://far/work/my%20shop/src/a.py#12",
        ),
        ("/etc/hosts", {}, "file://far/etc/hosts"),
        (
            "a\x1b]8;;x\x07\u202e#?.py",
            {},
            "file://far/work/my%20shop/a%1B%5D8%3B%3Bx%07%E2%80%AE%23%3F.py",
        ),
        ("\udcff.py", {}, "file://far/work/my%20shop/%3F.py"),
    ],
)
def test_a_path_leads_to_its_file_on_this_host(
    path: str, environ: dict[str, str], address: str
) -> None:
    styles = Styles(files=file_links(Path("/work/my shop"), "far", environ))
    assert styles[to_file(path, "text", 12)].link == address
    assert Styles()[to_file(path, "text", 12)].link is None


def test_of_links_only_some_are_remembered() -> None:
    styles = Styles()
    for number in range(10_000):
        assert (
            styles[f"text link=https://example.org/{number}"].link
            == f"https://example.org/{number}"
        )
    assert len(styles._known) < 3_000
