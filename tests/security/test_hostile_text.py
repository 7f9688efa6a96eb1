"""Invariant 13: untrusted text stays text from every source to every output."""

import json
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from textual.drivers.headless_driver import HeadlessDriver

from foldline.agent import Agent
from foldline.cli.plain.printer import PlainPrinter
from foldline.cli.plain.terminal import PlainTerminal
from foldline.cli.run import JsonLines, Sentences
from foldline.compaction.summary_text import framed
from foldline.frontend.questions import option_label, options_of, question_lines
from foldline.frontend.state import Question
from foldline.protocol import Compaction, RequestRecord, Title, Written, events
from foldline.tui.chat.escape_actions import ESC_LEAVES_CHOICE
from support.agents import PlayedLLM
from support.command_line import CommandLine
from support.history import history
from support.hostile import (
    HOSTILE,
    SEQUENCES,
    acting,
    beyond_frames,
    hostile_entries,
    hostile_events,
    hostile_file,
)
from support.limits import ALL
from support.live import live, session_in
from support.server import MODEL, running_server
from support.terminal import ENTER, LEAVE, Terminal, terminal


def kept(cli: CommandLine) -> Path:
    """Write a session with hostile text in every field that others control."""
    path = f"src/{HOSTILE}.py"
    entries = (
        history()
        .system("You are Foldline.")
        .instructions(f"Be kind. {HOSTILE}", source=f"{HOSTILE}/AGENTS.md")
        .user(f"Look at {HOSTILE}. Never touch {HOSTILE}.")
        .step("read", f"error: {HOSTILE}", path=path)
        .assistant(HOSTILE)
        .user("Go on.")
        .assistant(f"```{HOSTILE}\n{HOSTILE}\n```\n| {HOSTILE} |\n|---|\n| {HOSTILE} |")
        .add(Title(title=HOSTILE))
        .add(RequestRecord(digest="0", model=HOSTILE, dialect=HOSTILE, error=HOSTILE))
        .add(
            Compaction(
                summary=HOSTILE,
                first_kept_index=7,
                head=(Written(message=framed(HOSTILE), covers=((2, 6),)),),
                strategy=HOSTILE,
                focus=HOSTILE,
                model=HOSTILE,
            )
        )
        .entries
    )
    return cli.keep(entries)


