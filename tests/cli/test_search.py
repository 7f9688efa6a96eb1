"""`foldline search`: finds sessions by what was said in them, and says how to go there."""

from pathlib import Path

import pytest

from foldline.cli import search as search_module
from foldline.cli.search import _excerpt, no_match
from foldline.history.session_search import SessionHit
from foldline.text.shorten import cells
from support.command_line import CommandLine
from support.history import history


def hit(excerpt: str, *marks: tuple[int, int]) -> SessionHit:
    return SessionHit(index=7, kind="user", excerpt=excerpt, marks=marks, line=1)


def test_what_was_said_is_found_in_all_folders_and_where_to_go_is_said(
    cli: CommandLine, tmp_path: Path
) -> None:
    cli.keep(
        history().turn("Mend the login", "It was the needle").entries,
        "20260101-000000-aaaaaa",
    )
    cli.keep(
        history().turn("Sew", "With a needle").entries,
        "20260101-000000-bbbbbb",
        tmp_path / "tailor",
    )
    said = cli("search", "needle")
    assert said.code == 0
    assert "Mend the login\n" in said.out
    assert "1  assistant    It was the needle\n" in said.out
    assert "bbbbbb · just now · " in said.out
    assert "foldline -r " in said.err
    assert "foldline open " in said.err


def test_here_leaves_out_other_folders(cli: CommandLine, tmp_path: Path) -> None:
    cli.keep(history().user("needle here").entries)
    cli.keep(history().user("needle there").entries, cwd=tmp_path / "elsewhere")
    said = cli("search", "needle", "--here")
    assert "needle here" in said.out
    assert "needle there" not in said.out


def test_several_words_need_no_quotes_and_a_phrase_has_its_own(
    cli: CommandLine,
) -> None:
    cli.keep(history().user("open the file").user("the open file").entries)
    assert [
        hit["index"]
        for hit in cli("search", "open", "the", "--json").json["sessions"][0]["hits"]
    ] == [
        0,
        1,
    ]
    assert [
        hit["index"]
        for hit in cli("search", '"open the"', "--json").json["sessions"][0]["hits"]
    ] == [0]


def test_json_says_where_each_hit_is_and_what_matches(cli: CommandLine) -> None:
    folder = cli.keep(
        history().turn("数据库的端口", "5433").entries, "20260101-000000-aaaaaa"
    )
    said = cli("search", "端口", "--json").json
    [session] = said["sessions"]
    assert said["complete"] is True
    assert (session["id"], session["title"], session["cwd"]) == (
        folder.name,
        "数据库的端口",
        str(cli.cwd),
    )
    assert (session["path"], session["archived"]) == (
        str(folder / "events.jsonl"),
        False,
    )
    assert session["matches"] == 1
    assert session["hits"] == [
        {
            "index": 0,
            "kind": "user",
            "line": 1,
            "excerpt": "数据库的端口",
            "marks": [[4, 6]],
        }
    ]


def test_kind_and_limit_narrow_it_down(cli: CommandLine) -> None:
    for name in ("a", "b", "c"):
        cli.keep(
            history().turn("needle?", "needle!").entries, f"20260101-000000-{name * 6}"
        )
    said = cli("search", "needle", "--kind", "assistant", "--limit", "2", "--json").json
    assert len(said["sessions"]) == 2
    assert not said["complete"]
    assert {hit["kind"] for session in said["sessions"] for hit in session["hits"]} == {
        "assistant"
    }


def test_archived_sessions_are_found_and_marked(cli: CommandLine) -> None:
    cli.keep(history().user("needle").entries, "20260101-000000-aaaaaa")
    assert cli("archive", "aaaaaa").code == 0
    assert "aaaaaa · just now · archived · " in cli("search", "needle").out


def test_nothing_found_is_said_and_is_no_failure(cli: CommandLine) -> None:
    said = cli("search", "no", "such", "needle")
    assert (said.code, said.out) == (0, "")
    assert no_match("no such needle") in said.err
    assert cli("search", "needle", "--json").json == {"sessions": [], "complete": True}


def test_nothing_to_look_for_is_wrong_usage(cli: CommandLine) -> None:
    assert cli("search").code == 2
    assert cli("search", "").code == 2
    assert cli("search", " ").code == 2


def test_an_interrupt_ends_with_130(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(search_module, "search_sessions", interrupted)
    assert cli("search", "needle").code == 130


def test_what_would_act_on_the_terminal_does_not(cli: CommandLine) -> None:
    cli.keep(history().turn("needle \x1b[2J\u202e evil", "\x1b]0;needle\x07").entries)
    out = cli("search", "needle").out
    assert not {"\x1b", "\x07", "\u202e"} & set(out)


@pytest.mark.parametrize("room", [16, 40, 60, 200])
def test_the_first_match_is_in_what_is_shown(room: int) -> None:
    text = "数据" * 40 + "needle" + "更多 words " * 30
    shown = _excerpt(hit(text, (80, 86)), room)
    assert "needle" in shown and cells(shown) <= room
    assert shown.startswith("…") == (room < 200)


def test_an_excerpt_that_fits_is_shown_whole() -> None:
    assert _excerpt(hit("the needle", (4, 10)), 11) == "the needle"
