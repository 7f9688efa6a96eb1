"""Assembling streamed tool calls: matching each piece to its call, and the resulting arguments."""

import json
from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foldline.llm.call_assembly import REPETITION, CallAssembler, CallPiece
from foldline.llm.growing import Room

P = CallPiece
Shape = tuple[str, str, str]
A, B = '{"path":"a"}', '{"path":"b"}'


def assemble(pieces: Sequence[CallPiece]) -> list[Shape]:
    assembler = CallAssembler(Room())
    for piece in pieces:
        assembler.add(piece)
    return [(call.call_id, call.name, str(call.text)) for call in assembler.calls]


SHAPES: dict[str, tuple[list[CallPiece], list[Shape]]] = {
    "index only in the first piece, then only the id": (
        [P(0, "x", "read", '{"path":'), P(None, "x", "", '"a"}')],
        [("x", "read", A)],
    ),
    "two calls begun in turn, continued by id alone": (
        [P(0, "x", "read"), P(1, "y", "read"), P(None, "x", "", A), P(None, "y", "", B)],
        [("x", "read", A), ("y", "read", B)],
    ),
    "two calls at one index, continued by id": (
        [P(0, "x", "read"), P(0, "y", "read"), P(0, "x", "", A), P(0, "y", "", B)],
        [("x", "read", A), ("y", "read", B)],
    ),
    "another id at the same index, without a name": (
        [P(0, "x", "read", '{"path":'), P(0, "other", "", '"a"}')],
        [("x", "read", A)],
    ),
    "another id in every piece, without index and name": (
        [P(None, "x", "read", '{"path":'), P(None, "y", "", '"a"'), P(None, "z", "", "}")],
        [("x", "read", A)],
    ),
    "no ids, and index 0 for two whole calls": (
        [P(0, "", "read", A), P(0, "", "read", B)],
        [("", "read", A), ("", "read", B)],
    ),
    "no ids, index 0 for two calls in pieces": (
        [P(0, "", "read", '{"path":'), P(0, "", "", '"a"}'), P(0, "", "ls", "{"), P(0, "", "", "}")],
        [("", "read", A), ("", "ls", "{}")],
    ),
    "no ids, and the name in every piece": (
        [P(0, "", "read", '{"path":'), P(0, "", "read", '"a"}'), P(1, "", "read", B)],
        [("", "read", A), ("", "read", B)],
    ),
    "one id for all calls, told apart by index": (
        [P(0, "x", "read", '{"path":'), P(1, "x", "read"), P(1, "x", "", B), P(0, "x", "", '"a"}')],
        [("x", "read", A), ("x", "read", B)],
    ),
    "an index of its own for every piece": (
        [P(0, "x", "read", '{"path":'), P(1, "", "", '"a"'), P(2, "", "", "}")],
        [("x", "read", A)],
    ),
    "the id after the name": ([P(0, "", "read"), P(0, "x", "", A)], [("x", "read", A)]),
    "the name in pieces": ([P(0, "x", "re"), P(0, "", "ad"), P(0, "", "", A)], [("x", "read", A)]),
    "a placeholder first, then the arguments": (
        [P(0, "x", "read", "{}"), P(0, "", "", A)],
        [("x", "read", A)],
    ),
    "a placeholder first, then pieces of arguments": (
        [P(0, "x", "read", "{}"), P(0, "", "", '{"path'), P(0, "", "", '":"a"}')],
        [("x", "read", A)],
    ),
    "a placeholder at the end": ([P(0, "x", "read", A), P(0, "x", "read", "{}")], [("x", "read", A)]),
    "each piece with all that came before": (
        [P(0, "x", "read", A[:1]), P(0, "", "", A[:4]), P(0, "", "", A[:8]), P(0, "", "", A)],
        [("x", "read", A)],
    ),
    "all of it once more at the end": (
        [P(0, "x", "read", A[:5]), P(0, "", "", A[5:]), P(0, "", "", A)],
        [("x", "read", A)],
    ),
    "an object in an object that begins alike": (
        [P(0, "x", "set", '{"a":'), P(0, "", "", '{"a":1'), P(0, "", "", "}}")],
        [("x", "set", '{"a":{"a":1}}')],
    ),
    "what grows, and begins at a value": (
        [P(0, "x", "set", '{"a":'), P(0, "", "", '{"a":{"b"'), P(0, "", "", '{"a":{"b":1}}')],
        [("x", "set", '{"a":{"b":1}}')],
    ),
    "a piece without a name, before any call": ([P(0, "x", "", A), P(1, "y", "read", B)], [("y", "read", B)]),
    "a piece without a name, after a whole call, at another index": (
        [P(0, "x", "read", A), P(1, "", "", '"b"}')],
        [("x", "read", A)],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("pieces", "calls"), SHAPES.values(), ids=SHAPES)
def test_each_form_of_streamed_calls_has_one_interpretation(
    pieces: list[CallPiece], calls: list[Shape]
) -> None:
    assert assemble(pieces) == calls


KEYS = st.sampled_from(["path", "content", "old", "new", "n"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3)
    ),
    max_leaves=6,
)
ARGUMENTS = st.dictionaries(KEYS, VALUES, max_size=4).map(json.dumps)
CALLS = st.lists(
    st.tuples(st.sampled_from(["read", "write", "ls"]), ARGUMENTS),
    min_size=1,
    max_size=4,
)


