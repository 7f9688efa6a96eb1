"""`foldline audit`."""

import pytest

from foldline.cli.checks import NO_COMPACTION
from foldline.compaction.summary_text import framed
from foldline.protocol import Compaction, Written
from support.command_line import CommandLine
from support.history import History, history
from support.recordings import SHARED, needs_recorded


def compaction(
    built: History, text: str, *, first: int, last: int, **fields: object
) -> History:
    """A compaction of the entries from `first` to `last` into this summary, at the end."""
    head = (Written(message=framed(text), covers=((first, last),)),)
    return built.add(
        Compaction(
            summary=text,
            first_kept_index=last + 1,
            head=head,
            **{"strategy": "SummaryCompaction", "reason": "threshold", **fields},
        )
    )


def compacted() -> History:
    built = (
        history()
        .system("You are Foldline.")
        .user("Never touch the payments table. Why does the login fail?")
        .step("bash", "3 failed", command="cd web && pytest -k login")
        .assistant("`LoginToken` is stale.")
        .turn("Fix it.", "Fixed.")
    )
    return compaction(
        built,
        "The login fails, 3 failed.",
        first=1,
        last=4,
        tokens_before=101_300,
        tokens_after=26_100,
    )


def test_each_compaction_is_told_with_what_it_lost(cli: CommandLine) -> None:
    said = cli("audit", cli.keep(compacted().entries))
    assert (said.code, said.err) == (0, "")
    assert said.out.splitlines() == [
        "7 threshold 101.3k → 26.1k tokens, 4 entries compacted, 3 of 4 facts lost",
        "lost        fact                             entries",
        "constraint  Never touch the payments table.  1",
        "command     pytest -k login                  2",
        "identifier  LoginToken                       4",
    ]


def test_what_a_program_attaches_again_behind_a_compaction_is_not_lost(
    cli: CommandLine,
) -> None:
    attached = (
        compacted().notice("Never touch the payments table.").user("See LoginToken.")
    )
    said = cli("audit", cli.keep(attached.entries))
    assert [line.split()[0] for line in said.out.splitlines()[2:]] == [
        "command",
        "identifier",
    ]


def test_json_gives_every_compaction_and_every_lost_fact(cli: CommandLine) -> None:
    said = cli("audit", cli.keep(compacted().entries), "--json")
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
                    {
                        "kind": "constraint",
                        "text": "Never touch the payments table.",
                        "indices": [1],
                    },
                    {"kind": "command", "text": "pytest -k login", "indices": [2]},
                    {"kind": "identifier", "text": "LoginToken", "indices": [4]},
                ],
            }
        ]
    }


def test_a_second_compaction_is_audited_against_the_view_the_first_one_left(
    cli: CommandLine,
) -> None:
    built = compacted().user("Is session_key set?").assistant("Yes.")
    compaction(built, "All is well, after 3 failed.", first=5, last=8)
    first, second = cli("audit", cli.keep(built.entries), "--json").json["compactions"]
    assert [first["index"], second["index"]] == [7, 10]
    assert [fact["text"] for fact in second["lost"]] == ["session_key"]


def test_a_compaction_that_was_undone_is_left_out(cli: CommandLine) -> None:
    folder = cli.keep(compacted().undo().entries)
    said = cli("audit", folder)
    assert said.code == 0
    assert NO_COMPACTION.format(name=folder) in said.out
    assert cli("audit", folder, "--json").json == {"compactions": []}


def test_a_session_that_was_never_compacted_is_said_to_have_lost_nothing(
    cli: CommandLine,
) -> None:
    said = cli("audit", cli.keep(history().turn("hello", "hi").entries))
    assert (said.code, said.err) == (0, "")
    assert said.out.endswith(NO_COMPACTION.removeprefix("{name}") + "\n")


def test_sizes_that_were_not_recorded_are_estimated(cli: CommandLine) -> None:
    built = compaction(
        history().turn("Use order_id.", "Yes.").turn("go", "on"),
        "go",
        first=0,
        last=1,
        reason="manual",
    )
    heading = cli("audit", cli.keep(built.entries)).out.splitlines()[0]
    assert heading.startswith("4 manual ~")
    assert " → ~" in heading


def test_many_entries_are_counted_and_paths_told_from_the_folder_of_the_session(
    cli: CommandLine,
) -> None:
    built = history()
    for _ in range(5):
        built.user(f"read {cli.cwd}/src/shop/a.py")
    compaction(built, "done", first=0, last=4)
    row = cli("audit", cli.keep(built.entries)).out.splitlines()[-1]
    assert row.split() == ["path", "src/shop/a.py", "0,", "1,", "2", "+2"]


def test_control_characters_of_a_lost_fact_never_reach_the_terminal(
    cli: CommandLine,
) -> None:
    built = compaction(
        history().user("Never do \x1b]0;owned\x07 this\u202e"), "x", first=0, last=0
    )
    folder = cli.keep(built.entries)
    for options in ((), ("--json",)):
        said = cli("audit", folder, *options)
        assert said.code == 0
        assert not set(said.out) & set("\x1b\x07\u202e")


@pytest.mark.quick_cases(1)
@needs_recorded
@pytest.mark.parametrize("options", [(), ("--json",)])
def test_compacts_another_agent_made_are_audited(
    cli: CommandLine, options: tuple[str, ...]
) -> None:
    said = cli("audit", SHARED / "pi" / "pimono-v1-2comp.jsonl", *options)
    assert said.code == 0
    if options:
        assert [each["index"] for each in said.json["compactions"]] == [359, 628]
        assert all(
            0 < len(each["lost"]) < each["facts"] for each in said.json["compactions"]
        )
    else:
        assert "facts lost" in said.out
        assert max(map(len, said.out.splitlines())) <= 120
