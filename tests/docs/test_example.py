"""The example of a custom strategy: installed with pip, then used by the real program."""

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from foldline.agent.project.trust import decide, folder_files
from foldline.compaction.rewrite import GROUP_INCOMPLETE
from foldline.history import Session
from foldline.view.rules import broken
from support.command_line import CommandLine
from support.history import History, history

EXAMPLE = Path(__file__).parents[2] / "docs" / "examples" / "foldline-questions"
OWN = "foldline_questions:OnlyQuestions"

FAULTY = """
class NoMethod: ...

class AsksTooMuch:
    def __init__(self, database: dict) -> None: ...
    async def compact(self, ctx): ...
"""

ILLEGAL = """
class Torn:
    async def compact(self, ctx):
        return [m for m in ctx.history if m.type != "tool_result"]
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install the example with pip into a folder, next to faulty modules."""
    folder = tmp_path_factory.mktemp("example")
    source, site = folder / "foldline-questions", folder / "site"
    shutil.copytree(EXAMPLE, source, ignore=shutil.ignore_patterns("__pycache__"))
    options = [
        "--no-deps",
        "--no-build-isolation",
        "--no-index",
        "--disable-pip-version-check",
        "--quiet",
    ]
    command = [
        sys.executable,
        "-m",
        "pip",
        "install",
        *options,
        "--target",
        str(site),
        str(source),
    ]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=110, check=False
    )
    assert done.returncode == 0, done.stderr
    (site / "faulty_compacting.py").write_text(FAULTY)
    (site / "torn_compacting.py").write_text(ILLEGAL)
    return site