def split(data: st.DataObject, text: str) -> list[str]:
    cuts = sorted(
        data.draw(st.sets(st.integers(0, len(text)), max_size=8)) | {0, len(text)}
    )
    return [text[first:last] for first, last in pairwise(cuts)]


@given(
    st.data(),
    CALLS,
    st.sampled_from(["index and id", "index", "id", "id at index 0", "neither"]),
)
def test_calls_are_the_same_for_any_split_of_the_stream(
    data: st.DataObject, calls: list[tuple[str, str]], named_by: str
) -> None:
    streams: list[list[CallPiece]] = []
    for number, (name, arguments) in enumerate(calls):
        index = {"id": None, "neither": None, "id at index 0": 0}.get(named_by, number)
        call_id = "" if named_by in ("index", "neither") else f"c{number}"
        rest = [
            P(index, call_id if "id" in named_by else "", "", piece)
            for piece in split(data, arguments)
        ]
        streams.append([P(index, call_id, name, ""), *rest])
    pieces: list[CallPiece] = []
    if named_by == "neither":  # without any sign, one call must follow the other
        pieces = [piece for stream in streams for piece in stream]
    while named_by != "neither" and any(streams):
        stream = data.draw(st.sampled_from([stream for stream in streams if stream]))
        pieces.append(stream.pop(0))
    expected = [(name, arguments) for name, arguments in calls]
    found = [(name, arguments) for _, name, arguments in assemble(pieces)]
    assert sorted(found) == sorted(expected)


@pytest.mark.parametrize(
    "repeated", [P(0, "x", "read", A), P(0, "x", "", "{}"), P(None, "", "read", A)]
)
def test_endless_repetitions_reach_the_bound_of_an_answer(repeated: CallPiece) -> None:
    room = Room(10_000)
    assembler = CallAssembler(room)
    assembler.add(P(0, "x", "read", A))
    for _ in range(10_000 // min(REPETITION, 2) + 1):
        assembler.add(repeated)
    assert room.full
    assert all(call.name for call in assembler.calls)


def test_cumulative_pieces_take_no_more_memory_than_the_final_text() -> None:
    text = json.dumps({"content": "x" * 2_000})
    room = Room(2 * len(text) + len(text) * REPETITION)
    assembler = CallAssembler(room)
    for end in range(1, len(text) + 1):
        assembler.add(P(0, "x", "write", text[:end]))
    assert not room.full
    assert [str(call.text) for call in assembler.calls] == [text]
