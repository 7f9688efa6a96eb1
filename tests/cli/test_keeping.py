"""`foldline rename`, `fork`, `archive` and `delete`: what becomes of sessions, and what is said about it."""

import io
import sys
from pathlib import Path

import pytest

from foldline.history import Session, read_log
from foldline.protocol import Title
from support.front_door import FrontDoor
from support.history import history

WORK = history().turn("Mend the login", "Done").turn("And the tests", "Green").entries


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def answer(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr(sys, "stdin", Terminal(text))


def ids(door: FrontDoor, *options: str) -> set[str]:
    return {row["id"] for row in door("sessions", "--json", *options).json}


def test_rename_appends_a_title_and_lists_show_it(door: FrontDoor) -> None:
    folder = door.keep(WORK, "s-1")
    said = door("rename", "s-1", "The", "great  repair\x1b[2J")
    assert (said.code, said.out) == (0, "1 is called “The great repair [2J” now (before: Mend the login).\n")
    assert read_log(folder / "events.jsonl").entries[-1].type == "title"
    assert door("sessions", "--json").json[0]["title"] == "The great repair [2J"


def test_a_title_of_ten_thousand_characters_is_kept_short(door: FrontDoor) -> None:
    folder = door.keep(WORK, "s-1")
    assert len(door("rename", "s-1", "ab" * 5000, "--json").json["title"]) == 200
    last = read_log(folder / "events.jsonl").entries[-1]
    assert isinstance(last, Title)
    assert len(last.title) == 200


@pytest.mark.parametrize("title", ["", "  \x00\x1b "])
def test_a_title_without_text_is_wrong_usage_and_changes_nothing(door: FrontDoor, title: str) -> None:
    folder = door.keep(WORK, "s-1")
    before = (folder / "events.jsonl").read_bytes()
    assert door("rename", "s-1", title).code == 2
    assert (folder / "events.jsonl").read_bytes() == before


def test_a_character_or_two_name_no_session_even_if_only_one_ends_in_them(door: FrontDoor) -> None:
    folder = door.keep(WORK, "20260101-000000-abcde9")
    for ref in ("9", "e9", "20"):  # such as the number of a row of `foldline -r`
        said = door("delete", ref, "--yes")
        assert said.code == 1 and "at least 3 characters of an id" in said.err
    assert (folder / "events.jsonl").is_file()
    assert door("delete", "de9", "--yes").code == 0


def test_fork_says_what_the_new_session_is_and_leaves_the_other_one(door: FrontDoor) -> None:
    folder = door.keep(WORK, "s-1")
    before = (folder / "events.jsonl").read_bytes()
    made = door("fork", "s-1", "--at", "1", "--json").json
    assert (made["parent"], made["index"], made["entries"]) == ("s-1", 1, 2)
    assert list(Session.open(made["path"]).entries) == WORK[:2]
    assert (folder / "events.jsonl").read_bytes() == before
    said = door("fork", "s-1")
    assert "4 entries of s-1, up to entry 3" in said.out
    assert ids(door) == {"s-1", made["id"], said.out.split(":")[0]}


def test_a_fork_of_the_first_entry_alone_is_said_to_have_1_entry(door: FrontDoor) -> None:
    door.keep(WORK, "s-1")
    assert ": 1 entry of s-1, up to entry 0." in door("fork", "s-1", "--at", "0").out


def test_fork_at_an_entry_that_is_not_there_is_one_sentence(door: FrontDoor) -> None:
    door.keep(WORK, "s-1")
    said = door("fork", "s-1", "--at", "99")
    assert (said.code, said.out) == (1, "")
    assert "has entries 0 to 3" in said.err


def test_archived_sessions_leave_the_list_and_come_back(door: FrontDoor) -> None:
    door.keep(WORK, "s-1")
    door.keep(WORK, "s-2")
    assert "--back 1" in door("archive", "s-1").out
    assert (ids(door), ids(door, "--archived")) == ({"s-2"}, {"s-1"})
    assert door("view", "s-1", "--json").code == 0
    assert door("archive", "s-1", "--back", "--json").json[0]["archived"] is False
    assert ids(door) == {"s-1", "s-2"}


def test_what_was_done_before_one_could_not_be_moved_is_said(door: FrontDoor) -> None:
    for name in ("s-1", "s-2"):
        door.keep(WORK, name)
    door("archive", "s-1")
    said = door("archive", "s-1", "s-2", "--back")
    assert (said.code, said.out) == (1, "1 is among the sessions again.\n")
    assert "s-2 is not archived" in said.err


def test_delete_asks_with_what_it_is_about_and_a_no_keeps_it(
    door: FrontDoor, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = door.keep(WORK, "s-1")
    answer(monkeypatch, "\n")
    said = door("delete", "s-1")
    assert "Delete 1 (4 entries, last written just now, “Mend the login”) for good? [y/N]" in said.err
    assert (said.code, said.out) == (0, "")
    assert (folder / "events.jsonl").is_file()


def test_delete_takes_those_that_a_yes_was_said_to(door: FrontDoor, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("s-1", "s-2"):
        door.keep(WORK, name)
    answer(monkeypatch, "n\ny\n")
    assert "Deleted s-2" in door("delete", "s-1", "s-2", "s-1").out
    assert ids(door) == {"s-1"}


def test_delete_without_a_terminal_needs_yes(door: FrontDoor, monkeypatch: pytest.MonkeyPatch) -> None:
    door.keep(WORK, "s-1")
    monkeypatch.setattr(sys, "stdin", io.StringIO("y\n"))
    said = door("delete", "s-1")
    assert (said.code, said.out) == (1, "")
    assert "--yes" in said.err
    assert [row["id"] for row in door("delete", "s-1", "--yes", "--json").json] == ["s-1"]
    assert ids(door) == set()


def test_delete_of_several_does_nothing_where_one_is_not_there(door: FrontDoor) -> None:
    door.keep(WORK, "s-1")
    assert door("delete", "s-1", "nosuch", "--yes").code == 1
    assert ids(door) == {"s-1"}


def test_delete_takes_no_file_that_is_not_among_our_sessions(door: FrontDoor) -> None:
    copy = door.cwd / "copy"
    copy.mkdir()
    (copy / "events.jsonl").write_bytes((door.keep(WORK, "s-1") / "events.jsonl").read_bytes())
    for ref in (copy, copy / "events.jsonl", Path("copy")):
        said = door("delete", ref, "--yes")
        assert (said.code, said.out) == (1, "")
        assert "is not one of the sessions kept in" in said.err
    assert (copy / "events.jsonl").is_file()