@pytest.mark.parametrize(
    "command",
    [
        *(
            ("view",),
            ("view", "--json"),
            ("history",),
            ("history", "--json"),
            ("verify",),
            ("audit",),
        ),
        *(
            ("audit", "--json"),
            ("stats",),
            ("doctor",),
            ("compact", "--dry-run", "--window", "8k"),
        ),
        *(("export", "--to", "markdown"), ("export", "--to", "html")),
    ],
    ids=" ".join,
)
def test_no_text_of_a_session_controls_the_terminal(
    cli: CommandLine, command: tuple[str, ...]
) -> None:
    name, *options = command
    said = cli(name, kept(cli), *options)
    assert said.out
    assert acting(said.out + said.err) == []


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize("command", ["view", "history", "verify", "stats", "audit"])
@pytest.mark.parametrize("form", [(), ("--json",)], ids=["lines", "json"])
def test_no_field_of_any_entry_controls_the_terminal_of_a_command(
    cli: CommandLine, command: str, form: tuple[str, ...]
) -> None:
    numbered = [
        entry.model_copy(update={"index": at})
        for at, entry in enumerate(hostile_entries())
    ]
    said = cli(command, cli.keep(numbered), *form)
    assert said.out
    assert acting(said.out + said.err) == []


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("reporter", [JsonLines, Sentences])
async def test_no_field_of_any_event_controls_the_terminal_of_a_run(
    reporter: type[JsonLines | Sentences],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    heard = reporter()
    heard.begin(Agent(session_in(tmp_path), llm=PlayedLLM()))
    for event in (
        *hostile_events(),
        *(events.EntryAppended(entry=each) for each in hostile_entries()),
    ):
        heard.on_event(event)  # type: ignore[arg-type]
    out, err = capsys.readouterr()
    assert "PWNED" in out + err
    assert acting(out + err) == []


async def test_no_field_of_any_event_controls_the_terminal_of_a_plain_chat(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[Question] = []
    agent = Agent(session_in(tmp_path), llm=PlayedLLM())
    teller = PlainPrinter(agent, paper := PlainTerminal(), asked.append)
    for event in (
        *hostile_events(),
        *(events.EntryAppended(entry=each) for each in hostile_entries()),
    ):
        teller.on_event(event)  # type: ignore[arg-type]
    for question in asked:
        labels = [option_label(question, option) for option in options_of(question)]
        for line in (*question_lines(question), *labels):
            paper.line(line)
    out, err = capsys.readouterr()
    assert asked and "PWNED" in out + err
    assert acting(out + err) == []
    await agent.aclose()


@pytest.mark.parametrize(
    "command",
    [
        ("sessions",),
        ("sessions", "--json"),
        ("search", "PWNED"),
        ("search", "PWNED", "--json"),
    ],
    ids=" ".join,
)
def test_no_list_of_sessions_controls_the_terminal(
    cli: CommandLine, command: tuple[str, ...]
) -> None:
    kept(cli)
    said = cli(*command)
    assert "UFdORUQ=" in said.out
    assert acting(said.out + said.err) == []


@pytest.mark.parametrize(
    "arguments",
    [
        ("view", HOSTILE),
        ("open", HOSTILE),
        ("import", f"{HOSTILE}.jsonl"),
        ("-m", "x", "--theme", HOSTILE, "run"),
        ("run", "hi", "--strategy", HOSTILE),
        ("run", "hi", "--window", HOSTILE),
        ("compact", "nothing", "--keep", HOSTILE),
        ("sessions", "--from", HOSTILE),
        (HOSTILE, HOSTILE),
    ],
)
def test_typed_text_is_shown_as_text(
    cli: CommandLine, arguments: tuple[str, ...]
) -> None:
    said = cli(*arguments)
    assert said.code in (1, 2)
    assert acting(said.out + said.err) == []


@pytest.mark.parametrize(
    "line",
    [
        "{} = 1",
        "[compaction]\n{} = 1",
        "theme = {}",
        "[compaction]\nmode = {}",
        "[models.{}]\nwindow = {}",
    ],
)
def test_text_from_settings_is_shown_as_text(cli: CommandLine, line: str) -> None:
    quoted = json.dumps(
        HOSTILE.replace("\x7f", "")
    )  # TOML's basic strings equal JSON's, except for DEL
    (cli.cwd / ".foldline.toml").write_text(line.format(quoted, quoted), "utf-8")
    said = cli("config")
    assert acting(said.out + said.err) == []


def test_no_answer_of_a_server_controls_the_terminal(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = {"error": {"message": HOSTILE, "type": HOSTILE, "code": HOSTILE}}
    script = [
        {
            "when": {"content": "fail"},
            "answer": {"fault": {"status": 400, "body": body}},
        },
        {
            "when": {"role": "user"},
            "answer": {
                "text": HOSTILE,
                "tool_calls": [
                    {"name": "read", "arguments": {"path": HOSTILE.replace("$", "$$")}},
                    {"name": HOSTILE[:60].replace("$", "$$"), "arguments": {}},
                ],
            },
        },
        {"answer": {"text": HOSTILE.replace("$", "$$")}},
    ]
    with running_server(script=script) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        for arguments in (
            ("run", "hello"),
            ("run", "hello", "--json"),
            ("run", "fail"),
        ):
            said = cli(*arguments, "-m", MODEL)
            assert "PWNED" in said.out + said.err
            assert acting(said.out + said.err) == []


class Recorder(HeadlessDriver):
    """A terminal that records its output."""

    is_headless = False
    written = ""

    def write(self, data: str) -> None:
        self.written += data

    def taken(self) -> str:
        """Return the output since the last call."""
        taken, self.written = self.written, ""
        return taken


@pytest.mark.slow
@pytest.mark.parametrize("size", [(80, 24), (160, 44)])
async def test_no_field_of_any_record_controls_the_terminal_of_the_chat(
    tmp_path: Path, size: tuple[int, int]
) -> None:
    """The program's raw bytes, including the title, while it receives and shows foreign text."""
    async with live(tmp_path / "shop", "hi", size=size) as running:
        app, session = running.app, running.agent.session
        app._driver = screen = Recorder(app, size=size)
        app.rings = True

        async def nothing_acts(what: object) -> None:
            app.refresh(layout=True)
            await running.drawn()
            written = screen.taken()
            assert written
            assert (acting(written), beyond_frames(written)) == ([], []), what

        def every_other(of: Sequence[object]) -> Sequence[Any]:
            """Return every other one, depending on the size, unless all tests run."""
            return of if ALL else of[size[0] > 80 :: 2]

        await running.ask("begin")
        assert "\x1b]2;" in screen.taken()
        for entry in every_other(hostile_entries()):
            await session._commit(
                [entry.model_copy(update={"index": len(session.entries)})], False
            )
            await nothing_acts(entry)
        for event in every_other(hostile_events()):
            app.chat._take_event(event)  # type: ignore[arg-type]
            await nothing_acts(event)
        for command in (
            "inspector",
            "preview",
            "context",
            "sessions",
            "rewind",
            "approvals",
            "jobs",
            "help",
        ):
            app.chat.run_command(command)
            await nothing_acts(command)
            await running.press("down", "enter")
            await nothing_acts(command)
            while app.screen is not app.chat:
                await running.press("escape")


def _allow_after_reading(term: Terminal, asks: str) -> bool:
    """Allow the call, scrolling through it first; return whether it is answered."""
    term.send("\x1by")
    term.settle()
    return asks not in term.text


def waits_a_while(term: Terminal, asks: str) -> None:
    """A question accepts no answer in its first second, when a key may be meant for something else."""
    term.until(lambda t: re.search(rf"{re.escape(asks)} · (?!0:00)\d+:\d\d", t.text))


def assert_screen_is_intact(term: Terminal) -> None:
    """Check that no hostile text ended or left the screen."""
    raw = term.raw
    assert acting(raw) == []
    assert raw.count(ENTER) == 1
    assert LEAVE not in raw[raw.index(ENTER) :]


@pytest.mark.slow
def test_every_screen_shows_hostile_text_as_text(tmp_path: Path) -> None:
    """Model text, thinking, tool calls, results, file names and the folder itself, in chat and Inspector."""
    folder = tmp_path / f"shop{SEQUENCES['bidi']}[red]x"
    folder.mkdir()
    hostile_file(folder)
    (folder / "AGENTS.md").write_text(HOSTILE)
    (folder / "evil.md").write_text(f"# {HOSTILE}\n")
    said = HOSTILE.replace("$", "$$")
    script = [
        {"when": {"content": "go on"}, "answer": {"text": f"Then: {said}"}},
        {
            "when": {"role": "user"},
            "answer": {
                "text": f"# {said}\n\n```{said}\n{said}\n```\n\n- [{said}](http://pwned.example)\n\n{said}",
                "thinking": said,
                "tool_calls": [
                    {"name": "read", "arguments": {"path": "evil.md"}},
                    {"name": "glob", "arguments": {"pattern": "*"}},
                    {
                        "name": "bash",
                        "arguments": {"command": f"cat evil.md; ls; : {said}"},
                    },
                    {
                        "name": "write",
                        "arguments": {"path": f"new{said}.txt"[:90], "content": said},
                    },
                ],
            },
        },
        {"answer": {"text": f"Done. {said}"}},
    ]
    with (
        running_server(script=script, window=200_000) as server,
        terminal(
            folder,
            columns=120,
            rows=36,
            OPENAI_BASE_URL=server.base_url,
            FOLDLINE_MODEL=MODEL,
        ) as term,
    ):
        term.until("Enter sends")
        term.ask("begin", wait=False)
        waits_a_while(term, "Use it?")
        term.until(ESC_LEAVES_CHOICE)
        term.send("1")
        for asks in ("Allow this bash call?", "Allow this write?"):
            waits_a_while(term, asks)
            term.until(lambda t, asks=asks: _allow_after_reading(t, asks))
        term.until("Done.")
        term.send("\x0f")  # Ctrl+O: all tool calls open
        term.until("one")
        assert_screen_is_intact(term)
        term.send("\x1bOQ")  # F2
        term.until("▸ Inspector")
        for key in "\rkk\rkkk\r":
            term.send(key)
        term.until("PWNED")
        term.send("\x1b")
        term.until("Enter sends")
        term.ask("go on")
        term.until("Then:")
        assert_screen_is_intact(term)


@pytest.mark.slow
def test_a_hostile_session_is_shown_as_text(cli: CommandLine, tmp_path: Path) -> None:
    folder = kept(cli)
    with terminal(
        tmp_path / "elsewhere", "open", str(folder), columns=160, rows=36
    ) as term:
        term.until("▸ Inspector")
        term.until("␛")
        for key in ("\r", "j", "\r", "\t", "\r", "j", "\r", "\t", "j", "\r"):
            term.send(key)
        term.until("LLM view")
        assert_screen_is_intact(term)


def test_a_hostile_branch_name_is_shown_as_text(tmp_path: Path) -> None:
    """Git refuses control characters in branch names; what it accepts is text on our screen."""
    from foldline.text.harmless import clean_line
    from foldline.tui.app.git import git_state

    subprocess.run(
        ["git", "init", "-q", "-b", "main\u202egpj", str(tmp_path)], check=True
    )
    assert acting(clean_line(git_state(tmp_path))) == []
