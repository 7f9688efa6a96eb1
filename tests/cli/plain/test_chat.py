"""`foldline --plain` as a process of its own: with pipes, and on a pseudo-terminal."""

import os
import re
import signal
import subprocess
import termios
from pathlib import Path

import pytest

from foldline.agent.permissions.approvals import ANSWER_FREELY
from foldline.cli.plain.chat import (
    ANSWER_AGAIN,
    KEPT_AS_PROMPT,
    NOT_AN_ANSWER,
    QUIT_WARNING,
    UNANSWERED,
    WHY,
    YOUR_ANSWER,
)
from foldline.cli.plain.commands import (
    NEEDS_SCREEN,
    NO_CHANGES,
)
from foldline.frontend.arguments import CURRENT, NONE_FOUND
from foldline.frontend.costs import NO_COST
from foldline.frontend.inputs import NO_COMMAND
from foldline.llm.failures import WRONG_KEY
from foldline.past.approval_words import mode_words
from support import warm
from support.sentences import pattern
from support.server import MODEL, running_server
from support.terminal import Terminal, terminal

pytestmark = pytest.mark.slow


def piped(
    tmp_path: Path, said: str, *arguments: str, **env: str
) -> subprocess.CompletedProcess[bytes]:
    """A plain chat whose prompts come through a pipe."""
    folder = tmp_path / "shop"
    folder.mkdir(exist_ok=True)
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("FOLDLINE", "OPENAI"))
    }
    kept |= {
        "FOLDLINE_HOME": str(tmp_path / "home"),
        "FOLDLINE_MODEL": "offline",
        "FOLDLINE_OFFLINE__PACE": "0",
    }
    return subprocess.run(
        warm.command("foldline", "--plain", *arguments),
        input=said.encode(),
        capture_output=True,
        cwd=folder,
        env={**kept, **env},
        timeout=60,
        check=False,
    )


def lines_of(term: Terminal) -> list[str]:
    return term.raw.decode().replace("\r\n", "\n").split("\n")


@pytest.mark.quick
def test_a_conversation_through_pipes_is_plain_lines_in_order(tmp_path: Path) -> None:
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "notes.txt").write_text("remember \x1b[31mthe\x07 milk\n")
    said = (
        "read notes.txt\nrun `touch made.txt`\n/inspector\n/nope\n/context\n"
        "<<END\nwho are\nyou?\nEND\nand who\\\nam I?\n!echo mine\n/help\n"
    )
    done = piped(tmp_path, said)
    out = done.stdout.decode()
    assert done.returncode == 0
    assert (
        b"\x1b" not in done.stdout + done.stderr
        and b"\r" not in done.stdout
        and b"\x07" not in done.stdout
    )
    in_order = [
        "> read notes.txt\n",
        "\n[read] notes.txt …\n[read] 1 line, ",
        "remember ␛[31mthe␇ milk",
        "Allow this bash call?\ntouch made.txt\n1  y  Allow once\n",
        f"{UNANSWERED.format(answer='No')}\n",
        NEEDS_SCREEN.format(command="inspector"),
        NO_COMMAND.format(name="nope"),
        "The next request takes ",
        "> <<END\n. who are\n. you?\n. END\n",
        "> and who\\\n. am I?\n",
        "[!] echo mine …\nmine\n",
        "/rewind [number] [files]: ",
    ]
    places = [out.find(part) for part in in_order]
    assert -1 not in places and places == sorted(places), out
    assert not (tmp_path / "shop" / "made.txt").exists()
    again = piped(tmp_path, "", "-c")
    assert "“read notes.txt”" in again.stdout.decode().splitlines()[0]


def test_what_cannot_be_done_is_said_once(tmp_path: Path) -> None:
    said = piped(tmp_path, "/compact\n/skill\n/effort nonsense\n").stdout.decode()
    assert said.lower().count("nothing to compact") == 1
    for sentence in (
        NONE_FOUND,
        "effort cannot be 'nonsense'",
    ):
        assert said.count(sentence) == 1


