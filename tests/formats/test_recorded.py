"""Every recorded session of other agents: read, copied, damaged, and written for each of the other agents."""

import json
import random
from functools import cache
from pathlib import Path

import pytest

from foldline.formats import ForeignSession, read_foreign
from foldline.formats.writers.kimi import write_kimi
from foldline.formats.writers.pi import write_pi
from foldline.protocol import FoldlineError, dump_entry, parse_entry
from support.exports import (
    handoff,
    read_back,
    received_messages,
    without_markers,
    write,
)
from support.foreign import DAMAGERS, Damager, faults, view, view_after_a_round_trip
from support.recordings import READ, compactable_recordings, needs_recorded, recordings

pytestmark = [needs_recorded, pytest.mark.quick_cases(2)]
NAMES = {"kimi": "kimi-cli", "mini-swe-agent": "openai"}
FORMAT_OF = {
    path: NAMES.get(folder, folder)
    for folder in (*READ, "gemini-cli", "qwen-code")
    for path in recordings(folder)
}
EACH = pytest.mark.parametrize("path", FORMAT_OF, ids=lambda path: path.name)
LONG = pytest.mark.parametrize(
    "path", compactable_recordings(), ids=lambda path: path.name
)
SHORT = [
    path
    for path in FORMAT_OF
    if path.suffix == ".jsonl" and path.stat().st_size < 350_000
]


@cache
def load(path: Path) -> ForeignSession:
    return read_foreign(path)


def assert_sound(session: ForeignSession) -> None:
    indices = [entry.index for entry in session.entries]
    assert indices == sorted(set(indices))
    assert faults(session) == []
    assert all(parse_entry(dump_entry(entry)) == entry for entry in session.entries)


@EACH
def test_it_is_read_as_what_it_is_without_fault(path: Path) -> None:
    session = load(path)
    assert session.format == FORMAT_OF[path]
    assert not session.damage
    assert_sound(session)


@EACH
def test_a_copy_of_ours_has_the_same_view(path: Path, tmp_path: Path) -> None:
    assert view_after_a_round_trip(load(path), tmp_path) == view(load(path))


@pytest.mark.parametrize("damage", DAMAGERS, ids=lambda damage: damage.__name__)
@pytest.mark.parametrize("path", SHORT, ids=lambda path: path.name)
def test_a_damaged_copy_is_read_as_far_as_it_goes(
    path: Path, damage: Damager, tmp_path: Path
) -> None:
    copy = tmp_path / path.name
    for seed in range(4):
        copy.write_bytes(damage(path.read_bytes(), random.Random(seed)))
        try:
            session = read_foreign(copy, FORMAT_OF[path])
        except FoldlineError:
            continue
        assert_sound(session)


@LONG
def test_written_for_pi(tmp_path: Path, path: Path) -> None:
    entries = load(path).entries
    again = read_back(handoff(entries, write_pi), tmp_path)
    assert (again.format, again.damage.count, faults(again)) == ("pi", 0, [])
    assert list(map(without_markers, received_messages(again.entries))) == list(
        map(without_markers, received_messages(entries))
    )


@LONG
def test_written_for_kimi(tmp_path: Path, path: Path) -> None:
    entries = load(path).entries
    again = read_back(handoff(entries, write_kimi), tmp_path)
    assert (again.format, again.damage.count, faults(again)) == ("kimi-cli", 0, [])
    assert list(map(without_markers, received_messages(again.entries))) == list(
        map(without_markers, received_messages(entries))
    )


@LONG
def test_written_as_openai_chat(tmp_path: Path, path: Path) -> None:
    exported = write(load(path).entries, "openai")
    again = read_back(exported, tmp_path)
    assert (again.format, faults(again)) == ("openai", [])
    sent = json.loads(exported.data)["messages"]
    assert json.loads(write(again.entries, "openai").data)["messages"] == sent
