"""Server-sent events: the same for any split of the bytes."""

import itertools
from collections.abc import AsyncIterator, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foldline.llm.sse import Event, WebPage, events_of

STREAM = (
    "\ufeff: hello\r\nid: 1\n\nevent: greeting\ndata: grüße\ndata:  你好\n\r\ndata\n\n:\r\rdata:x\r\r\n"
    "foo: bar\n\nevent: nothing\n\ndata: [DONE]"
).encode()
EVENTS = [
    Event("greeting", "grüße\n 你好"),
    Event("", ""),
    Event("", "x"),
    Event("", "[DONE]"),
]


async def events(pieces: Sequence[bytes]) -> list[Event]:
    async def chunks() -> AsyncIterator[bytes]:
        for piece in pieces:
            yield piece

    return [event async for event in events_of(chunks())]


@given(st.lists(st.integers(0, len(STREAM)), max_size=20))
async def test_events_are_the_same_for_any_split_of_the_bytes(cuts: list[int]) -> None:
    places = sorted({0, *cuts, len(STREAM)})
    pieces = [STREAM[start:end] for start, end in itertools.pairwise(places)]
    assert await events(pieces) == EVENTS
    assert EVENTS[-1].is_last


@pytest.mark.parametrize(
    "pieces", [[], [b""], [b" ", b"\n"], [b"\xef"], [b"\xef\xbb\xbf"]]
)
async def test_an_empty_stream_has_no_event(pieces: Sequence[bytes]) -> None:
    assert await events(pieces) == []


async def test_a_json_text_is_one_event_and_an_html_page_is_no_event() -> None:
    assert await events([b"\xef\xbb", b"\xbf\n {", b'"a":\n\n1}']) == [
        Event("", '{"a":\n\n1}')
    ]
    with pytest.raises(WebPage):
        await events([b"\n<html>"])