def test_effort_without_a_word_says_what_is_set_and_what_is_possible(
    tmp_path: Path,
) -> None:
    out = piped(
        tmp_path, "/effort\n/effort low\n/effort\n/effort lots\n"
    ).stdout.decode()
    for effort in ("default", "low"):
        assert CURRENT.format(name=effort) in out
    assert "/effort xhigh\n" in out
    assert "Allowed: default, none, minimal" in out


def test_a_full_window_is_compacted_with_one_line(tmp_path: Path) -> None:
    (tmp_path / "shop").mkdir()
    for name in "abcdef":
        (tmp_path / "shop" / f"{name}.txt").write_text(
            "value = compute(1) + offset  # a row\n" * 90
        )
    done = piped(
        tmp_path,
        "".join(f"read {name}.txt\n" for name in "abcdef"),
        FOLDLINE_CONTEXT__WINDOW="8192",
    )
    compactions = [
        line
        for line in done.stdout.decode().splitlines()
        if line.startswith("[compaction]") and not line.endswith("…")
    ]
    assert compactions, done.stdout.decode()
    assert all(
        " tokens, " in compaction and " → " in compaction and " compacted" in compaction
        for compaction in compactions
    )


def test_what_fails_last_is_the_exit_code_of_a_pipe(tmp_path: Path) -> None:
    with running_server(key="right") as server:
        wrong = {
            "OPENAI_BASE_URL": server.base_url,
            "OPENAI_API_KEY": "wrong",
            "FOLDLINE_MODEL": MODEL,
        }
        done = piped(tmp_path, "", "hello", **wrong)
    assert done.returncode == 1
    assert len(re.findall(pattern(WRONG_KEY), done.stdout.decode())) == 1


def test_a_terminal_that_can_only_print_lines_gets_them_unasked(tmp_path: Path) -> None:
    with terminal(tmp_path / "shop", TERM="dumb") as term:
        term.send("/exit")
        term.until("\n> /exit")
        term.send("\x15\x04")
        assert term.ended() == 0


def test_a_person_at_a_terminal_answers_cancels_and_leaves(tmp_path: Path) -> None:
    with terminal(
        tmp_path / "shop", "--plain", NO_COLOR="1", FOLDLINE_OFFLINE__PACE="0"
    ) as term:
        term.until("Type /help for help.")
        term.send("run `echo $((6 * 7)); exit 3`\r")
        term.until("\nAnswer:")
        term.send("perhaps\r")
        term.until(NOT_AN_ANSWER)
        term.send("and then something else\r")
        term.until(KEPT_AS_PROMPT)
        term.until(lambda now: now.text.rstrip().endswith("Answer:"))
        term.send("1\r")
        term.until(
            lambda now: ANSWER_AGAIN in now.text or b"exit 3 \xe2\x9c\x97, " in now.raw
        )
        if b"exit 3 \xe2\x9c\x97, " not in term.raw:
            term.send("y\r")
        # What follows may have moved it off the screen by now.
        term.until(lambda now: b"[bash] exit 3 \xe2\x9c\x97, " in now.raw)
        term.until(lambda now: b"> and then something else" in now.raw)
        term.until(lambda now: now.text.rstrip().endswith("\n>"))
        term.send("/approvals edits\r")
        term.until(f"{mode_words('edits')}.\n>")
        term.send("!sleep 60\r")
        term.until("[!] sleep 60 …")
        term.send("\x03")
        term.until(lambda now: now.text.rstrip().endswith("\n>"))
        # The terminal's signal reaches the command as well, where that has not left for its own session yet.
        assert "cancelled" in term.text.lower() or "[ended by SIGINT]" in term.text
        assert term.quit_by_keys() == 130
        assert b"\x1b" not in term.raw
        assert termios.tcgetattr(term.child.child_fd) == term.modes


def test_ctrl_c_drops_the_line_that_is_being_typed(tmp_path: Path) -> None:
    with terminal(tmp_path / "shop", "--plain", NO_COLOR="1") as term:
        term.until("Type /help for help.\n>")
        term.send("rubbish")
        term.until("\n> rubbish")
        term.send("\x03")
        term.until(QUIT_WARNING)
        term.send("!echo fine\r")
        term.until("[!] echo fine …\nfine\n")


