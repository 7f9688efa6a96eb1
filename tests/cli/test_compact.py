"""`foldline compact`."""

import json
import logging
import sys
from pathlib import Path

import pytest

from foldline.cli.arguments import SMALL_WINDOW
from foldline.cli.compact import NO_PLAN
from foldline.compaction import BUILT_IN
from foldline.compaction.fallbacks import REJECTED_BY, STRATEGY_FAILED
from foldline.compaction.registry import UNKNOWN_STRATEGY
from foldline.compaction.rewrite import NOT_SMALLER, REQUEST_MISSING
from foldline.history import Session
from foldline.history.paths import FILE_EXISTS
from support.command_line import CommandLine
from support.history import History, history, read
from support.projections import compactions_of
from support.sentences import says
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
        builder.step(
            "read", f"line of file {nth}\n" * 400, path=path, files=[read(path)]
        )
        builder.assistant(f"Done with {nth}.")
    return builder


def pi_file(cli: CommandLine, turns: int = 12) -> str:
    """A session of pi's first format, long enough to compact."""
    import json

    lines = [PI.strip()]
    for nth in range(turns):
        for role, text in (
            ("user", f"request {nth} " + "word " * 300),
            ("assistant", "answer " * 300),
        ):
            message = {"role": role, "content": [{"type": "text", "text": text}]}
            record = {
                "type": "message",
                "timestamp": "2025-12-01T10:00:01.000Z",
                "message": message,
            }
            lines.append(json.dumps(record))
    (cli.cwd / "pi.jsonl").write_text("\n".join(lines) + "\n")
    return "pi.jsonl"


def test_a_dry_run_plans_and_changes_nothing(cli: CommandLine) -> None:
    folder = cli.keep(long().entries)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    said = cli("compact", folder, "--dry-run", "--json")
    assert said.code == 0
    assert said.json["committed"] is False
    assert said.json["model_calls"] == 0
    assert said.json["summary"] == ""
    assert said.json["first_kept_index"] > 0
    assert said.json["tokens_after"] < said.json["tokens_before"]
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


@pytest.mark.parametrize("strategy", ["hide", "simple"])
def test_a_dry_run_promises_no_summary_of_a_strategy_that_makes_no_cut(
    cli: CommandLine, strategy: str
) -> None:
    said = cli("compact", cli.keep(long().entries), "--dry-run", "--strategy", strategy)
    assert said.code == 0
    assert "into 1 summary" not in said.out
    assert NO_PLAN in said.out


def test_a_compaction_that_hides_where_nothing_could_be_cut_is_not_called_nothing(
    cli: CommandLine,
) -> None:
    builder = history().user("read them")
    for number in range(7):
        builder.step("read", f"line {number}\n" * 200, path=f"{number}.txt")
    folder = cli.keep(builder.entries)
    said = cli("compact", folder, "--strategy", "hide", "--window", "64k")
    assert said.code == 0
    assert "2 results hidden, no summary written" in said.out
    assert cli("view", folder, "--json").json["items"][2]["fate"] == "hidden"


def test_a_session_of_ours_is_compacted_in_place(cli: CommandLine) -> None:
    builder = long()
    folder = cli.keep(builder.entries)
    said = cli("compact", folder, "--json", "--focus", "the payments tables").json
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
    [compaction] = compactions_of(session.projection)
    assert (compaction.index, compaction.summary, compaction.focus) == (
        said["index"],
        said["summary"],
        "the payments tables",
    )
    assert compaction.first_kept_index == said["first_kept_index"]


def test_the_digest_asks_no_model(cli: CommandLine) -> None:
    said = cli(
        "compact", cli.keep(long().entries), "--strategy", "digest", "--json"
    ).json
    assert (said["strategy"], said["model_calls"], said["model"]) == (
        "DigestCompaction",
        0,
        None,
    )
    assert said["committed"] is True


def test_nothing_to_compact_is_said_and_commits_nothing(cli: CommandLine) -> None:
    folder = cli.keep(history().turn("hello", "hi").entries)
    before = (folder / "events.jsonl").read_bytes()
    said = cli("compact", folder)
    assert said.code == 0
    assert "Nothing to compact" in said.out
    as_json = cli("compact", folder, "--json").json
    assert (as_json["committed"], as_json["first_kept_index"], as_json["summary"]) == (
        False,
        None,
        "",
    )
    assert as_json["tokens_before"] == as_json["tokens_after"]
    assert (folder / "events.jsonl").read_bytes() == before


def test_what_was_asked_to_be_kept_is_kept(cli: CommandLine) -> None:
    folder = cli.keep(long().entries)
    little = cli("compact", folder, "--keep", "1k", "--dry-run", "--json").json
    much = cli(
        "compact", folder, "--keep", "40%", "--window", "32k", "--dry-run", "--json"
    ).json
    assert much["first_kept_index"] < little["first_kept_index"]
    assert much["window"] == 32_000


