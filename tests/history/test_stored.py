"""Stored entries behave like a list, with only outlines in memory."""

import gc
from collections.abc import Callable, Iterator
from copy import copy
from pathlib import Path
from types import ModuleType

import pytest

from foldline.history import EVENTS, EventLog, Session, read_log, stored
from foldline.history.loader import open_file
from foldline.history.log import ByteRange
from foldline.history.stored import UNREADABLE, Records, StoredEntries, without_gc
from foldline.past.moments import empty_prefix, replay_to
from foldline.protocol import (
    AssistantMessage,
    Checkpoint,
    Compaction,
    Entry,
    ToolResultMessage,
    Undo,
    UserMessage,
    dump_entry,
    text_parts,
)
from foldline.view.items import ViewItem
from foldline.view.outline import CompactionOutline, MessageOutline
from foldline.view.projection import Projection
from foldline.view.rules import broken
from support.history import call, history
from support.projections import State
from support.reopened_sessions import HEADER, write_events
from support.stories import Story


def user(index: int, text: str = "x") -> UserMessage:
    return UserMessage(index=index, parts=text_parts(text))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    made = (
        history()
        .system("s")
        .user("look")
        .assistant("I do", calls=[call("read", path="a"), call("bash")])
    )
    write_events(
        tmp_path / EVENTS,
        made.result("text").result("out").assistant("done").clear().entries,
    )
    return tmp_path / EVENTS


def entries_of(path: Path, room: int = 0) -> StoredEntries:
    """Open the entries of a file, with limited room for parsed ones."""
    known = open_file(path).entries
    entries = StoredEntries(Records(path, room=room))
    entries.extend(
        known.outlines, [known.place(position) for position in range(len(known))]
    )
    return entries


@pytest.mark.parametrize("room", [0, 400, 1_000_000])
def test_stored_entries_behave_like_a_list(path: Path, room: int) -> None:
    entries, plain = entries_of(path, room), read_log(path).entries
    assert list(entries) == plain
    assert list(reversed(entries)) == plain[::-1]
    assert [
        entries[position] for position in range(-len(plain), len(plain))
    ] == plain + plain
    for place in (
        slice(None),
        slice(2, 5),
        slice(-3, None),
        slice(5, 2),
        slice(None, None, -2),
    ):
        assert entries[place] == plain[place]
    assert entries == plain
    assert plain == entries
    assert entries != plain[:-1]
    assert plain[3] in entries
    with pytest.raises(IndexError):
        entries[len(plain)]


def test_blocks_of_a_long_read_end_between_entries(tmp_path: Path) -> None:
    plain: list[Entry] = [user(index, f"{index} " * 60_000) for index in range(12)]
    write_events(tmp_path / EVENTS, plain)
    assert list(entries_of(tmp_path / EVENTS)) == plain


def test_entries_evicted_during_iteration_are_read_again(path: Path) -> None:
    plain, kept = read_log(path).entries, Records(path, room=10_000)
    known = entries_of(path)
    entries = StoredEntries(kept)
    entries.extend(
        known.outlines, [known.place(position) for position in range(len(known))]
    )
    assert list(entries) == plain
    rest = iter(entries)
    assert next(rest) == plain[0]
    kept.keep(user(99), ByteRange(0, 10_000))
    assert list(rest) == plain[1:]


def test_entries_appended_during_iteration_come_last(path: Path) -> None:
    entries = entries_of(path)
    seen = []
    for entry in entries:
        seen.append(entry.index)
        if entry.index == 6:
            entries.append(user(7))
    assert seen == list(range(8))


def test_a_previewed_entry_reaches_neither_the_entries_nor_their_cache(
    path: Path,
) -> None:
    projection = Projection(entries_of(path, room=1_000))
    foreseen = projection.with_entries(user(7, "perhaps"))
    assert [item.message.text for item in foreseen.view] == ["s", "perhaps"]
    assert (len(projection.entries), len(foreseen.entries)) == (7, 8)
    projection.append(user(7, "really"))
    assert [entries[-1].text for entries in (projection.entries, foreseen.entries)] == [
        "really",
        "perhaps",
    ]


def test_indices_must_increase(path: Path) -> None:
    with pytest.raises(ValueError, match="does not come after"):
        copy(entries_of(path)).append(user(6))


async def test_appended_entries_in_memory_stay_within_the_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / EVENTS
    session = Session(
        HEADER, StoredEntries(Records(path, room=10_000)), log=EventLog(path, HEADER)
    )
    parsed = 0
    parse = stored.entry_in

    def counting(record: bytes) -> Entry | None:
        nonlocal parsed
        parsed += 1
        return parse(record)

    monkeypatch.setattr(stored, "entry_in", counting)
    for number in range(100):
        await session.append(user(-1, f"{number} " * 300))
    assert list(session.entries) == read_log(path).entries
    assert 80 < parsed < 100
    session.close()


