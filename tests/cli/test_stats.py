"""`foldline stats`: the counts for people and for programs, of any session that can be read."""

import json
from pathlib import Path

import pytest

from foldline.cli import main
from foldline.cli.stats import NO_CACHE_REPORTED
from foldline.protocol import CacheTerms, RequestRecord, Usage
from support.command_line import CommandLine, cli
from support.history import history, modified
from support.recordings import SHARED, needs_recorded
from support.reopened_sessions import write_events

__all__ = ["cli"]


@pytest.fixture
def events(tmp_path: Path) -> Path:
    path = tmp_path / "events.jsonl"
    told = (
        history()
        .user("go")
        .step("edit", "ok", files=[modified("a.py")])
        .assistant("done")
    )
    write_events(path, told.entries)
    return path


def test_for_people_it_names_prompts_files_and_tools(
    events: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["stats", str(events)]) == 0
    said = capsys.readouterr().out
    assert (
        "4 entries, 1 prompt, 2 answers" in said
        and "1 modified, 0 read" in said
        and "edit" in said
    )


def test_for_programs_it_is_one_object(
    events: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["stats", str(events), "--json"]) == 0
    counted = json.loads(capsys.readouterr().out)
    assert (counted["entries"], counted["tools"]["edit"]["calls"]) == (4, 1)
    assert counted["modified_files"] == ["a.py"]


def cached(tmp_path: Path, *, known: bool = True) -> Path:
    """Two requests, the second of which finds nothing of the first after a clear."""
    path = tmp_path / "cached.jsonl"
    told = history().system("Be brief.").user("one")
    terms = CacheTerms(life=300) if known else None
    for input_tokens, prompt in ((40_000, "two"), (20_000, "three")):
        record = RequestRecord(
            digest="0" * 64,
            model="claude-sonnet-5-5",
            after=told.last,
            cache=terms,
            usage=Usage(input=input_tokens, output=9),
        )
        told.assistant("done").add(record).clear().user(prompt)
    write_events(path, told.entries)
    return path


def test_what_a_cache_did_not_have_is_a_table_with_the_reason_and_what_it_cost(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["stats", str(cached(tmp_path)), "--cache"]) == 0
    said = capsys.readouterr().out
    assert "2 requests, 0 of 60.0k tokens cached (0%)" in said
    assert "20.0k fewer cached tokens than expected, in 1 request: $" in said
    assert "at the prices of 20" in said and "clear 4, from entry 1 on" in said


def test_for_programs_all_requests_are_there_with_their_totals(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["stats", str(cached(tmp_path)), "--cache", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [use["missed"] for use in told["requests"]] == [0, 20_000]
    assert told["requests"][1]["miss"] == {
        "cause": "clear",
        "by": 4,
        "differs": 1,
        "unused": None,
    }
    assert (
        told["totals"]["by_cause"] == {"clear": 20_000}
        and told["totals"]["dollars"] > 0
    )


def test_where_nobody_knows_of_a_cache_it_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["stats", str(cached(tmp_path, known=False)), "--cache"]) == 0
    assert NO_CACHE_REPORTED.partition("{name}")[2] in capsys.readouterr().out


def test_a_request_is_viewed_with_what_was_cached_of_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert (
        main(["view", str(cached(tmp_path)), "--request", "2", "--json"]) == 1
    )  # its digest is made up
    assert (
        json.loads(capsys.readouterr().out)["request"]["cache"]["miss"]["cause"]
        == "clear"
    )


@needs_recorded
def test_of_another_agent_stats_and_its_cache_count_the_same(cli: CommandLine) -> None:
    source = str(SHARED / "claude-code/entire-2auto-opus45.jsonl")
    models = cli("stats", source, "--json").json["models"].values()
    totals = cli("stats", source, "--cache", "--json").json["totals"]
    assert totals["input"] == sum(model["input"] for model in models) > 0
    assert totals["cached"] == sum(model["cached"] for model in models) > 0
