"""What a list shows is the same, however much of it was known before."""

import asyncio
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foldline.history import EVENTS, Session, catalog, lines, read_log
from foldline.history.catalog import rebuilt
from foldline.history.index import open_file
from foldline.history.meta import Meta, describe
from foldline.protocol import (
    AssistantMessage,
    Clear,
    Entry,
    ModelChange,
    Title,
    Usage,
    UserMessage,
    text_parts,
)
from support.reopening import write_events

ENTRIES = st.sampled_from(
    [
        UserMessage(parts=text_parts("fix the login")),
        UserMessage(parts=text_parts("\n  and the tests\nplease")),
        UserMessage(origin="machine", parts=text_parts("not typed")),
        UserMessage(parts=text_parts(" \x07 ")),
        AssistantMessage(parts=text_parts("done"), model="m-1", usage=Usage(input=90, output=10)),
        AssistantMessage(parts=text_parts("done again")),
        Title(title="a name"),
        ModelChange(model="m-2"),
        Clear(),
    ]
)


def kept(home: Path, entries: list[Entry]) -> Path:
    session = Session.create("/tmp", home=home)
    for entry in entries:
        asyncio.run(session.append(entry))
    session.close()
    assert session.path is not None
    return session.path


def told(events: Path) -> Meta:
    loaded = read_log(events)
    return describe(loaded.header, loaded.entries, loaded.size, str(loaded.damage))


@given(entries=st.lists(ENTRIES, min_size=1, max_size=8), data=st.data())
@settings(max_examples=30)
def test_what_is_made_of_an_earlier_description_and_the_rest_is_the_description_of_all(
    tmp_path_factory: pytest.TempPathFactory, entries: list[Entry], data: st.DataObject
) -> None:
    events = kept(tmp_path_factory.mktemp("home"), entries)
    whole = events.read_bytes()
    ends = [at + 1 for at, byte in enumerate(whole) if byte == ord("\n")]
    cut = data.draw(st.sampled_from(ends))
    events.write_bytes(whole[:cut])
    earlier = told(events)
    events.write_bytes(whole)
    assert rebuilt(events, earlier) == told(events)


def test_only_what_came_since_is_read(tmp_path: Path) -> None:
    events = kept(tmp_path, [Title(title="old"), Title(title="new")])
    earlier = told(events).model_copy(update={"title": "trusted", "model": "m"})
    with events.open("ab") as file:
        file.write(b'{"type":"notice","index":9,"text":"x"}\n')
    meta = rebuilt(events, earlier)
    assert (meta.title, meta.model, meta.entries) == ("trusted", "m", 3)


@pytest.mark.parametrize("change", ["torn", "other session", "shorter", "damaged before"])
def test_a_description_that_cannot_be_gone_on_from_is_made_anew(tmp_path: Path, change: str) -> None:
    events = kept(tmp_path, [Title(title="old"), Title(title="new")])
    earlier = told(events).model_copy(update={"title": "false"})
    whole = events.read_bytes()
    match change:
        case "torn":
            events.write_bytes(whole + whole.splitlines(keepends=True)[-1][:-5])
        case "other session":
            earlier = earlier.model_copy(update={"id": "another"})
            events.write_bytes(whole + b'{"type":"notice","index":9,"text":"x"}\n')
        case "shorter":
            events.write_bytes(whole.splitlines(keepends=True)[0])
        case _:
            earlier = earlier.model_copy(update={"note": "1 damaged record"})
    assert rebuilt(events, earlier) == told(events)


def test_a_large_session_is_described_by_its_index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / EVENTS
    write_events(path, [UserMessage(index=number, parts=text_parts("x")) for number in range(40)])
    plain = rebuilt(path, None)
    monkeypatch.setattr(catalog, "LEAST", 1)
    monkeypatch.setattr(catalog, "open_file", partial(open_file, index_from=1))
    assert rebuilt(path, None) == plain
    parsed: list[bytes] = []
    monkeypatch.setattr(lines, "parse_entry", parsed.append)
    assert rebuilt(path, None) == plain
    assert not parsed
