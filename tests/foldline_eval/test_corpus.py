"""`foldline eval` over many sessions: side by side, pooled, and no bad session ends it."""

from pathlib import Path

import pytest

from foldline_eval.arms import NO_STRATEGY
from foldline_eval.report import NOT_MEASURED
from support.command_line import CommandLine
from support.history import history
from support.sentences import says

OPTIONS = ("--window", "8k", "--strategies", "hide")


@pytest.fixture
def folder(cli: CommandLine) -> Path:
    """Write three sessions that fill a window of 8k, and one file that is not a session."""
    made = cli.cwd / "corpus"
    (made / "below").mkdir(parents=True)
    for nth in range(3):
        built = history().system("s").user(f"Do part {nth}.")
        for step in range(12):
            text = f"value_{nth}_{step} = 1\n" * 120
            built.step("read", text, path=f"src/part_{nth}_{step}.py")
        for step in range(12):
            built.step(
                "bash",
                "ok",
                command=f"grep value_{nth}_{step} src/part_{nth}_{step}.py",
            )
        kept = cli.keep(built.assistant("Done.").entries)
        (made / "below" / f"session_{nth}.jsonl").write_bytes(
            (kept / "events.jsonl").read_bytes()
        )
    (made / "notes.json").write_text('{"no": "session"}')
    (made / "README.md").write_text("no session, and not looked at")
    return made


def test_a_folder_is_measured_and_a_bad_file_is_named(
    cli: CommandLine, folder: Path
) -> None:
    said = cli("eval", folder, *OPTIONS, "--json")
    assert said.code == 0, said.err
    assert [(row["session"], row["strategy"]) for row in said.json["rows"]] == [
        (f"session_{nth}", arm) for nth in range(3) for arm in ("raw", "hide")
    ]
    assert list(said.json["errors"]) == [str(folder / "notes.json")]
    assert says(said.err, NOT_MEASURED)


@pytest.mark.slow
def test_processes_measure_the_same(cli: CommandLine, folder: Path) -> None:
    one = cli("eval", folder, *OPTIONS, "--json")
    two = cli("eval", folder, *OPTIONS, "--json", "--jobs", "2")
    assert (two.code, two.json) == (0, one.json), two.err


def test_figures_are_pooled_over_the_sessions_of_a_window(
    cli: CommandLine, folder: Path
) -> None:
    rows = [
        row
        for row in cli("eval", folder, *OPTIONS, "--json").json["rows"]
        if row["strategy"] == "hide"
    ]
    out = cli("eval", folder, *OPTIONS).out
    assert "window 8k · 3 sessions" in out
    sizes, costs, kept = (
        line.split() for line in out.splitlines() if line.startswith("hide")
    )
    assert sizes[1] == str(sum(row["compactions"] for row in rows))
    retained = sum(row["states"]["retained"] for row in rows)
    share = retained / sum(row["needs"] for row in rows)
    assert kept[1] == f"{100 * share:.1f}%"
    assert float(costs[3]) == pytest.approx(
        sum(row["cost_relative_to_raw"]["0.1"] for row in rows) / 3, abs=0.006
    )


def test_an_unknown_arm_is_reported_once(cli: CommandLine, folder: Path) -> None:
    said = cli("eval", folder, "--strategies", "magic-compaction")
    refused = NO_STRATEGY.partition(".")[0].format(name="magic-compaction")
    assert (said.code, said.err.count(refused)) == (2, 1)