@dataclass(frozen=True)
class Program:
    """Run the program as its console script does, with its own home and that folder on Python's path."""

    site: Path
    home: Path
    cwd: Path

    def __call__(self, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
        environ = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("FOLDLINE_", "OPENAI_"))
        }
        environ |= {
            "PYTHONPATH": str(self.site),
            "FOLDLINE_HOME": str(self.home),
            "NO_COLOR": "1",
        }
        return subprocess.run(
            [str(Path(sys.executable).with_name("foldline")), *map(str, arguments)],
            cwd=self.cwd,
            env=environ,
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=60,
            check=False,
        )

    def json(self, *arguments: str | Path) -> Any:
        done = self(*arguments, "--json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)


@pytest.fixture
def program(site: Path, tmp_path: Path) -> Program:
    (tmp_path / "home").mkdir()
    (tmp_path / "work").mkdir()
    return Program(site, tmp_path / "home", tmp_path / "work")


@pytest.fixture
def session(program: Program, capsys: pytest.CaptureFixture[str]) -> Path:
    """Write a session of eight questions, each with a step and a long answer."""
    return CommandLine(program.home, program.cwd, capsys).keep(
        eight_questions().entries
    )


def eight_questions() -> History:
    built = history().system("You are Foldline.").instructions("Always run the linter.")
    for nth in range(8):
        built.user(f"question {nth}").step(
            "read", f"line of file {nth}\n" * 200, path=f"{nth}.py"
        )
        built.assistant(
            f"Answer {nth}: the decision is number {nth}. " + "And so on. " * 40
        )
    return built


def questions(folder: Path) -> list[str]:
    view = Session.open(folder).projection.view
    return [item.message.text for item in view if item.kind == "user"]


def test_the_installed_strategy_compacts_a_session(
    program: Program, session: Path
) -> None:
    said = program.json("compact", session, "--strategy", OWN)
    assert (said["strategy"], said["rung"], said["committed"]) == (
        "OnlyQuestions",
        "strategy",
        True,
    )
    assert said["model_calls"] == 0
    assert said["tokens_after"] < said["tokens_before"]
    assert questions(session) == [f"question {nth}" for nth in range(8)]
    after = Session.open(session).projection
    assert broken(after) == []
    kinds = [item.kind for item in after.view]
    assert kinds == [
        "system",
        "developer",
        *["user"] * 8,
        "assistant",
        "tool_result",
        "assistant",
    ]


@pytest.mark.slow
def test_the_strategys_constructor_gets_the_working_folder(
    program: Program, session: Path
) -> None:
    (program.cwd / "keep-words.txt").write_text("3: 5:\n")
    program.json("compact", session, "--strategy", OWN)
    view = Session.open(session).projection.view
    answers = [
        item.message.text[:8] for item in view if item.message.text.startswith("Answer")
    ]
    assert answers == ["Answer 3", "Answer 5", "Answer 7"]


@pytest.mark.slow
def test_the_strategy_compacts_before_a_prompt_that_does_not_fit(
    program: Program, session: Path
) -> None:
    done = program(
        "run", "-c", "and now?", "--window", "8k", "--strategy", OWN, "--json"
    )
    assert done.returncode == 0, done.stderr
    said = [json.loads(line) for line in done.stdout.splitlines()]
    [compaction] = [
        each["entry"]
        for each in said
        if each.get("entry", {}).get("type") == "compaction"
    ]
    assert (compaction["strategy"], compaction["rung"], compaction["reason"]) == (
        "OnlyQuestions",
        "strategy",
        "threshold",
    )
    assert questions(session) == [*(f"question {nth}" for nth in range(8)), "and now?"]


@pytest.mark.slow
def test_the_users_settings_can_name_the_strategy(
    program: Program, session: Path
) -> None:
    (program.home / "config.toml").write_text(f'[compaction]\nstrategy = "{OWN}"\n')
    assert program.json("compact", session)["strategy"] == "OnlyQuestions"


@pytest.mark.slow
def test_a_projects_settings_cannot_name_the_strategy(
    program: Program, session: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (program.cwd / ".foldline.toml").write_text(f'[compaction]\nstrategy = "{OWN}"\n')
    monkeypatch.setenv("FOLDLINE_HOME", str(program.home))
    decide(folder_files(program.cwd), "agreed")
    done = program("compact", session)
    assert done.returncode == 1
    assert ".foldline.toml" in done.stderr
    assert Session.open(session).projection.compactions() == []


@pytest.mark.slow
def test_an_illegal_result_changes_nothing_unless_the_window_is_full(
    program: Program, session: Path
) -> None:
    incomplete = GROUP_INCOMPLETE.partition("{")[0]
    torn = ("compact", session, "--strategy", "torn_compacting:Torn", "--json")
    done = program(*torn)
    assert (done.returncode, incomplete in done.stderr, done.stdout) == (1, True, "")
    assert Session.open(session).projection.compactions() == []
    done = program(*torn, "--window", "8k")
    assert (done.returncode, incomplete in done.stderr) == (0, True)
    assert json.loads(done.stdout)["rung"] != "strategy"


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("foldline_answers:OnlyAnswers", "no module foldline_answers"),
        (
            "foldline_questions:OnlyAnswers",
            "foldline_questions has no class OnlyAnswers",
        ),
        ("faulty_compacting:NoMethod", "no method compact(ctx)"),
        ("faulty_compacting:AsksTooMuch", "database: dict"),
    ],
)
def test_an_unloadable_strategy_is_one_sentence_and_compacts_nothing(
    program: Program, session: Path, name: str, says: str
) -> None:
    refused_with(says, program, session, "compact", session, "--strategy", name)


@pytest.mark.slow
def test_no_prompt_is_sent_with_an_unloadable_strategy(
    program: Program, session: Path
) -> None:
    refused_with(
        "no module nowhere",
        program,
        session,
        "run",
        "-c",
        "go on",
        "--strategy",
        "nowhere:Thing",
    )


def refused_with(
    says: str, program: Program, session: Path, *arguments: str | Path
) -> None:
    before = (session / "events.jsonl").read_bytes()
    done = program(*arguments)
    assert (done.returncode, done.stdout) == (1, "")
    assert says in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert (session / "events.jsonl").read_bytes() == before
