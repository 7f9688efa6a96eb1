"""`foldline compact`."""

import json
import logging
import sys
from pathlib import Path

import pytest

from foldline.compaction import BUILT_IN
from foldline.history import Session
from support.front_door import FrontDoor
from support.history import History, history, read
from support.projections import folds_of
from support.server import running_server

PI = """\
{"type":"session","id":"abc","timestamp":"2025-12-01T10:00:00.000Z","cwd":"/work/shop","provider":"x","modelId":"y"}
"""


def long() -> History:
    """Ten turns of some thousand tokens each."""
    builder = history().system("You are Foldline.")
    for nth in range(10):
        builder.user(f"Request {nth}: never touch table payments_{nth}.")
        path = f"src/file_{nth}.py"
        builder.step("read", f"line of file {nth}\n" * 400, path=path, files=[read(path)])
        builder.assistant(f"Done with {nth}.")
    return builder


def pi_file(door: FrontDoor, turns: int = 12) -> str:
    """A session of pi's first format, long enough to fold."""
    import json

    lines = [PI.strip()]
    for nth in range(turns):
        for role, text in (("user", f"request {nth} " + "word " * 300), ("assistant", "answer " * 300)):
            message = {"role": role, "content": [{"type": "text", "text": text}]}
            record = {"type": "message", "timestamp": "2025-12-01T10:00:01.000Z", "message": message}
            lines.append(json.dumps(record))
    (door.cwd / "pi.jsonl").write_text("\n".join(lines) + "\n")
    return "pi.jsonl"


def test_a_dry_run_plans_and_changes_nothing(door: FrontDoor) -> None:
    folder = door.keep(long().entries)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    said = door("compact", folder, "--dry-run", "--json")
    assert said.code == 0
    assert said.json["committed"] is False
    assert said.json["model_calls"] == 0
    assert said.json["summary"] == ""
    assert said.json["first_kept_index"] > 0
    assert said.json["tokens_after"] < said.json["tokens_before"]
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


@pytest.mark.parametrize("strategy", ["hide", "simple"])
def test_a_dry_run_promises_no_summary_of_a_strategy_that_makes_no_cut(
    door: FrontDoor, strategy: str
) -> None:
    said = door("compact", door.keep(long().entries), "--dry-run", "--strategy", strategy)
    assert said.code == 0
    assert "into 1 summary" not in said.out
    assert "knows what would go" in said.out


def test_a_fold_that_hides_where_nothing_could_be_cut_is_not_called_nothing(door: FrontDoor) -> None:
    builder = history().user("read them")
    for number in range(7):
        builder.step("read", f"line {number}\n" * 200, path=f"{number}.txt")
    folder = door.keep(builder.entries)
    said = door("compact", folder, "--strategy", "hide", "--window", "64k")
    assert said.code == 0
    assert "2 results hidden, no summary written" in said.out
    assert door("view", folder, "--json").json["items"][2]["fate"] == "hidden"


def test_a_session_of_ours_is_folded_in_place(door: FrontDoor) -> None:
    builder = long()
    folder = door.keep(builder.entries)
    said = door("compact", folder, "--json", "--focus", "the payments tables").json
    assert said["committed"] is True
    assert said["model_calls"] >= 1
    assert said["strategy"] == "SummaryCompaction"
    assert said["rung"] == "strategy"
    assert said["reason"] == "manual"
    assert said["tokens_after"] < said["tokens_before"]
    assert "src/file_0.py" in said["details"]["read_files"]
    assert "payments_0" in said["summary"]
    session = Session.open(folder)
    assert session.entries[: len(builder.entries)] == builder.entries
    [fold] = folds_of(session.projection)
    assert (fold.index, fold.summary, fold.focus) == (said["index"], said["summary"], "the payments tables")
    assert fold.first_kept_index == said["first_kept_index"]


def test_the_digest_asks_no_model(door: FrontDoor) -> None:
    said = door("compact", door.keep(long().entries), "--strategy", "digest", "--json").json
    assert (said["strategy"], said["model_calls"], said["model"]) == ("DigestCompaction", 0, None)
    assert said["committed"] is True


def test_nothing_to_fold_is_said_and_commits_nothing(door: FrontDoor) -> None:
    folder = door.keep(history().turn("hello", "hi").entries)
    before = (folder / "events.jsonl").read_bytes()
    said = door("compact", folder)
    assert said.code == 0
    assert "Nothing to compact" in said.out
    as_json = door("compact", folder, "--json").json
    assert (as_json["committed"], as_json["first_kept_index"], as_json["summary"]) == (False, None, "")
    assert as_json["tokens_before"] == as_json["tokens_after"]
    assert (folder / "events.jsonl").read_bytes() == before


def test_what_was_asked_to_be_kept_is_kept(door: FrontDoor) -> None:
    folder = door.keep(long().entries)
    little = door("compact", folder, "--keep", "1k", "--dry-run", "--json").json
    much = door("compact", folder, "--keep", "40%", "--window", "32k", "--dry-run", "--json").json
    assert much["first_kept_index"] < little["first_kept_index"]
    assert much["window"] == 32_000


