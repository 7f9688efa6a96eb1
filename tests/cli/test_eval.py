"""`foldline eval`: tables for people, one JSON value for programs, a picture, and what it refuses."""

import json
import random
import re
from pathlib import Path

import pytest

from foldline.protocol import Compaction, SystemMessage, Written, text_parts
from support.front_door import FrontDoor
from support.history import History, history, modified
from support.server import running_server


def long(turns: int = 8) -> History:
    """Turns of about 3k tokens, each about files of its own and with a rule of its own."""
    chance = random.Random(5)
    built = history().system("You are careful.")
    for turn in range(turns):
        built.user(f"Do part {turn}. Never touch table payments_{turn}.")
        for step in range(4):
            path = f"src/part_{turn}/file_{step}.py"
            text = "\n".join(f"value_{n}_of_{turn}_{step} = {chance.random()}" for n in range(60))
            built.step("edit", text, path=path, files=[modified(path)])
        built.assistant(
            f"Part {turn} is done as part {turn // 2} was, see value_3_of_{turn // 2}_{turn % 4}."
        )
    return built


def kept(door: FrontDoor, built: History | None = None) -> Path:
    return door.keep((built or long()).entries)


def test_every_strategy_has_a_row_with_its_costs_and_what_survives(door: FrontDoor) -> None:
    said = door("eval", kept(door, long(5)), "--window", "8k", "--json")
    assert said.code == 0
    rows = {row["strategy"]: row for row in said.json["rows"]}
    assert list(rows) == [
        "raw", "adaptive", "summary", "simple", "hide", "hide-then-summary", "ladder", "importance",
        "semantic", "hierarchical", "digest", "truncate",
    ]  # fmt: skip
    raw = rows["raw"]
    assert (raw["grounded_recall"], raw["compactions"], raw["feasible"]) == (1.0, 0, False)
    assert set(raw["cost_relative_to_raw"].values()) == {1.0}
    for name, row in rows.items():
        if name != "raw":
            assert row["compactions"] > 0
            assert row["violations"] == []
            assert row["requests_over_window"] == 0
            assert 0 < row["grounded_recall"] < 1
            assert row["input_tokens"] < raw["input_tokens"]
            assert sum(row["states"].values()) == row["needs"] == raw["needs"]


def test_what_a_digest_stood_in_for_is_marked_as_a_floor(door: FrontDoor) -> None:
    folder = kept(door, long(4))
    said = door("eval", folder, "--window", "8k", "--strategies", "summary,hide,digest", "--json")
    assert said.json["summariser"] == "digest"
    floors = {row["strategy"]: row["floor"] for row in said.json["rows"]}
    assert floors == {"raw": False, "summary": True, "hide": False, "digest": False}
    people = door("eval", folder, "--window", "8k", "--strategies", "summary").out
    assert "* summaries by the offline digest" in people


def test_people_get_tables_that_fit_eighty_columns_and_are_told_what_lost(door: FrontDoor) -> None:
    said = door("eval", kept(door, long(4)), "--window", "8k", "--prices", "gpt-5")
    assert said.code == 0
    lines = said.out.splitlines()
    assert sum(line.startswith("strategy") for line in lines) == 4
    tables = [line for line in lines if re.match(r"strategy|[a-z-]+ +[–$0-9]", line)]
    assert len(tables) == 4 * (1 + 12)
    assert max(map(len, tables)) <= 80
    assert "raw is infeasible" in said.out
    assert "$" in said.out


def test_dollars_are_there_where_a_price_is_named(door: FrontDoor) -> None:
    folder = kept(door)
    without = door("eval", folder, "--window", "8k", "--strategies", "hide", "--json").json["rows"]
    priced = door("eval", folder, "--window", "8k", "--strategies", "hide", "--prices", "gpt-5", "--json")
    assert [row["dollars"] for row in without] == [None, None]
    assert all(row["dollars"] > 0 for row in priced.json["rows"])


def test_a_session_that_never_fills_the_window_says_so(door: FrontDoor) -> None:
    said = door("eval", kept(door), "--window", "1M")
    assert (said.code, said.out.count("never full")) == (0, 1)
    assert "strategy" not in said.out.split("tokens by")[0]


def test_several_windows_give_recall_at_budget(door: FrontDoor) -> None:
    folder = kept(door, long(6))
    said = door("eval", folder, "--window", "8192,16384", "--strategies", "summary,hide")
    assert "recall at budget" in said.out
    as_json = door("eval", folder, "--window", "8192,16384", "--strategies", "hide", "--json").json
    assert [row["window"] for row in as_json["rows"]] == [8_192, 8_192, 16_384, 16_384]


def test_a_session_with_compactions_of_its_own_has_them_beside_recall_at_budget(door: FrontDoor) -> None:
    built = long(4)
    written = Written(message=SystemMessage(origin="summary", parts=text_parts("Never touch payments_1.")))
    built.add(Compaction(summary="Part 1.", first_kept_index=built.last + 1, head=(written,)))
    folder = kept(door, built.user("Go on.").assistant("See src/part_1/file_1.py."))
    said = door("eval", folder, "--window", "4k,8k", "--strategies", "hide,recorded")
    assert said.code == 0, said.err
    assert "at its own compactions" in said.out
    assert "recall at budget" in said.out


