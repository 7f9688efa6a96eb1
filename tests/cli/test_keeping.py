"""`foldline rename`, `fork`, `archive` and `delete`: what becomes of sessions, and what is said about it."""

import io
import sys
from pathlib import Path

import pytest

from foldline.cli.sessions import DELETE_QUESTION, LISTED_AGAIN
from foldline.history import Session, read_log
from foldline.history.archive import NOT_ARCHIVED, NOT_IN_HOME
from foldline.history.catalog import TOO_SHORT
from foldline.protocol import Title
from support.command_line import CommandLine
from support.history import history

WORK = history().turn("Mend the login", "Done").turn("And the tests", "Green").entries


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def answer(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr(sys, "stdin", Terminal(text))


def ids(cli: CommandLine, *options: str) -> set[str]:
    return {row["id"] for row in cli("sessions", "--json", *options).json}


def test_rename_appends_a_title_and_lists_show_it(cli: CommandLine) -> None:
    folder = cli.keep(WORK, "s-1")
    said = cli("rename", "s-1", "The", "great  repair\x1b[2J")
    assert (said.code, said.out) == (
        0,
        "1 is now called “The great repair [2J” (before: “Mend the login”).\n",
    )
    assert read_log(folder / "events.jsonl").entries[-1].type == "title"
    assert cli("sessions", "--json").json[0]["title"] == "The great repair [2J"


def test_a_title_of_ten_thousand_characters_is_kept_short(cli: CommandLine) -> None:
    folder = cli.keep(WORK, "s-1")
    assert len(cli("rename", "s-1", "ab" * 5000, "--json").json["title"]) == 200
    last = read_log(folder / "events.jsonl").entries[-1]
    assert isinstance(last, Title)
    assert len(last.title) == 200


@pytest.mark.parametrize("title", ["", "  \x00\x1b "])
def test_a_title_without_text_is_wrong_usage_and_changes_nothing(
    cli: CommandLine, title: str
) -> None:
    folder = cli.keep(WORK, "s-1")
    before = (folder / "events.jsonl").read_bytes()
    assert cli("rename", "s-1", title).code == 2
    assert (folder / "events.jsonl").read_bytes() == before


def test_a_character_or_two_name_no_session_even_if_only_one_ends_in_them(
    cli: CommandLine,
) -> None:
    folder = cli.keep(WORK, "20260101-000000-abcde9")
    for ref in ("9", "e9", "20"):  # such as the number of a row of `foldline -r`
        said = cli("delete", ref, "--yes")
        assert said.code == 1
        assert TOO_SHORT.format(ref=ref, least=3) in said.err
    assert (folder / "events.jsonl").is_file()
    assert cli("delete", "de9", "--yes").code == 0


def test_fork_says_what_the_new_session_is_and_leaves_the_other_one(
    cli: CommandLine,
) -> None:
    folder = cli.keep(WORK, "s-1")
    before = (folder / "events.jsonl").read_bytes()
    made = cli("fork", "s-1", "--at", "1", "--json").json
    assert (made["parent"], made["index"], made["entries"]) == ("s-1", 1, 2)
    assert list(Session.open(made["path"]).entries) == WORK[:2]
    assert (folder / "events.jsonl").read_bytes() == before
    said = cli("fork", "s-1")
    assert "4 entries of s-1, up to entry 3" in said.out
    assert ids(cli) == {"s-1", made["id"], said.out.split(":")[0]}


def test_a_fork_of_the_first_entry_alone_is_said_to_have_1_entry(
    cli: CommandLine,
) -> None:
    cli.keep(WORK, "s-1")
    assert ": 1 entry of s-1, up to entry 0." in cli("fork", "s-1", "--at", "0").out


def test_fork_at_an_entry_that_is_not_there_is_one_sentence(cli: CommandLine) -> None:
    cli.keep(WORK, "s-1")
    said = cli("fork", "s-1", "--at", "99")
    assert (said.code, said.out) == (1, "")
    assert "its entries are 0 to 3" in said.err


def test_archived_sessions_leave_the_list_and_come_back(cli: CommandLine) -> None:
    cli.keep(WORK, "s-1")
    cli.keep(WORK, "s-2")
    assert "--back 1" in cli("archive", "s-1").out
    assert (ids(cli), ids(cli, "--archived")) == ({"s-2"}, {"s-1"})
    assert cli("view", "s-1", "--json").code == 0
    assert cli("archive", "s-1", "--back", "--json").json[0]["archived"] is False
    assert ids(cli) == {"s-1", "s-2"}


def test_what_was_done_before_one_could_not_be_moved_is_said(cli: CommandLine) -> None:
    for name in ("s-1", "s-2"):
        cli.keep(WORK, name)
    cli("archive", "s-1")
    said = cli("archive", "s-1", "s-2", "--back")
    assert (said.code, said.out) == (1, LISTED_AGAIN.format(ref="1") + "\n")
    assert NOT_ARCHIVED.format(name="s-2") in said.err


def test_delete_asks_with_what_it_is_about_and_a_no_keeps_it(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = cli.keep(WORK, "s-1")
    answer(monkeypatch, "\n")
    said = cli("delete", "s-1")
    details = "4 entries, last written just now, “Mend the login”"
    assert f"{DELETE_QUESTION.format(ref='1', details=details)} [y/N]" in said.err
    assert (said.code, said.out) == (0, "")
    assert (folder / "events.jsonl").is_file()


def test_delete_takes_those_that_a_yes_was_said_to(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("s-1", "s-2"):
        cli.keep(WORK, name)
    answer(monkeypatch, "n\ny\n")
    assert "Deleted s-2" in cli("delete", "s-1", "s-2", "s-1").out
    assert ids(cli) == {"s-1"}


def test_delete_without_a_terminal_needs_yes(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    cli.keep(WORK, "s-1")
    monkeypatch.setattr(sys, "stdin", io.StringIO("y\n"))
    said = cli("delete", "s-1")
    assert (said.code, said.out) == (1, "")
    assert "--yes" in said.err
    assert [row["id"] for row in cli("delete", "s-1", "--yes", "--json").json] == [
        "s-1"
    ]
    assert ids(cli) == set()


def test_delete_of_several_does_nothing_where_one_is_not_there(
    cli: CommandLine,
) -> None:
    cli.keep(WORK, "s-1")
    assert cli("delete", "s-1", "nosuch", "--yes").code == 1
    assert ids(cli) == {"s-1"}


def test_delete_takes_no_file_that_is_not_among_our_sessions(cli: CommandLine) -> None:
    copy = cli.cwd / "copy"
    copy.mkdir()
    (copy / "events.jsonl").write_bytes(
        (cli.keep(WORK, "s-1") / "events.jsonl").read_bytes()
    )
    for ref in (copy, copy / "events.jsonl", Path("copy")):
        said = cli("delete", ref, "--yes")
        assert (said.code, said.out) == (1, "")
        assert NOT_IN_HOME.partition("}")[2].partition("{")[0] in said.err
    assert (copy / "events.jsonl").is_file()