def test_another_agents_file_is_never_written_to(cli: CommandLine) -> None:
    file = cli.cwd / pi_file(cli)
    before = file.read_bytes()
    said = cli("compact", file)
    assert said.code == 0
    assert "not committed" in said.err
    assert "## Goal" in said.out
    assert cli("compact", file, "--json").json["committed"] is False
    assert file.read_bytes() == before
    assert [path.name for path in cli.cwd.iterdir()] == ["pi.jsonl"]


def test_out_writes_a_compacted_copy_that_reads_like_the_compaction(
    cli: CommandLine,
) -> None:
    file = cli.cwd / pi_file(cli)
    said = cli("compact", file, "--out", "compacted.jsonl", "--json").json
    assert said["committed"] is True
    rows = cli("history", "compacted.jsonl", "--json").lines
    original = cli("history", file, "--json").lines
    assert [row["index"] for row in rows[:-1]] == [row["index"] for row in original]
    assert (rows[-1]["type"], rows[-1]["index"]) == ("compaction", said["index"])
    view = cli("view", "compacted.jsonl", "--json").json
    assert view["items"][0]["kind"] == "summary"
    assert any(
        row["fate"] == "summarised" and row["by"] == said["index"] for row in rows
    )


def test_out_never_overwrites(cli: CommandLine) -> None:
    file = pi_file(cli)
    (cli.cwd / "mine.txt").write_text("precious")
    said = cli("compact", file, "--out", "mine.txt")
    assert said.code == 1
    assert says(said.err, FILE_EXISTS)
    assert (cli.cwd / "mine.txt").read_text() == "precious"
    assert "no folder" in cli("compact", file, "--out", "nowhere/x.jsonl").err