def test_ten_sessions_give_intervals_and_one_gives_none(door: FrontDoor) -> None:
    folder = kept(door, long(3))
    one = door("eval", folder, "--window", "8k", "--strategies", "summary,hide", "--json").json
    assert one["differences"] == []
    copies = []
    for nth in range(10):
        copy = door.cwd / f"copy_{nth}.jsonl"
        copy.write_bytes((folder / "events.jsonl").read_bytes())
        copies.append(copy)
    ten = door("eval", *copies, "--window", "8k", "--strategies", "summary,hide", "--json").json
    assert {(one["strategy"], one["sessions"]) for one in ten["differences"]} == {("hide", 10)}


def test_a_strategy_of_ones_own_is_an_arm_like_any_other(door: FrontDoor) -> None:
    own = "foldline.compaction:ToolResultHidingCompaction"
    rows = door("eval", kept(door), "--window", "8k", "--strategies", f"hide,{own}", "--json").json["rows"]
    by_name = {row["strategy"]: row["input_tokens"] for row in rows}
    assert by_name[own] == by_name["hide"]


@pytest.mark.parametrize(
    ("options", "code", "sentence"),
    [
        (("--strategies", "magic-fold"), 2, "There is no strategy magic-fold"),
        (("--prices", "no-such-model"), 2, "There is no price for no-such-model"),
        (("--judge",), 1, "--judge asks a model, and none is configured"),
        (("--window", "100"), 1, "too small"),
        (("--window", "many"), 2, "many"),
    ],
)
def test_what_cannot_be_done_is_one_sentence(
    door: FrontDoor, options: tuple[str, ...], code: int, sentence: str
) -> None:
    said = door("eval", kept(door), *options)
    assert said.code == code
    assert sentence in said.err
    assert said.err.count("\n") == 1


def test_a_session_without_a_request_has_nothing_to_replay(door: FrontDoor) -> None:
    said = door("eval", kept(door, history().system("s")))
    assert (said.code, "no request of a user" in said.err) == (1, True)


def test_a_session_without_an_answer_has_nothing_to_replay(door: FrontDoor) -> None:
    asked = history()
    for _ in range(6):
        asked.user("words that say something " * 500)
    said = door("eval", kept(door, asked), "--window", "8k")
    assert (said.code, said.err.count("\n"), "no answer" in said.err) == (1, 1, True)


def test_two_sessions_in_files_of_one_name_are_two_sessions(door: FrontDoor) -> None:
    for name, turns in (("one", 8), ("two", 6)):
        (door.cwd / name).mkdir()
        (door.cwd / name / "context.jsonl").write_bytes(
            (kept(door, long(turns)) / "events.jsonl").read_bytes()
        )
    files = ("one/context.jsonl", "two/context.jsonl")
    report = door("eval", *files, files[0], "--window", "8k", "--strategies", "hide", "--json").json
    assert report["sessions"] == 2
    assert [row["session"] for row in report["rows"]] == [files[0]] * 2 + [files[1]] * 2


def test_a_strategy_of_ones_own_may_ask_for_the_working_folder(
    door: FrontDoor, monkeypatch: pytest.MonkeyPatch
) -> None:
    example = Path(__file__).parents[2] / "docs" / "examples" / "foldline-questions" / "src"
    monkeypatch.syspath_prepend(example)
    said = door("eval", kept(door), "--window", "8k", "--strategies", "foldline_questions:OnlyQuestions")
    assert said.code == 0, said.err


# --- with a model ---------------------------------------------------------------------------------------


def at_server(monkeypatch: pytest.MonkeyPatch, url: str, model: str) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", url)
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    monkeypatch.setenv("FOLDLINE_MODEL", model)


def test_real_summaries_cost_money_and_are_not_sent_unasked(
    door: FrontDoor, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running_server(window=8_192) as server:
        at_server(monkeypatch, server.base_url, server.model)
        said = door("eval", kept(door), "--window", "8k", "--strategies", "summary")
        assert said.code == 1
        assert "Real summaries by scripted-1 take about" in said.err
        assert "--yes" in said.err
        assert server.requests() == []


def test_what_takes_no_summaries_asks_for_no_consent(
    door: FrontDoor, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running_server(window=8_192) as server:
        at_server(monkeypatch, server.base_url, server.model)
        said = door("eval", kept(door), "--window", "8k", "--strategies", "truncate")
        assert (said.code, server.requests()) == (0, [])


def test_with_a_model_its_summaries_are_measured_and_named(
    door: FrontDoor, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = [{"answer": {"text": "## Goal\n- the notes of a real model"}}]
    with running_server(window=8_192, script=script) as server:
        at_server(monkeypatch, server.base_url, server.model)
        said = door("eval", kept(door), "--window", "8k", "--strategies", "summary", "--yes", "--json")
        sent = server.requests()
    assert said.code == 0
    row = said.json["rows"][-1]
    assert (row["summariser"], row["floor"]) == ("scripted-1", False)
    assert row["summary_calls"] == len(sent) > 0
    assert [seen.violations for seen in sent] == [()] * len(sent)


def test_the_judge_asks_the_model_from_each_view_and_says_how_little_one_session_tells(
    door: FrontDoor, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running_server(window=32_768) as server:
        at_server(monkeypatch, server.base_url, server.model)
        options = ("--window", "16k", "--strategies", "digest", "--judge", "--yes")
        said = door("eval", kept(door), *options)
        asked = server.requests()
    assert said.code == 0, said.err
    assert "insufficient" in said.out
    assert "judged by itself" in said.out
    assert len(asked) > 10
    assert all("tools" not in seen.body for seen in asked)
    assert json.dumps(asked[-1].messages)
