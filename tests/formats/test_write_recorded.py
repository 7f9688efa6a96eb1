"""Every recorded session of other agents, written for each of the others and read again: the same view."""

import json
from functools import cache
from pathlib import Path

import pytest

from foldline.formats import read_foreign
from foldline.protocol import Entry
from support.exported import heard, reread, unmarked, write
from support.foreign import faults
from support.recorded import needs_recorded, readable

pytestmark = needs_recorded
FILES = pytest.mark.parametrize("file", readable(), ids=lambda path: path.name)


@cache
def entries_of(file: Path) -> list[Entry]:
    return list(read_foreign(file).entries)


@FILES
def test_written_for_pi(tmp_path: Path, file: Path) -> None:
    entries = entries_of(file)
    again = reread(write(entries, "pi"), tmp_path)
    assert (again.format, again.damage.count, faults(again)) == ("pi", 0, [])
    assert heard(again.entries) == heard(entries)


@FILES
def test_written_for_kimi(tmp_path: Path, file: Path) -> None:
    entries = entries_of(file)
    again = reread(write(entries, "kimi-cli"), tmp_path)
    assert (again.format, again.damage.count, faults(again)) == ("kimi-cli", 0, [])
    assert list(map(unmarked, heard(again.entries))) == list(map(unmarked, heard(entries)))


@FILES
def test_written_as_openai_chat(tmp_path: Path, file: Path) -> None:
    exported = write(entries_of(file), "openai")
    again = reread(exported, tmp_path)
    assert (again.format, faults(again)) == ("openai", [])
    sent = json.loads(exported.data)["messages"]
    assert json.loads(write(again.entries, "openai").data)["messages"] == sent
