"""`foldline eval`: tables, JSON, and refused options."""

import importlib.metadata
import random
import re
from pathlib import Path

import pytest

from foldline.cli.commands import NOT_INSTALLED, all_commands, parse, separate_command
from foldline_eval.arms import NO_STRATEGY
from foldline_eval.command import EVAL
from foldline_eval.comparison import NEVER_FULL
from foldline_eval.corpus import NO_ANSWER, NO_PROMPT
from foldline_eval.report import FLOOR_NOTE, REQUESTS_OVER
from support.command_line import CommandLine
from support.history import History, history, modified
from support.sentences import says


def long_session(turns: int = 8) -> History:
    """Build turns of about 3k tokens, each with its own files and rule."""
    chance = random.Random(5)
    built = history().system("You are careful.")
    for turn in range(turns):
        built.user(f"Do part {turn}. Never touch table payments_{turn}.")
        for step in range(4):
            path = f"src/part_{turn}/file_{step}.py"
            text = "\n".join(
                f"value_{n}_of_{turn}_{step} = {chance.random()}" for n in range(60)
            )
            built.step("edit", text, path=path, files=[modified(path)])
        built.assistant(
            f"Part {turn} is done as part {turn // 2} was, see value_3_of_{turn // 2}_{turn % 4}."
        )
    return built


def write_session(cli: CommandLine, built: History | None = None) -> Path:
    return cli.keep((built or long_session()).entries)


@pytest.mark.slow
def test_every_strategy_has_a_row_with_costs_and_surviving_facts(
    cli: CommandLine,
) -> None:
    said = cli("eval", write_session(cli, long_session(5)), "--window", "8k", "--json")
    assert said.code == 0
    rows = {row["strategy"]: row for row in said.json["rows"]}
    assert list(rows) == [
        "raw", "adaptive", "summary", "simple", "hide", "hide-then-summary", "ladder", "importance",
        "semantic", "hierarchical", "digest", "truncate",
    ]  # fmt: skip
    raw = rows["raw"]
    assert (raw["grounded_recall"], raw["compactions"], raw["feasible"]) == (
        1.0,
        0,
        False,
    )
    assert set(raw["cost_relative_to_raw"].values()) == {1.0}
    for name, row in rows.items():
        if name != "raw":
            assert row["compactions"] > 0
            assert row["violations"] == []
            assert row["requests_over_window"] == 0
            assert 0 < row["grounded_recall"] < 1
            assert row["input_tokens"] < raw["input_tokens"]
            assert sum(row["states"].values()) == row["needs"] == raw["needs"]


@pytest.mark.slow
def test_results_with_a_digest_in_place_of_a_summary_are_marked_as_a_floor(
    cli: CommandLine,
) -> None:
    folder = write_session(cli, long_session(4))
    said = cli(
        "eval",
        folder,
        "--window",
        "8k",
        "--strategies",
        "summary,hide,digest",
        "--json",
    )
    floors = {row["strategy"]: row["floor"] for row in said.json["rows"]}
    assert floors == {"raw": False, "summary": True, "hide": False, "digest": False}
    people = cli("eval", folder, "--window", "8k", "--strategies", "summary").out
    assert FLOOR_NOTE in people


@pytest.mark.slow
def test_tables_fit_eighty_columns_and_name_infeasible_arms(cli: CommandLine) -> None:
    said = cli("eval", write_session(cli, long_session(4)), "--window", "8k")
    assert said.code == 0
    lines = said.out.splitlines()
    assert sum(line.startswith("strategy") for line in lines) == 3
    tables = [line for line in lines if re.match(r"(?!window)[a-z-]+  +\S", line)]
    assert len(tables) == 3 * (1 + 12)
    assert max(map(len, tables)) <= 80
    assert says(said.out, REQUESTS_OVER)


def test_each_window_has_its_own_figures(cli: CommandLine) -> None:
    folder = write_session(cli, long_session(6))
    options = ("--window", "8192,16384", "--strategies", "hide")
    rows = cli("eval", folder, *options, "--json").json["rows"]
    assert [row["window"] for row in rows] == [8_192, 8_192, 16_384, 16_384]