def test_entries_read_into_memory_stay_within_the_limit(tmp_path: Path) -> None:
    write_events(
        tmp_path / EVENTS,
        [user(index, "text " * (index % 90)) for index in range(3_000)],
    )
    known = open_file(tmp_path / EVENTS).entries
    kept = Records(tmp_path / EVENTS, room=20_000)
    entries = StoredEntries(kept)
    entries.extend(known.outlines, map(known.place, range(len(known))))
    messages = [
        outline for outline in known.outlines if isinstance(outline, MessageOutline)
    ]
    ways: list[Callable[[], object]] = [
        lambda: sum(1 for _ in entries),
        lambda: sum(1 for _ in reversed(entries)),
        lambda: [entries[position] for position in range(0, 3_000, 7)],
        lambda: [entries.message(outline) for outline in messages],
        lambda: sum(1 for _ in entries.sifted(lambda records: True)),
    ]
    for way in ways:
        way()
        assert 0 < kept.size <= 20_000
        assert len(kept) < 400


def test_only_relevant_entries_are_parsed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Entry] = [
        user(index, "needle" if index % 500 == 7 else "hay") for index in range(2_000)
    ]
    write_events(tmp_path / EVENTS, made)
    entries = entries_of(tmp_path / EVENTS)
    count, parse = 0, stored.entry_in

    def counting(record: bytes) -> Entry | None:
        nonlocal count
        count += 1
        return parse(record)

    monkeypatch.setattr(stored, "entry_in", counting)
    found = [
        position for position, _ in entries.sifted(lambda records: b"needle" in records)
    ]
    assert (found, count) == ([7, 507, 1_007, 1_507], 4)
    asked: list[bytes] = []
    assert not list(entries.sifted(lambda records: bool(asked.append(records))))
    assert len(asked) == 1, "of all that is read at once, once"


# --- files changed from outside ------------------------------------------------------------------------


def test_an_unreadable_entry_is_replaced_by_a_stand_in_in_a_valid_view(
    path: Path,
) -> None:
    session = open_file(path).entries
    assert len(session) == 7
    entries = entries_of(path)
    path.write_bytes(path.read_bytes().replace(b'"index"', b"'index'"))
    projection = Projection(entries)
    lost = list(entries[:6])
    assert [type(entry) for entry in lost] == [type(entry) for entry in session[:6]]
    assert all(
        UNREADABLE.partition("}")[2] in getattr(entry, "text", "") for entry in lost
    )
    assert broken(projection) == []
    asked, answered = lost[2], lost[4]
    assert isinstance(asked, AssistantMessage)
    assert isinstance(answered, ToolResultMessage)
    assert asked.calls[1].call_id == answered.call_id


def test_another_entry_at_the_same_position_is_not_accepted(path: Path) -> None:
    entries = entries_of(path)
    path.write_bytes(
        path.read_bytes().replace(b'"user","index":1', b'"user","index":9')
    )
    replaced = entries[1]
    assert isinstance(replaced, UserMessage)
    assert (replaced.index, replaced.origin) == (1, "machine")


def test_a_record_changed_to_another_type_is_not_accepted(path: Path) -> None:
    entries = entries_of(path, room=1_000)
    path.write_bytes(path.read_bytes().replace(b'"type":"user"', b'"type":"uper"'))
    [item] = [
        item
        for item in Projection(entries).with_entries(Undo(target=6)).view
        if item.index == 1
    ]
    assert [type(entries[1]), type(item.message)] == [UserMessage, UserMessage]


def test_entries_of_a_deleted_file_become_stand_ins(path: Path) -> None:
    entries = entries_of(path)
    path.unlink()
    assert UNREADABLE.partition("}")[2] in getattr(entries[1], "text", "")


def test_a_replaced_file_is_still_read_as_it_was_opened(path: Path) -> None:
    entries, plain = open_file(path).entries, read_log(path).entries
    other = path.with_name("other")
    other.write_bytes(dump_entry(user(1)))
    other.replace(path)
    assert entries == plain


COMPACTIONS, ENTRIES = 12, 6
TEXT = "what was done before, in words that are nowhere else: "


def story() -> Story:
    """Build a history compacted again and again, always keeping the newest entry."""
    made = Story().system("s")
    newest = 0
    for number in range(COMPACTIONS):
        for _ in range(ENTRIES):
            made.user(f"question of {number}")
        compaction = made.last + 1
        made.compaction(
            compaction - 1,
            TEXT * 40 + str(number),
            first=newest,
            inputs=(newest,) * bool(newest),
        )
        newest = compaction
    return made.user("and now?")


@pytest.fixture
def session(tmp_path: Path) -> Session:
    write_events(tmp_path / EVENTS, story().entries)
    Session.open(tmp_path / EVENTS, cache_from=0).save_meta()
    return Session.open(tmp_path / EVENTS, cache_from=0)


