"""`foldline audit`."""

import pytest

from foldline.compaction.summary_text import framed
from foldline.protocol import Compaction, Written
from support.front_door import FrontDoor
from support.history import History, history
from support.recorded import SHARED, needs_recorded


def fold(built: History, text: str, *, first: int, last: int, **fields: object) -> History:
    """A fold of the entries from `first` to `last` into this summary, at the end."""
    head = (Written(message=framed(text), covers=((first, last),)),)
    return built.add(
        Compaction(
            summary=text,
            first_kept_index=last + 1,
            head=head,
            **{"strategy": "SummaryCompaction", "reason": "threshold", **fields},
        )
    )


def folded() -> History:
    built = (
        history()
        .system("You are Foldline.")
        .user("Never touch the payments table. Why does the login fail?")
        .step("bash", "3 failed", command="cd web && pytest -k login")
        .assistant("`LoginToken` is stale.")
        .turn("Fix it.", "Fixed.")
    )
    return fold(
        built, "The login fails, 3 failed.", first=1, last=4, tokens_before=101_300, tokens_after=26_100
    )


def test_each_fold_is_told_with_what_it_lost(door: FrontDoor) -> None:
    said = door("audit", door.keep(folded().entries))
    assert (said.code, said.err) == (0, "")
    assert said.out.splitlines() == [
        "7 threshold 101.3k → 26.1k tokens, 4 entries compacted, 3 of 4 facts lost",
        "lost        fact                             entries",
        "constraint  Never touch the payments table.  1",
        "command     pytest -k login                  2",
        "identifier  LoginToken                       4",
    ]


def test_what_a_program_attaches_again_behind_a_fold_is_not_lost(door: FrontDoor) -> None:
    attached = folded().notice("Never touch the payments table.").user("See LoginToken.")
    said = door("audit", door.keep(attached.entries))
    assert [line.split()[0] for line in said.out.splitlines()[2:]] == ["command", "identifier"]


def test_json_gives_every_fold_and_every_lost_fact(door: FrontDoor) -> None:
    said = door("audit", door.keep(folded().entries), "--json")
    assert said.code == 0
    assert said.json == {
        "compactions": [
            {
                "index": 7,
                "reason": "threshold",
                "strategy": "SummaryCompaction",
                "tokens_before": 101_300,
                "tokens_after": 26_100,
                "entries": 4,
                "facts": 4,
                "lost": [
                    {"kind": "constraint", "text": "Never touch the payments table.", "indices": [1]},
                    {"kind": "command", "text": "pytest -k login", "indices": [2]},
                    {"kind": "identifier", "text": "LoginToken", "indices": [4]},
                ],
            }
        ]
    }


def test_a_second_fold_is_audited_against_the_view_the_first_one_left(door: FrontDoor) -> None:
    built = folded().user("Is session_key set?").assistant("Yes.")
    fold(built, "All is well, after 3 failed.", first=5, last=8)
    first, second = door("audit", door.keep(built.entries), "--json").json["compactions"]
    assert [first["index"], second["index"]] == [7, 10]
    assert [fact["text"] for fact in second["lost"]] == ["session_key"]


def test_a_fold_that_was_undone_is_left_out(door: FrontDoor) -> None:
    folder = door.keep(folded().undo().entries)
    said = door("audit", folder)
    assert said.code == 0
    assert "has no compaction in force" in said.out
    assert door("audit", folder, "--json").json == {"compactions": []}


def test_a_session_that_was_never_folded_is_said_to_have_lost_nothing(door: FrontDoor) -> None:
    said = door("audit", door.keep(history().turn("hello", "hi").entries))
    assert (said.code, said.err) == (0, "")
    assert said.out.endswith("has no compaction in force: nothing was taken out of the view.\n")


def test_sizes_that_were_not_recorded_are_estimated(door: FrontDoor) -> None:
    built = fold(
        history().turn("Use order_id.", "Yes.").turn("go", "on"), "go", first=0, last=1, reason="manual"
    )
    heading = door("audit", door.keep(built.entries)).out.splitlines()[0]
    assert heading.startswith("4 manual ~")
    assert " → ~" in heading


def test_many_entries_are_counted_and_paths_told_from_the_folder_of_the_session(door: FrontDoor) -> None:
    built = history()
    for _ in range(5):
        built.user(f"read {door.cwd}/src/shop/a.py")
    fold(built, "done", first=0, last=4)
    row = door("audit", door.keep(built.entries)).out.splitlines()[-1]
    assert row.split() == ["path", "src/shop/a.py", "0,", "1,", "2", "+2"]


def test_control_characters_of_a_lost_fact_never_reach_the_terminal(door: FrontDoor) -> None:
    built = fold(history().user("Never do \x1b]0;owned\x07 this\u202e"), "x", first=0, last=0)
    folder = door.keep(built.entries)
    for options in ((), ("--json",)):
        said = door("audit", folder, *options)
        assert said.code == 0
        assert not set(said.out) & set("\x1b\x07\u202e")


@needs_recorded
@pytest.mark.parametrize("options", [(), ("--json",)])
def test_folds_another_agent_made_are_audited(door: FrontDoor, options: tuple[str, ...]) -> None:
    said = door("audit", SHARED / "pi" / "pimono-v1-2comp.jsonl", *options)
    assert said.code == 0
    if options:
        assert [each["index"] for each in said.json["compactions"]] == [359, 628]
        assert all(0 < len(each["lost"]) < each["facts"] for each in said.json["compactions"])
    else:
        assert "facts lost" in said.out
        assert max(map(len, said.out.splitlines())) <= 120