def test_a_session_that_never_fills_the_window_is_reported_as_such(
    cli: CommandLine,
) -> None:
    said = cli("eval", write_session(cli), "--window", "1M")
    assert (said.code, said.out.count(NEVER_FULL.partition("{")[0])) == (0, 1)
    assert "strategy" not in said.out.split("tokens:")[0]


@pytest.mark.slow
def test_a_custom_strategy_is_an_arm_like_any_other(cli: CommandLine) -> None:
    own = "foldline.compaction:ToolResultHidingCompaction"
    rows = cli(
        "eval",
        write_session(cli),
        "--window",
        "8k",
        "--strategies",
        f"hide,{own}",
        "--json",
    ).json["rows"]
    by_name = {row["strategy"]: row["input_tokens"] for row in rows}
    assert by_name[own] == by_name["hide"]


@pytest.mark.parametrize(
    ("options", "code", "sentence"),
    [
        (
            ("--strategies", "magic-compaction"),
            2,
            NO_STRATEGY.partition(".")[0].format(name="magic-compaction"),
        ),
        (("--window", "100"), 1, "too small"),
        (("--window", "many"), 2, "many"),
    ],
)
def test_an_impossible_request_is_refused_in_one_sentence(
    cli: CommandLine, options: tuple[str, ...], code: int, sentence: str
) -> None:
    said = cli("eval", write_session(cli), *options)
    assert said.code == code
    assert sentence in said.err
    assert said.err.count("\n") == 1


def test_a_session_without_a_request_has_nothing_to_replay(cli: CommandLine) -> None:
    folder = write_session(cli, history().system("s"))
    said = cli("eval", folder)
    assert (said.code, NO_PROMPT.format(source=folder) in said.err) == (1, True)


def test_a_session_without_an_answer_has_nothing_to_replay(cli: CommandLine) -> None:
    asked = history()
    for _ in range(6):
        asked.user("words that say something " * 500)
    folder = write_session(cli, asked)
    said = cli("eval", folder, "--window", "8k")
    refused = NO_ANSWER.format(source=folder)
    assert (said.code, said.err.count("\n"), refused in said.err) == (1, 1, True)


@pytest.mark.slow
def test_sessions_in_files_of_the_same_name_are_distinct(cli: CommandLine) -> None:
    for name, turns in (("one", 8), ("two", 6)):
        (cli.cwd / name).mkdir()
        (cli.cwd / name / "context.jsonl").write_bytes(
            (write_session(cli, long_session(turns)) / "events.jsonl").read_bytes()
        )
    files = ("one/context.jsonl", "two/context.jsonl")
    report = cli(
        "eval", *files, files[0], "--window", "8k", "--strategies", "hide", "--json"
    ).json
    assert report["sessions"] == 2
    assert [row["session"] for row in report["rows"]] == [files[0]] * 2 + [files[1]] * 2


def test_a_custom_strategy_can_request_the_working_folder(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    example = (
        Path(__file__).parents[2] / "docs" / "examples" / "foldline-questions" / "src"
    )
    monkeypatch.syspath_prepend(example)
    said = cli(
        "eval",
        write_session(cli),
        "--window",
        "8k",
        "--strategies",
        "foldline_questions:OnlyQuestions",
    )
    assert said.code == 0, said.err


# --- its entry point -----------------------------------------------------------------------------------


def test_the_command_is_found_through_its_entry_point() -> None:
    assert separate_command("eval") is EVAL
    assert EVAL in all_commands()


def test_a_missing_entry_point_is_one_sentence_with_install_instructions(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda **_: ())
    said = cli("eval", write_session(cli))
    assert (said.code, said.err) == (
        2,
        f"foldline: {NOT_INSTALLED.format(name='eval')}\n",
    )
    assert EVAL not in all_commands()


def test_an_ordinary_start_does_not_look_up_entry_points(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def looked_up(**_: str) -> None:
        raise AssertionError("entry points were looked up")

    monkeypatch.setattr(importlib.metadata, "entry_points", looked_up)
    assert parse(["mend the parser"]).handler == "chat:chat"
    assert parse(["sessions"]).handler == "sessions:sessions"