def objects_kept_by(root: object) -> Iterator[object]:
    """Return all objects that this one keeps in memory, without parsed entries."""
    seen, waiting = {id(root)}, [root]
    while waiting:
        found = waiting.pop()
        yield found
        for each in gc.get_referents(found):
            if id(each) not in seen and not isinstance(
                each, type | ModuleType | Records
            ):
                seen.add(id(each))
                waiting.append(each)


def texts_in(root: object) -> int:
    return sum(isinstance(each, str) and TEXT in each for each in objects_kept_by(root))


def test_a_compactions_text_is_readable_without_staying_in_memory(
    session: Session,
) -> None:
    projection = session.projection
    assert texts_in(project_of(story().entries)) >= COMPACTIONS
    assert texts_in(projection) == 0
    [summary] = [item for item in projection.view if item.written]
    assert summary.message.text == TEXT * 40 + str(COMPACTIONS - 1)
    assert (
        summary.message.key == summary.key == (projection.all_compactions[-1].index, 0)
    )
    first = projection.entry(projection.all_compactions[0].index)
    assert isinstance(first, Compaction)
    assert first.summary == TEXT * 40 + "0"
    assert list(session.entries) == story().entries
    assert State.of(projection) == State.of(project_of(story().entries))
    assert texts_in(projection) == 0


def project_of(entries: list[Entry]) -> Projection:
    projection = Projection()
    for entry in entries:
        projection.append(entry)
    return projection


def test_neither_the_current_nor_an_earlier_view_keeps_removed_items(
    session: Session,
) -> None:
    then = empty_prefix(session.entries)
    for _ in replay_to(then, len(session.entries)):
        pass
    for projection in (session.projection, then):
        items = sum(isinstance(each, ViewItem) for each in objects_kept_by(projection))
        # A change keeps the item that remained in the view, and the summary it removed.
        assert items <= len(projection.view) + 2 * COMPACTIONS < COMPACTIONS * ENTRIES


def test_an_earlier_view_is_restored_with_the_same_item_objects() -> None:
    made = story()
    before = project_of(made.entries[:-2])
    projection = project_of(made.entries[:-1])
    kept = projection.view[-1]
    projection.append(
        Undo(
            index=projection.last_index + 1, target=projection.all_compactions[-1].index
        )
    )
    assert projection.view == before.view
    assert [projection.fate(entry.index) for entry in made.entries[:-2]] == [
        before.fate(entry.index) for entry in made.entries[:-2]
    ]
    assert projection.view[-1] is kept
    assert broken(projection) == []


def test_an_altered_entry_is_restored_altered_after_a_compaction() -> None:
    made = (
        Story()
        .system("s")
        .user("one")
        .assistant(calls=[call("read", path="a")])
        .result("text " * 400)
    )
    made.user("two").add(Checkpoint(id=1, shown=True)).user("three").user("four")
    made.edit("hide", 3).edit("pin", 6).edit("drop", 7)
    before = project_of(made.entries)
    assert {(item.fate, item.pinned, item.checkpoint) for item in before.view} == {
        *(
            ("live", False, None),
            ("hidden", False, None),
            ("live", False, 1),
            ("live", True, None),
        )
    }
    made.compaction(made.last + 1, "short", first=1)
    projection = project_of(made.undo(made.last).entries)
    assert projection.view == before.view
    assert [projection.fate(index) for index in range(8)] == [
        before.fate(index) for index in range(8)
    ]
    assert projection.pins == before.pins


def test_an_unreadable_compaction_still_compacts(tmp_path: Path) -> None:
    path = tmp_path / EVENTS
    write_events(path, story().entries)
    known = open_file(path).entries
    view = [(item.key, item.tokens) for item in Projection(known).view]
    entries = StoredEntries(Records(path, room=0))
    entries.extend(known.outlines, [known.place(at) for at in range(len(known))])
    path.write_bytes(path.read_bytes().replace(b'"compaction"', b'"compasting"'))
    projection = Projection(entries)
    assert [(item.key, item.tokens) for item in projection.view] == view
    [summary] = [item for item in projection.view if item.written]
    assert UNREADABLE.partition("}")[2] in summary.message.text
    outline, compaction = (
        projection.all_compactions[-1],
        projection.entry(projection.all_compactions[-1].index),
    )
    assert isinstance(outline, CompactionOutline) and isinstance(compaction, Compaction)
    assert (compaction.index, compaction.first_kept_index) == (
        outline.index,
        outline.first_kept_index,
    )
    assert broken(projection) == []


def test_garbage_collection_is_enabled_again_even_after_an_error() -> None:
    with pytest.raises(OSError, match="lost"), without_gc():
        assert not gc.isenabled()
        raise OSError("lost")
    assert gc.isenabled()


def test_disabled_garbage_collection_stays_disabled() -> None:
    gc.disable()
    try:
        with without_gc():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()