def test_another_agents_file_is_never_written_to(door: FrontDoor) -> None:
    file = door.cwd / pi_file(door)
    before = file.read_bytes()
    said = door("compact", file)
    assert said.code == 0
    assert "not committed" in said.err
    assert "## Goal" in said.out
    assert door("compact", file, "--json").json["committed"] is False
    assert file.read_bytes() == before
    assert [path.name for path in door.cwd.iterdir()] == ["pi.jsonl"]


def test_out_writes_a_folded_copy_that_reads_like_the_fold(door: FrontDoor) -> None:
    file = door.cwd / pi_file(door)
    said = door("compact", file, "--out", "folded.jsonl", "--json").json
    assert said["committed"] is True
    rows = door("history", "folded.jsonl", "--json").lines
    original = door("history", file, "--json").lines
    assert [row["index"] for row in rows[:-1]] == [row["index"] for row in original]
    assert (rows[-1]["type"], rows[-1]["index"]) == ("compaction", said["index"])
    view = door("view", "folded.jsonl", "--json").json
    assert view["items"][0]["kind"] == "summary"
    assert any(row["fate"] == "summarised" and row["by"] == said["index"] for row in rows)


def test_out_never_overwrites(door: FrontDoor) -> None:
    file = pi_file(door)
    (door.cwd / "mine.txt").write_text("precious")
    said = door("compact", file, "--out", "mine.txt")
    assert said.code == 1
    assert "exists already" in said.err
    assert (door.cwd / "mine.txt").read_text() == "precious"
    assert "no folder" in door("compact", file, "--out", "nowhere/x.jsonl").err


