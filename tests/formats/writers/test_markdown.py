"""Markdown that reads well, and out of which nothing breaks."""

import re
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token

from foldline.formats import read_foreign
from foldline.formats.export import Original
from foldline.formats.writers.markdown import (
    NOT_SHOWN,
    code_span,
    contained,
    escaped,
    fenced,
    quoted,
    write_markdown,
)
from foldline.history import utc_now
from foldline.protocol import Entry, SessionHeader, Title
from foldline.view.projection import project
from support.history import call, history
from support.limits import examples
from support.recordings import compactable_recordings, needs_recorded
from support.stories import Story, shop

PARSER = MarkdownIt("commonmark", {"html": True}).enable("table")


def original(entries: Sequence[Entry], cwd: str = "/work/shop") -> Original:
    header = SessionHeader(id="20260101-000000-abcdef", created_at=utc_now(), cwd=cwd)
    return Original(header, entries, project(entries))


def written(entries: Sequence[Entry]) -> str:
    return write_markdown(original(entries)).data.decode()


NASTY = (
    "```\nunclosed fence",
    "~~~~python\nx",
    "</details><script>alert(1)</script>",
    "<!-- swallow everything",
    "<details><summary>mine",
    "<img src=x onerror=alert(1)>",
    "# not a heading of ours\n\n---",
    "- list\n\n      ```\n      deep",
    "> quote\n> ```",
    "a | b\n--|--\n<b>",
    "````\n```\n",
    "`unclosed span <div>",
    "\\<script>\\\\<script>",
    "[a]: <javascript:alert(1)>\n[b](<script>)",
    "<?php\n\n<![CDATA[",
    "    indented\n<div>\n\n</div",
    "\u202eevil\u202c \x1b[31mred\x1b[0m \x00 \x9b2J",
    "text\r\n```\rx",
    "***\n___\n===",
)


@pytest.mark.parametrize("text", NASTY)
def test_nothing_foreign_leaves_its_place_wherever_it_stands(text: str) -> None:
    story = (
        Story()
        .system(text)
        .instructions(text, source=text)
        .user(text)
        .assistant(text, thinking=text)
    )
    story.tool("ba`sh <b>", text, brief=text, command=text, intro=text)
    story.tool("read", text * 30, path=text)
    story.tool("edit", "ok", path="a.py", diff=f"@@ -1 +1 @@\n-{text}\n+{text}\n")
    story.notice(text).compaction(4, text).checkpoint(1).revert(1, message=text).add(
        Title(title=text)
    )
    story.user("the end")
    document = written(story.entries)
    tokens = PARSER.parse(document)
    assert_only_our_html(tokens, document)
    assert [tokens[-3].content, tokens[-1].type, tokens[-1].level] == [
        "the end",
        "blockquote_close",
        0,
    ]
    headings = [
        token.tag
        for token in tokens
        if token.type == "heading_open" and token.level == 0
    ]
    assert headings.count("h2") == 2
    assert re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]", document) is None


def assert_only_our_html(tokens: Sequence[Token], document: str) -> None:
    open_details = 0
    for token in tokens:
        assert all(child.type != "html_inline" for child in token.children or ())
        if token.type == "html_block":
            assert token.level == 0
            assert OURS.fullmatch(token.content.strip()), token.content
            open_details += 1 if token.content.startswith("<details>") else -1
            assert open_details in (0, 1)
    assert open_details == 0, document


OURS = re.compile(r"<details><summary>(?:[^<>]|</?(?:b|i|code)>)*</summary>|</details>")


@given(
    st.text(
        alphabet=st.sampled_from("`~<>/!-=#*_ \n\tabd[](){}\\|:.1&;x?"), max_size=80
    )
)
@settings(max_examples=examples(400))
def test_any_text_is_contained(text: str) -> None:
    tokens = PARSER.parse(f"{contained(text)}\n\nwhat follows")
    assert [token.content for token in tokens[-2:-1]] == ["what follows"]
    assert tokens[-1].level == 0
    assert_only_our_html(tokens, text)
    assert (
        PARSER.parse(f"{quoted(contained(text))}\n\nwhat follows")[-2].content
        == "what follows"
    )


@given(st.text(alphabet=st.sampled_from("`~ \nab<#"), max_size=60))
@settings(max_examples=examples(200))
def test_any_text_stands_in_a_fence_and_in_a_span_as_it_is(text: str) -> None:
    (fence,) = PARSER.parse(fenced(text))
    assert fence.content.rstrip("\n") == text.rstrip("\n")
    line = " ".join(text.split()) or "x"
    (child,) = PARSER.parse(f"see {code_span(line)}")[1].children[1:]  # type: ignore[index]
    assert (child.type, child.content) == ("code_inline", line)
    (plain,) = [
        token
        for token in PARSER.parse(f"# {escaped(line)} end")
        if token.type == "inline"
    ]
    assert "".join(child.content for child in plain.children or ()) == f"{line} end"


def test_sound_markdown_stays_as_it_was_written() -> None:
    text = (
        "# Plan\n\n1. **one** `Vec<T>`\n\n```rust\nlet x: Vec<u8>;\n```\n\n"
        "| a |\n|---|\n| 1 |\n\na < b & c"
    )
    assert contained(text) == text
    assert contained("see `Vec<T>` and <T>") == "see `Vec\\<T>` and \\<T>"
    assert contained("```py\nx = 1") == "```py\nx = 1\n```"


def test_a_session_reads_in_order_with_compactions_and_what_became_of_things() -> None:
    document = written(shop(many=2).entries)
    lines = [line for line in document.splitlines() if line]
    assert lines[0] == "# Contract with the mobile team: the key is a UUID"
    assert lines[1].startswith("`/work/shop` · ")
    assert "1 compaction" in lines[1]
    assert "## Prompt 1 · pinned" in lines
    assert "## Prompt 2 · summarised" in lines
    assert any(
        line.startswith("<details><summary>compaction: threshold · 116.2k → 27.4k · ")
        and line.endswith("entries compacted</summary>")
        for line in lines
    )
    assert "```diff" in lines
    assert any(
        "alembic upgrade" in line and line.endswith("· clipped</summary>")
        for line in lines
    )
    assert any(
        "pytest -q" in line and line.endswith("· hidden</summary>") for line in lines
    )
    assert any("printenv" in line and "· dropped" in line for line in lines)
    assert (
        document.index("Find out why")
        < document.index("Never touch the payments")
        < document.index("entries compacted")
    )


def test_images_are_named_and_counted() -> None:
    made = write_markdown(original(history().user("look", images=2).entries))
    assert b"image: image/png, 100 \xc3\x97 75, 1 kB" in made.data
    assert b"aW1hZ2U=" not in made.data
    assert made.notes == (NOT_SHOWN.format(images="2 images are"),)


def test_an_empty_session_is_a_document_too() -> None:
    assert written([]).startswith("# Session 20260101-000000-abcdef\n")


def test_calls_without_a_result_and_results_without_a_call_are_shown() -> None:
    story = history().user("go").assistant(calls=[call("bash", command="sleep 9")])
    story.result("lost", call_id="nobody")
    document = written(story.entries)
    assert "**bash** `sleep 9` · no result" in document
    assert "lost" in document


@needs_recorded
def test_recorded_sessions_become_sound_documents() -> None:
    for path in compactable_recordings():
        if path.stat().st_size < 500_000:
            found = read_foreign(path)
            document = write_markdown(
                Original(found.header, found.entries, project(found.entries))
            ).data.decode()
            assert_only_our_html(PARSER.parse(document), path.name)
