"""The door itself: what is imported, exit codes, streams, encodings."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from foldline import __version__, cli
from support.front_door import FrontDoor
from support.history import history

HEAVY = ("textual", "pydantic", "openai", "rich", "foldline.protocol", "argparse")


def foldline(
    *arguments: str, locale: str = "C.UTF-8", home: Path | None = None, **options: object
) -> "subprocess.CompletedProcess[bytes]":
    environ = {**os.environ, "LC_ALL": locale, "PYTHONUTF8": "0", "PYTHONIOENCODING": ""}
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
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == (f"foldline {__version__}\n", "")


def test_importing_the_library_imports_nothing_heavy() -> None:
    script = f"import sys, foldline; print([name for name in {HEAVY} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_commands_on_files_import_neither_textual_nor_openai(door: FrontDoor) -> None:
    script = (
        "import sys; from foldline.cli import main; main(['sessions']); main(['config'])\n"
        "print([name for name in ('textual', 'openai') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.endswith("[]\n")


@pytest.mark.parametrize("closed", [0, 1, 2])
def test_a_stream_that_is_closed_keeps_no_command_from_its_work(door: FrontDoor, closed: int) -> None:
    door.keep(history().turn("one", "ok").entries, "s-1")
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
    assert (listed.returncode, listed.stderr) == (0, "") and ("one" in listed.stdout) == (closed != 1)
    assert deleted.returncode == 1 and ("--yes says yes" in deleted.stderr) == (closed != 2)


def test_help_names_every_command(door: FrontDoor, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        door("--help")
    assert stopped.value.code == 0
    shown = capsys.readouterr().out
    commands = ("run", "open", "view", "history", "verify", "compact", "audit", "sessions", "demo", "config")
    assert all(f"\n  {name} " in shown for name in commands)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("veiw", "session.jsonl"), "no command 'veiw'; a prompt of several words goes in quotes."),
        (("view",), "required: FILE|ID"),
        (("view", "x", "--nonsense"), "'--nonsense' is not understood"),
        (("view", "x", "--at", "three"), "'three' is not a whole number"),
        (("compact", "x", "--window", "lots"), "'lots' is not a number of tokens"),
        (("compact", "x", "--keep", "200%"), "'200%' is not a number of tokens"),
        (("-c", "-r"), "not allowed with"),
        (("run", "x", "--jsn"), "'--jsn' is not understood; did you mean --json?"),
        (("run", "x", "--max-step=3"), "did you mean --max-steps?"),
        (("--modle=x", "hello"), "did you mean --model?"),
        (("run", "x", "--max-steps", "0"), "foldline: --max-steps: '0' is not a number above 0;"),
        (("run", " "), "The prompt is empty"),
        (("run", "fix", "it"), "'it' is not understood: a prompt of several words goes in quotes."),
        (("run", "fix", "it", "now"), "'now' is not understood; a prompt of several words goes in quotes."),
    ],
)
def test_wrong_usage_is_one_sentence_and_exit_code_2(
    door: FrontDoor, arguments: tuple[str, ...], words: str
) -> None:
    said = door(*arguments)
    assert said.code == 2
    assert said.out == ""
    assert said.err.startswith("foldline: ")
    assert said.err.count("\n") == 1
    assert words in said.err


def test_a_misspelt_command_is_told_what_it_may_have_meant(door: FrontDoor) -> None:
    assert "Did you mean `foldline view`?" in door("veiw", "session.jsonl").err


def test_the_chat_without_a_terminal_says_what_works_there(door: FrontDoor) -> None:
    said = door("hello")
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
            "is no session of Gemini CLI: it holds no message",
        ),
        (
            "grok.json",
            b'{"chat_format_version": 1, "info": {}}\n',
            "seems to be a session of Grok, which cannot be read",
        ),
    ],
)
@pytest.mark.parametrize("command", ["view", "history", "verify", "compact", "open"])
def test_what_is_no_session_is_one_sentence_and_exit_code_1(
    door: FrontDoor, command: str, name: str, content: bytes | None, words: str
) -> None:
    file = door.cwd / name
    if content is not None:
        file.write_bytes(content)
    said = door(command, file)
    assert (said.code, said.out) == (1, "")
    assert words in said.err
    assert said.err.count("\n") == 1
    if content is not None:
        assert file.read_bytes() == content


def test_a_folder_without_a_session_says_so(door: FrontDoor) -> None:
    said = door("view", door.cwd)
    assert said.code == 1
    assert "a folder without events.jsonl" in said.err


def test_an_unknown_format_names_the_known_ones(door: FrontDoor) -> None:
    (door.cwd / "x.jsonl").write_text("{}\n")
    said = door("view", "x.jsonl", "--format", "word")
    assert said.code == 1
    assert "no format 'word'" in said.err


def test_debug_shows_the_traceback_of_a_failure(door: FrontDoor) -> None:
    from foldline.protocol import FoldlineError

    with pytest.raises(FoldlineError):
        door("view", "missing.jsonl", "--debug")
    with pytest.raises(FoldlineError):
        door("--debug", "view", "missing.jsonl")


def test_a_reader_that_has_seen_enough_ends_the_command_quietly(door: FrontDoor) -> None:
    builder = history()
    for nth in range(3_000):
        builder.turn(f"request {nth}", "answer " * 20)
    folder = door.keep(builder.entries)
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


def test_output_is_utf8_whatever_the_locale(door: FrontDoor) -> None:
    folder = door.keep(history().turn("修复登录错误", "好的").entries)
    done = foldline("view", str(folder), locale="C")
    assert done.returncode == 0
    assert "修复登录错误" in done.stdout.decode("utf-8")
    assert "┃" in done.stdout.decode("utf-8")


def test_a_folder_that_is_gone_is_named_as_the_trouble(
    door: FrontDoor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    done = subprocess.run(
        [sys.executable, "-m", "foldline", "run", "hello"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert done.stderr == "foldline: The folder this was started in is gone: change to another one.\n"


def test_a_full_disk_is_one_sentence(door: FrontDoor) -> None:
    folder = door.keep(history().turn("hello", "hi").entries)
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


def test_a_memory_limit_is_one_sentence_and_no_error_of_ours(capsys: pytest.CaptureFixture[str]) -> None:
    cli._one_sentence(MemoryError, MemoryError(), None)
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "memory" in said
    assert "Foldline itself" not in said