def test_a_refused_key_changes_nothing_and_fails(door: FrontDoor, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = door.keep(long().entries)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    full = ("--window", "12k")
    asked = ((), ("--json",), ("--out", "copy.jsonl"), full, (*full, "--keep", "1k"))
    with running_server(key="sk-right") as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        monkeypatch.setenv("OPENAI_API_KEY", "sk-wrong")
        said = [door("compact", folder, *options) for options in asked]
    assert [(each.code, each.out, each.err.count("\n")) for each in said] == [(1, "", 1)] * len(asked)
    assert "key" in said[0].err
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    assert not (door.cwd / "copy.jsonl").exists()


@pytest.mark.parametrize(
    ("does", "says"),
    [
        ("raise RuntimeError('no luck')", "The strategy Own failed (RuntimeError: no luck)."),
        ("return ctx.history[:-1]", "The compaction by Own was rejected: the unanswered request, entry 41, "),
        ("return ctx.history", "The compaction by Own was rejected: it is not smaller: "),
    ],
)
def test_a_strategy_of_ones_own_that_fails_changes_nothing(
    door: FrontDoor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, does: str, says: str
) -> None:
    (tmp_path / "own_strategy.py").write_text(f"class Own:\n    async def compact(self, ctx): {does}\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "own_strategy", raising=False)
    folder = door.keep(long().user("and now?").entries)
    before = (folder / "events.jsonl").read_bytes()
    said = door("compact", folder, "--strategy", "own_strategy:Own", "--window", "100k")
    assert (said.code, said.out, said.err.count("\n")) == (1, "", 1)
    assert says in said.err
    assert (folder / "events.jsonl").read_bytes() == before


@pytest.mark.parametrize("strategy", sorted(BUILT_IN))
def test_every_strategy_leaves_one_record_a_run_in_the_log_that_was_asked_for(
    door: FrontDoor, strategy: str
) -> None:
    folder = door.keep(long().entries)
    arguments = ("compact", folder, "--strategy", strategy, "--window", "20k", "--json", "--log", "log.jsonl")
    assert door(*arguments).code == 0
    lines = map(json.loads, (door.cwd / "log.jsonl").read_text(encoding="utf-8").splitlines())
    [record] = [line for line in lines if "rung" in line]  # `semantic` also says how it compared
    fields = ("tokens_before", "tokens_after", "ratio", "message_count", "rung", "strategy", "at", "message")
    assert set(record) == set(fields)
    assert 0 < record["ratio"] < 1
    assert record["strategy"] == BUILT_IN[strategy].__name__ or strategy == "adaptive"
    assert record["message_count"] == 41
    assert logging.getLogger("foldline.compaction").level == logging.NOTSET


def test_a_strategy_that_fails_leaves_its_record_too(door: FrontDoor) -> None:
    folder = door.keep(long().entries)
    arguments = (
        "compact",
        folder,
        "--strategy",
        "own_strategy:Own",
        "--window",
        "100k",
        "--log",
        "log.jsonl",
    )
    (door.cwd / "own_strategy.py").write_text("class Own:\n    async def compact(self, ctx): 1 / 0\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(door.cwd)
        patch.delitem(sys.modules, "own_strategy", raising=False)
        assert door(*arguments, "--log", "log.jsonl").code == 1
    record = json.loads((door.cwd / "log.jsonl").read_text(encoding="utf-8"))
    assert (record["rung"], record["ratio"], record["strategy"]) == ("failed", 1.0, "Own")


def test_a_log_that_cannot_be_written_is_one_sentence(door: FrontDoor) -> None:
    said = door("compact", door.keep(long().entries), "--log", "nowhere/log.jsonl")
    assert (said.code, said.out, said.err.count("\n")) == (1, "", 1)
    assert "--log: nowhere/log.jsonl cannot be written: no such file or directory." in said.err


def test_a_copy_leaves_our_own_session_alone(door: FrontDoor) -> None:
    folder = door.keep(long().entries)
    before = (folder / "events.jsonl").read_bytes()
    assert door("compact", folder, "--out", "copy.jsonl").code == 0
    assert (folder / "events.jsonl").read_bytes() == before


def test_a_window_smaller_than_the_system_prompt_is_refused(door: FrontDoor) -> None:
    entries = history().system("Be careful. " * 2_000).turn("hello", "hi " * 2_000).user("more").entries
    folder = door.keep(entries)
    before = (folder / "events.jsonl").read_bytes()
    said = door("compact", folder, "--window", "4k")
    assert said.code == 1
    assert "The window of 4,000 tokens is too small" in said.err
    assert said.err.count("\n") == 1
    assert (folder / "events.jsonl").read_bytes() == before


@pytest.mark.parametrize("window", ["100", "2000"])
def test_a_window_too_small_to_work_in_is_refused(door: FrontDoor, window: str) -> None:
    said = door("compact", door.keep(long().entries), "--window", window)
    assert said.code == 2
    assert f"--window: {window} is too small: 2,048 tokens at least" in said.err


def test_an_unknown_strategy_names_the_known_ones(door: FrontDoor) -> None:
    said = door("compact", door.keep(long().entries), "--strategy", "wizardry")
    assert said.code == 2
    assert "There is no strategy wizardry; there are adaptive, summary, simple, hide," in said.err


def test_a_strategy_is_chosen_by_its_short_name(door: FrontDoor) -> None:
    said = door("compact", door.keep(long().entries), "--strategy", "simple", "--json")
    assert (said.code, said.json["strategy"], said.json["rung"]) == (0, "SimpleCompaction", "strategy")


def test_a_session_that_another_process_writes_to_is_left_alone(door: FrontDoor) -> None:
    folder = door.keep(long().entries)
    other = Session.open(folder)
    other.claim()
    try:
        said = door("compact", folder)
    finally:
        other.close()
    assert said.code == 1
    assert "is being written by" in said.err


def test_the_model_of_the_settings_writes_the_summary(
    door: FrontDoor, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running_server(model="their/writer:1") as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        monkeypatch.setenv("FOLDLINE_COMPACTION__MODEL", "their/writer:1")
        said = door("compact", door.keep(long().entries), "-m", "offline", "--json").json
    assert (said["model"], said["committed"], said["rung"]) == ("their/writer:1", True, "strategy")


def test_a_strategy_that_asks_for_the_model_gets_the_one_that_writes_summaries(
    door: FrontDoor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "asks_for_model.py").write_text(
        "from foldline.llm import LLM\n"
        "class Asks:\n"
        "    def __init__(self, llm: LLM) -> None: self.llm = llm\n"
        "    async def compact(self, ctx): raise RuntimeError(f'given {self.llm.info.id}')\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    with running_server(model="their/writer:1") as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        monkeypatch.setenv("FOLDLINE_COMPACTION__MODEL", "their/writer:1")
        folder = door.keep(long().entries)
        said = door("compact", folder, "-m", "offline", "--strategy", "asks_for_model:Asks")
    assert "given their/writer:1" in said.err


def test_a_model_without_a_server_is_one_sentence(door: FrontDoor) -> None:
    said = door("compact", door.keep(long().entries), "-m", "gpt-5")
    assert said.code == 1
    assert "OPENAI_API_KEY" in said.err
    assert said.err.count("\n") == 1


def test_a_fold_that_only_clips_says_so(door: FrontDoor) -> None:
    builder = (
        history().user("read it").step("read", "a line of it\n" * 4_000, path="big.txt").assistant("Read.")
    )
    folder = door.keep(builder.entries)
    said = door("compact", folder, "--window", "16k")
    assert said.code == 0
    assert "1 result clipped, no summary written" in said.out
    assert door("view", folder, "--json").json["items"][2]["fate"] == "clipped"


def test_a_dry_run_gives_programs_no_numbers_that_only_the_strategy_would_know(door: FrontDoor) -> None:
    folder = door.keep(long().entries)
    said = door("compact", folder, "--dry-run", "--json", "--strategy", "hide").json
    assert (said["tokens_after"], said["first_kept_index"], said["kept"], said["compacted"]) == (None,) * 4
    assert door("compact", folder, "--dry-run", "--json", "--strategy", "summary").json["compacted"] > 0