def test_a_call_is_declined_with_a_word_of_why(tmp_path: Path) -> None:
    with terminal(
        tmp_path / "shop", "--plain", NO_COLOR="1", FOLDLINE_OFFLINE__PACE="0"
    ) as term:
        term.until("Type /help for help.")
        term.send("run `rm notes.txt`\r")
        term.until("No, and say why\nAnswer:")
        term.send("n\r")
        term.until(lambda now: ANSWER_AGAIN in now.text or WHY.rstrip() in now.text)
        if ANSWER_AGAIN in term.text:
            term.send("n\r")
        term.until(WHY.rstrip())
        term.send("it is the only copy\r")
        term.until(lambda now: now.text.rstrip().endswith("\n>"))
        [events] = (tmp_path / "shop-home").glob("sessions/*/*/events.jsonl")
        assert "it is the only copy" in events.read_text()


@pytest.mark.parametrize(
    ("number", "busy"),
    [(signal.SIGTERM, False), (signal.SIGHUP, True)],
    ids=["at the prompt", "at work"],
)
def test_told_to_end_it_keeps_the_session_and_the_terminal(
    tmp_path: Path, number: signal.Signals, busy: bool
) -> None:
    with terminal(tmp_path / "shop", "--plain", NO_COLOR="1") as term:
        term.until("Type /help for help.\n>")
        term.send("!sleep 60")
        term.until("\n> !sleep 60")
        if busy:
            term.send("\r")
            term.until("[!] sleep 60 …")
        os.kill(term.child.pid, number)
        assert term.ended() == 128 + number
        assert termios.tcgetattr(term.child.child_fd) == term.modes


def test_cost_status_and_what_changed_are_said_in_lines(tmp_path: Path) -> None:
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "a.txt").write_text("one\ntwo\n")
    said = "/cost\n/diff\nreplace two with three in a.txt\n/status\n/diff\n"
    out = piped(tmp_path, said, FOLDLINE_APPROVALS__MODE="edits").stdout.decode()
    assert f"{NO_COST}\n" in out
    assert NO_CHANGES in out
    assert (
        "\nmodel    requests  input" in out
        and "\nmodel     offline" in out
        and "\nsandbox   " in out
    )
    assert "--- a.txt\n+++ a.txt\n@@ -1,2 +1,2 @@\n one\n-two\n+three\n" in out


def test_a_question_and_a_plan_are_answered_with_own_words_and_in_the_editor(
    tmp_path: Path,
) -> None:
    asks = {
        "name": "ask_user",
        "arguments": {"question": "Which base?", "choices": ["SQLite", "Postgres"]},
    }
    plans = {"name": "plan", "arguments": {"text": "1. a change"}}
    script = [
        {"when": {"content": text}, "times": 1, "answer": {"tool_calls": [made]}}
        for text, made in (("choose", asks), ("make one", plans))
    ]
    editor = tmp_path / "editor"
    editor.write_text("#!/bin/sh\nprintf '\\n2. a test\\n' >> \"$1\"\n")
    editor.chmod(0o700)
    with running_server(script=script, then_default=True) as server:
        given = {
            "OPENAI_BASE_URL": server.base_url,
            "OPENAI_API_KEY": "k",
            "FOLDLINE_MODEL": MODEL,
        }
        with terminal(
            tmp_path / "shop", "--plain", **given, VISUAL=str(editor)
        ) as term:
            term.until("Type /help for help.")
            term.send("choose\r")
            term.until(f"3  o  {ANSWER_FREELY}")
            term.lives_for(1.1)
            term.send("o\r")
            term.until(f"{YOUR_ANSWER}:")
            term.send("a file\r")
            term.until("in their own words: a file")
            term.send("/plan\r")
            term.until("no command runs until you accept")
            term.send("make one\r")
            term.until("2  e  Edit it")
            term.lives_for(1.1)
            term.send("e\r")
            term.until("2. a test")
            term.lives_for(1.1)
            term.send("y\r")
            term.until("[plan] accepted")
