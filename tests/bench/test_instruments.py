"""The instruments of the benchmarks measure correctly: part of `make test`."""

import asyncio
import json
from dataclasses import replace
from pathlib import Path

import pytest

from bench.tables import Table
from foldline.protocol import ToolCallPart
from foldline.view.items import INTERRUPTED
from support.evaluation import messages_of
from support.history import call, history
from support.job_files import Coverage, make_files
from support.job_reader import ONE_BY_ONE, TOGETHER, Reader, notes
from support.recorded_job import job_of, run_job
from support.server_checks import count
from support.server_notes import LONGEST
from support.server_notes import notes as summary_notes
from support.server_rules import Script


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    return make_files(tmp_path, 6)


def test_the_files_are_the_same_in_every_run_and_of_the_size_they_claim(
    files: list[Path], tmp_path: Path
) -> None:
    copies = make_files(tmp_path / "again", 6)
    assert [path.read_bytes() for path in files] == [
        path.read_bytes() for path in copies
    ]
    assert all(20_000 <= path.stat().st_size <= 40_000 for path in files)


def test_coverage_is_whole_only_where_every_line_was_sent(files: list[Path]) -> None:
    coverage = Coverage(files)
    for path in files[1:]:
        coverage.add(path.read_text(encoding="utf-8"))
    assert 0.7 < coverage.share < 1
    assert [gap.partition(":")[0] for gap in coverage.missing()] == [files[0].name]
    text = files[0].read_text(encoding="utf-8")
    half = text.index("\n\n", len(text) // 2) + 1  # just before an empty line
    coverage.add(f"a note\n{text[:half]}another note\n")
    assert coverage.missing()
    coverage.add(text[half:])
    assert coverage.missing() == []
    assert coverage.share == 1


def test_half_a_line_does_not_count_as_seen(files: list[Path]) -> None:
    coverage = Coverage(files[:1])
    lines = files[0].read_text(encoding="utf-8").splitlines()
    coverage.add("\n".join([*lines[:-1], lines[-1][:10]]))
    assert coverage.missing() == [
        f"{files[0].name}: 1 of {len(lines)} lines, from {len(lines)}"
    ]


def asked(text: str) -> dict[str, object]:
    return {"messages": [{"role": "user", "content": text}], "tools": [{}]}


def answered(calls: list[dict[str, object]], results: list[str]) -> dict[str, object]:
    tool_calls = [
        {
            "id": f"c{n}",
            "function": {"name": "read", "arguments": json.dumps(call["arguments"])},
        }
        for n, call in enumerate(calls)
    ]
    tools = [
        {"role": "tool", "tool_call_id": f"c{n}", "content": text}
        for n, text in enumerate(results)
    ]
    return {
        "messages": [{"role": "assistant", "tool_calls": tool_calls}, *tools],
        "tools": [{}],
    }


def test_the_reader_calls_again_what_was_not_run_and_reads_on_where_a_result_was_clipped() -> (
    None
):
    reader = Reader()
    calls = reader.answer(asked(f"Read part00.py, part01.log {TOGETHER}"))["tool_calls"]
    assert [call["arguments"] for call in calls] == [
        {"path": "part00.py"},
        {"path": "part01.log"},
    ]
    clipped = "a\n[… 9 lines (90 characters) left out, 2–10. To see them: `read` part00.py with offset 2 and "
    results = [f"{clipped}limit 9 …]\nz\n", "Not run: window full, call again."]
    calls = reader.answer(answered(calls, results))["tool_calls"]
    assert [call["arguments"] for call in calls] == [
        {"path": "part00.py", "offset": 2, "limit": 9},
        {"path": "part01.log"},
    ]
    assert "are read" in reader.answer(answered(calls, ["b\n", "c\n"]))["text"]


def test_the_reader_answers_a_summary_request_of_either_form_and_goes_on_where_it_was() -> (
    None
):
    reader = Reader()
    first = reader.answer(asked(f"Read part00.py, part01.log {ONE_BY_ONE}"))[
        "tool_calls"
    ]
    for request in (
        "<summary-request>\nWrite notes.\n</summary-request>",
        "<conversation>\n</conversation>",
    ):
        body = asked(request)
        if "<conversation>" in request:
            del body["tools"]
        assert reader.answer(body)["text"] == notes(1)
    assert 200 < count(notes(1)) < 400
    second = reader.answer(answered(first, ["a\n"]))["tool_calls"]
    assert [call["arguments"] for call in second] == [{"path": "part01.log"}]


def test_a_table_lines_up_wide_characters() -> None:
    output = Table("Title", ("text", "tokens"))
    output.row("日本語", 5)
    output.row("emoji", 1_000)
    output.note("a note")
    assert output.lines() == [
        "Title",
        "  text     tokens",
        "  日本語        5",
        "  emoji      1000",
        "  a note",
    ]


def test_notes_take_the_form_and_the_length_that_were_asked_for() -> None:
    full_notes = summary_notes("## Goal", {"max_tokens": 100_000})
    assert LONGEST * 0.9 <= count(full_notes) <= LONGEST * 1.1
    assert count(summary_notes("## Goal", {"max_completion_tokens": 600})) <= 345
    assert "<code_state>" in summary_notes("<current_focus>…</current_focus>", {})
    pieces = (
        '<turn number="1" tokens="200">a</turn><turn number="2" tokens="50">b</turn>'
    )
    first, second = summary_notes(pieces, {}).split("### Turn 2\n")
    assert first.startswith("### Turn 1\n")
    assert count(second) <= 50 < count(first) <= 200


def test_recorded_answers_come_in_their_order_and_as_they_stand() -> None:
    answers = [{"text": "costs ${nth} $$", "chunk": 9}, {"text": "second"}]
    script = Script(
        [
            {"when": {"content": "sum"}, "answer": {"text": "s"}},
            {"answer": {"recorded": answers}},
        ]
    )
    replies = [
        script.answer({"messages": [{"role": "user", "content": text}]}, 7)
        for text in ("a", "sum", "b")
    ]
    assert replies == [answers[0], {"text": "s"}, answers[1]]


def asks(command: str, call_id: str) -> ToolCallPart:
    return call("sh", call_id, cmd=command)


def test_a_recorded_job_is_worked_through_to_its_end_and_billed_by_the_server(
    tmp_path: Path,
) -> None:
    story = (
        history()
        .user("one")
        .user("go")
        .assistant("wait")
        .assistant(calls=[asks("ls", "a")])
    )
    story.result("files " * 400).assistant(
        calls=[asks("ls", "b"), asks("x", "c")]
    ).result("more")
    story.user("and now?").assistant("done")
    job = job_of("made", messages_of(story))
    assert [(turn.prompt, len(turn.steps)) for turn in job.turns] == [
        ("one\n\ngo", 3),
        ("and now?", 1),
    ]
    assert job.turns[0].steps[0].answer.text == "wait"
    run = asyncio.run(run_job(job, tmp_path / "p"))
    assert run.failures == []
    last = run.requests[-1].messages
    results = [message["content"] for message in last if message["role"] == "tool"]
    assert results == ["files " * 400, "more", INTERRUPTED]
    bill = run.bill
    assert (bill.requests, bill.summaries, bill.compactions, bill.broken) == (
        4,
        0,
        0,
        (),
    )
    assert bill.input == sum(seen.prompt_tokens for seen in run.requests)
    assert (
        bill.uncached
        == bill.input - sum(seen.cached_tokens for seen in run.requests)
        < bill.input
    )
    assert bill.output == sum(seen.completion_tokens for seen in run.requests) > 3


def test_a_prefix_that_is_lost_without_a_change_of_the_view_is_found(
    tmp_path: Path,
) -> None:
    story = history().user("go").step("sh", "files " * 400).assistant("done")
    run = asyncio.run(run_job(job_of("made", messages_of(story)), tmp_path / "p"))
    assert run.bill.broken == ()
    first, second = run.requests
    for spoilt in (
        replace(second, raw=second.raw.replace(b'"go"', b'"gone"')),
        replace(second, cached_tokens=0),
    ):
        assert len(replace(run, requests=[first, spoilt]).bill.broken) == 1
