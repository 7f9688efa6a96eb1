"""The door itself: what is imported, exit codes, streams, encodings."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from foldline import __version__
from foldline.cli import FOLDER_GONE, _report_crash
from foldline.cli.arguments import EMPTY_PROMPT, QUOTE_PROMPT, UNKNOWN_ARGUMENT
from foldline.cli.commands import UNKNOWN_COMMAND
from foldline.cli.output import NOT_A_TERMINAL
from support.command_line import CommandLine
from support.history import history

HEAVY = ("textual", "pydantic", "openai", "rich", "foldline.protocol", "argparse")


def foldline(
    *arguments: str,
    locale: str = "C.UTF-8",
    home: Path | None = None,
    **options: object,
) -> "subprocess.CompletedProcess[bytes]":
    environ = {
        **os.environ,
        "LC_ALL": locale,
        "PYTHONUTF8": "0",
        "PYTHONIOENCODING": "",
    }
    if home is not None:
        environ["FOLDLINE_HOME"] = str(home)
    return subprocess.run(
        [sys.executable, "-m", "foldline", *arguments],
        capture_output=True,
        env=environ,
        check=False,
        **options,
    )


def test_the_version_is_said_without_importing_anything_heavy() -> None:
    script = (
        "import sys; from foldline.cli import main; code = main(['--version'])\n"
        f"sys.stderr.write(' '.join(name for name in {HEAVY} if name in sys.modules)); sys.exit(code)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert (done.stdout, done.stderr) == (f"foldline {__version__}\n", "")


def test_importing_the_library_imports_nothing_heavy() -> None:
    script = f"import sys, foldline; print([name for name in {HEAVY} if name in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"


@pytest.mark.slow
def test_commands_on_files_import_neither_textual_nor_openai(cli: CommandLine) -> None:
    script = (
        "import sys; from foldline.cli import main; main(['sessions']); main(['config'])\n"
        "print([name for name in ('textual', 'openai') if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.endswith("[]\n")


@pytest.mark.slow
@pytest.mark.parametrize("closed", [0, 1, 2])
def test_a_stream_that_is_closed_keeps_no_command_from_its_work(
    cli: CommandLine, closed: int
) -> None:
    cli.keep(history().turn("one", "ok").entries, "s-1")
    command = [sys.executable, "-m", "foldline"]
    listed, deleted = (
        subprocess.run(
            ["sh", "-c", f'exec "$@" {closed}>&-', "sh", *command, *arguments],
            capture_output=True,
            stdin=subprocess.DEVNULL,
            text=True,
            check=False,
        )
        for arguments in (["sessions"], ["delete", "s-1"])
    )
    assert (listed.returncode, listed.stderr) == (0, "") and (
        "one" in listed.stdout
    ) == (closed != 1)
    assert deleted.returncode == 1
    assert (NOT_A_TERMINAL.format(option="--yes") in deleted.stderr) == (closed != 2)


def test_help_names_every_command(
    cli: CommandLine, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stopped:
        cli("--help")
    assert stopped.value.code == 0
    shown = capsys.readouterr().out
    commands = (
        "run",
        "open",
        "view",
        "history",
        "verify",
        "compact",
        "audit",
        "sessions",
        "demo",
        "config",
    )
    assert all(f"\n  {name} " in shown for name in commands)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            ("veiw", "session.jsonl"),
            UNKNOWN_COMMAND.format(name="veiw"),
        ),
        (("view",), "required: FILE|ID"),
        (
            ("view", "x", "--nonsense"),
            UNKNOWN_ARGUMENT.format(argument="--nonsense", hint=""),
        ),
        (("view", "x", "--at", "three"), "'three' is not a whole number"),
        (("compact", "x", "--window", "lots"), "'lots' is not a number of tokens"),
        (("compact", "x", "--keep", "200%"), "'200%' is not a number of tokens"),
        (("-c", "-r"), "not allowed with"),
        (("run", "x", "--jsn"), "did you mean --json?"),
        (("run", "x", "--max-step=3"), "did you mean --max-steps?"),
        (("--modle=x", "hello"), "did you mean --model?"),
        (
            ("run", "x", "--max-steps", "0"),
            "foldline: --max-steps: '0' is not a positive number;",
        ),
        (("run", " "), EMPTY_PROMPT),
        (
            ("run", "fix", "it"),
            UNKNOWN_ARGUMENT.format(argument="it", hint=QUOTE_PROMPT),
        ),
        (
            ("run", "fix", "it", "now"),
            UNKNOWN_ARGUMENT.format(argument="now", hint=QUOTE_PROMPT),
        ),
    ],
)
def test_wrong_usage_is_one_sentence_and_exit_code_2(
    cli: CommandLine, arguments: tuple[str, ...], words: str
) -> None:
    said = cli(*arguments)
    assert said.code == 2
    assert said.out == ""
    assert said.err.startswith("foldline: ")
    assert said.err.count("\n") == 1
    assert words in said.err


def test_a_misspelt_command_is_told_what_it_may_have_meant(cli: CommandLine) -> None:
    assert "Did you mean `foldline view`?" in cli("veiw", "session.jsonl").err


def test_the_chat_without_a_terminal_says_what_works_there(cli: CommandLine) -> None:
    said = cli("hello")
    assert said.code == 2
    assert "foldline run PROMPT" in said.err


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("missing.jsonl", None, "There is no file"),
        ("empty.jsonl", b"", "is empty"),
        ("photo.jsonl", b"\x89PNG\x00\x01\x02", "is a binary file"),
        ("notes.txt", b"just some text\n", "is text, not a session"),
        (
            "gemini.json",
            b'{"sessionId": "a", "projectHash": "b"}\n',
            "is not a Gemini CLI session",
        ),
        (
            "grok.json",
            b'{"chat_format_version": 1, "info": {}}\n',
            "seems to be a Grok session, which cannot be read",
        ),
    ],
)
@pytest.mark.parametrize("command", ["view", "history", "verify", "compact", "open"])
def test_what_is_no_session_is_one_sentence_and_exit_code_1(
    cli: CommandLine, command: str, name: str, content: bytes | None, words: str
) -> None:
    file = cli.cwd / name
    if content is not None:
        file.write_bytes(content)
    said = cli(command, file)
    assert (said.code, said.out) == (1, "")
    assert words in said.err
    assert said.err.count("\n") == 1
    if content is not None:
        assert file.read_bytes() == content


def test_a_folder_without_a_session_says_so(cli: CommandLine) -> None:
    said = cli("view", cli.cwd)
    assert said.code == 1
    assert f"{cli.cwd} has no events.jsonl" in said.err


def test_an_unknown_format_names_the_known_ones(cli: CommandLine) -> None:
    (cli.cwd / "x.jsonl").write_text("{}\n")
    said = cli("view", "x.jsonl", "--format", "word")
    assert said.code == 1
    assert "Unknown format 'word'" in said.err


def test_debug_shows_the_traceback_of_a_failure(cli: CommandLine) -> None:
    from foldline.protocol import FoldlineError

    with pytest.raises(FoldlineError):
        cli("view", "missing.jsonl", "--debug")
    with pytest.raises(FoldlineError):
        cli("--debug", "view", "missing.jsonl")


@pytest.mark.slow
def test_a_reader_that_has_seen_enough_ends_the_command_quietly(
    cli: CommandLine,
) -> None:
    builder = history()
    for nth in range(3_000):
        builder.turn(f"request {nth}", "answer " * 20)
    folder = cli.keep(builder.entries)
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "wb") as closed:
        done = subprocess.run(
            [sys.executable, "-m", "foldline", "history", "--json", str(folder)],
            stdout=closed,
            stderr=subprocess.PIPE,
            check=False,
        )
    assert (done.returncode, done.stderr) == (0, b"")


def test_output_is_utf8_whatever_the_locale(cli: CommandLine) -> None:
    folder = cli.keep(history().turn("修复登录错误", "好的").entries)
    done = foldline("view", str(folder), locale="C")
    assert done.returncode == 0
    assert "修复登录错误" in done.stdout.decode("utf-8")
    assert "┃" in done.stdout.decode("utf-8")


@pytest.mark.slow
def test_a_folder_that_is_gone_is_named_as_the_trouble(
    cli: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    done = subprocess.run(
        [sys.executable, "-m", "foldline", "run", "hello"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr == f"foldline: {FOLDER_GONE}\n"


@pytest.mark.slow
def test_a_full_disk_is_one_sentence(cli: CommandLine) -> None:
    folder = cli.keep(history().turn("hello", "hi").entries)
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("no /dev/full here")
    with full.open("wb") as out:
        done = subprocess.run(
            [sys.executable, "-m", "foldline", "view", str(folder)],
            stdout=out,
            stderr=subprocess.PIPE,
            check=False,
        )
    assert done.returncode == 1
    assert done.stderr.count(b"\n") == 1
    assert b"No space left" in done.stderr


def test_a_memory_limit_is_one_sentence_and_no_error_of_ours(
    capsys: pytest.CaptureFixture[str],
) -> None:
    _report_crash(MemoryError, MemoryError(), None)
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "memory" in said
    assert "Foldline itself" not in said