def test_a_refused_key_changes_nothing_and_fails(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = cli.keep(long().entries)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    full = ("--window", "12k")
    asked = ((), ("--json",), ("--out", "copy.jsonl"), full, (*full, "--keep", "1k"))
    with running_server(key="sk-right") as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        monkeypatch.setenv("OPENAI_API_KEY", "sk-wrong")
        said = [cli("compact", folder, *options) for options in asked]
    assert [(each.code, each.out, each.err.count("\n")) for each in said] == [
        (1, "", 1)
    ] * len(asked)
    assert "key" in said[0].err
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    assert not (cli.cwd / "copy.jsonl").exists()


@pytest.mark.parametrize(
    ("does", "says"),
    [
        (
            "raise RuntimeError('no luck')",
            STRATEGY_FAILED.format("Own", "RuntimeError", "no luck"),
        ),
        (
            "return ctx.history[:-1]",
            REJECTED_BY.format("Own", REQUEST_MISSING.format("unanswered", 41)),
        ),
        (
            "return ctx.history",
            REJECTED_BY.format("Own", NOT_SMALLER)[:-1],
        ),
    ],
)
def test_a_strategy_of_ones_own_that_fails_changes_nothing(
    cli: CommandLine,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    does: str,
    says: str,
) -> None:
    (tmp_path / "own_strategy.py").write_text(
        f"class Own:\n    async def compact(self, ctx): {does}\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "own_strategy", raising=False)
    folder = cli.keep(long().user("and now?").entries)
    before = (folder / "events.jsonl").read_bytes()
    said = cli("compact", folder, "--strategy", "own_strategy:Own", "--window", "100k")
    assert (said.code, said.out, said.err.count("\n")) == (1, "", 1)
    assert says in said.err
    assert (folder / "events.jsonl").read_bytes() == before


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize("strategy", sorted(BUILT_IN))
def test_every_strategy_leaves_one_record_a_run_in_the_log_that_was_asked_for(
    cli: CommandLine, strategy: str
) -> None:
    folder = cli.keep(long().entries)
    arguments = (
        "compact",
        folder,
        "--strategy",
        strategy,
        "--window",
        "20k",
        "--json",
        "--log",
        "log.jsonl",
    )
    assert cli(*arguments).code == 0
    lines = map(
        json.loads, (cli.cwd / "log.jsonl").read_text(encoding="utf-8").splitlines()
    )
    [record] = [
        line for line in lines if "rung" in line
    ]  # `semantic` also says how it compared
    fields = (
        "tokens_before",
        "tokens_after",
        "ratio",
        "message_count",
        "rung",
        "strategy",
        "at",
        "message",
    )
    assert set(record) == set(fields)
    assert 0 < record["ratio"] < 1
    assert record["strategy"] == BUILT_IN[strategy].__name__ or strategy == "adaptive"
    assert record["message_count"] == 41
    assert logging.getLogger("foldline.compaction").level == logging.NOTSET


def test_a_strategy_that_fails_leaves_its_record_too(cli: CommandLine) -> None:
    folder = cli.keep(long().entries)
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
    (cli.cwd / "own_strategy.py").write_text(
        "class Own:\n    async def compact(self, ctx): 1 / 0\n"
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(cli.cwd)
        patch.delitem(sys.modules, "own_strategy", raising=False)
        assert cli(*arguments, "--log", "log.jsonl").code == 1
    record = json.loads((cli.cwd / "log.jsonl").read_text(encoding="utf-8"))
    assert (record["rung"], record["ratio"], record["strategy"]) == (
        "failed",
        1.0,
        "Own",
    )


def test_a_log_that_cannot_be_written_is_one_sentence(cli: CommandLine) -> None:
    said = cli("compact", cli.keep(long().entries), "--log", "nowhere/log.jsonl")
    assert (said.code, said.out, said.err.count("\n")) == (1, "", 1)
    assert (
        "--log: nowhere/log.jsonl cannot be written: no such file or directory."
        in said.err
    )


def test_a_copy_leaves_our_own_session_alone(cli: CommandLine) -> None:
    folder = cli.keep(long().entries)
    before = (folder / "events.jsonl").read_bytes()
    assert cli("compact", folder, "--out", "copy.jsonl").code == 0
    assert (folder / "events.jsonl").read_bytes() == before


def test_a_window_smaller_than_the_system_prompt_is_refused(cli: CommandLine) -> None:
    entries = (
        history()
        .system("Be careful. " * 2_000)
        .turn("hello", "hi " * 2_000)
        .user("more")
        .entries
    )
    folder = cli.keep(entries)
    before = (folder / "events.jsonl").read_bytes()
    said = cli("compact", folder, "--window", "4k")
    assert said.code == 1
    assert "window of 4,000 tokens is too small" in said.err
    assert said.err.count("\n") == 1
    assert (folder / "events.jsonl").read_bytes() == before


@pytest.mark.parametrize("window", ["100", "2000"])
def test_a_window_too_small_to_work_in_is_refused(
    cli: CommandLine, window: str
) -> None:
    said = cli("compact", cli.keep(long().entries), "--window", window)
    assert said.code == 2
    assert SMALL_WINDOW.format(text=window, least=2048) in said.err


def test_an_unknown_strategy_names_the_known_ones(cli: CommandLine) -> None:
    said = cli("compact", cli.keep(long().entries), "--strategy", "wizardry")
    assert said.code == 2
    assert UNKNOWN_STRATEGY.format("wizardry", "", ", ".join(BUILT_IN)) in said.err


def test_a_strategy_is_chosen_by_its_short_name(cli: CommandLine) -> None:
    said = cli("compact", cli.keep(long().entries), "--strategy", "simple", "--json")
    assert (said.code, said.json["strategy"], said.json["rung"]) == (
        0,
        "SimpleCompaction",
        "strategy",
    )


def test_a_session_that_another_process_writes_to_is_left_alone(
    cli: CommandLine,
) -> None:
    folder = cli.keep(long().entries)
    other = Session.open(folder)
    other.claim()
    try:
        said = cli("compact", folder)
    finally:
        other.close()
    assert said.code == 1
    assert "is being written by" in said.err


def test_the_model_of_the_settings_writes_the_summary(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running_server(model="their/writer:1") as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        monkeypatch.setenv("FOLDLINE_COMPACTION__MODEL", "their/writer:1")
        said = cli("compact", cli.keep(long().entries), "-m", "offline", "--json").json
    assert (said["model"], said["committed"], said["rung"]) == (
        "their/writer:1",
        True,
        "strategy",
    )


def test_a_strategy_that_asks_for_the_model_gets_the_one_that_writes_summaries(
    cli: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
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
        folder = cli.keep(long().entries)
        said = cli(
            "compact", folder, "-m", "offline", "--strategy", "asks_for_model:Asks"
        )
    assert "given their/writer:1" in said.err


def test_a_model_without_a_server_is_one_sentence(cli: CommandLine) -> None:
    said = cli("compact", cli.keep(long().entries), "-m", "gpt-5")
    assert said.code == 1
    assert "OPENAI_API_KEY" in said.err
    assert said.err.count("\n") == 1


def test_a_compaction_that_only_clips_says_so(cli: CommandLine) -> None:
    builder = (
        history()
        .user("read it")
        .step("read", "a line of it\n" * 4_000, path="big.txt")
        .assistant("Read.")
    )
    folder = cli.keep(builder.entries)
    said = cli("compact", folder, "--window", "16k")
    assert said.code == 0
    assert "1 result clipped, no summary written" in said.out
    assert cli("view", folder, "--json").json["items"][2]["fate"] == "clipped"


def test_a_dry_run_gives_programs_no_numbers_that_only_the_strategy_would_know(
    cli: CommandLine,
) -> None:
    folder = cli.keep(long().entries)
    said = cli("compact", folder, "--dry-run", "--json", "--strategy", "hide").json
    assert (
        said["tokens_after"],
        said["first_kept_index"],
        said["kept"],
        said["compacted"],
    ) == (None,) * 4
    assert (
        cli("compact", folder, "--dry-run", "--json", "--strategy", "summary").json[
            "compacted"
        ]
        > 0
    )
