"""The real program in a real terminal: what it writes, what is seen, and how it leaves."""

import os
import re
import signal
import socket
import sys
import termios
from pathlib import Path
from urllib.parse import quote

import pytest

from foldline.history import Session
from foldline.tui.app.session_commands import CHANGES_TITLE
from foldline.tui.chat.escape_actions import ESC_CANCELS, ESC_TO_PROMPT
from foldline.tui.chat.question import READ_ALL, WHY
from foldline.tui.look.status import SPINNER
from foldline.tui.overlays.rewind import CONTEXT, STAY, TITLE
from foldline.view.rules import broken
from support.limits import few
from support.server import MODEL, running_server
from support.terminal import CLEARS, ENTER, LEAVE, PATIENCE, Terminal, terminal

pytestmark = pytest.mark.slow
SIZES = [(80, 24), (120, 40), (200, 60)]
LINES = "".join(
    f"value_{number} = compute({number}) + offset  # row {number}\n"
    for number in range(90)
)


def quit_by_keys(term: Terminal) -> None:
    term.until("Enter sends")
    assert term.quit_by_keys() == 0


@pytest.mark.parametrize(
    ("variables", "notice"),
    [
        ({}, "\x1b]9;Foldline: {}\x1b\\"),
        ({"VTE_VERSION": "7800"}, "\x1b]777;notify;Foldline;{}\x1b\\"),
        ({"TMUX": "/nowhere,1,0"}, "\x1bPtmux;\x1b\x1b]9;Foldline: {}\x07\x1b\\"),
    ],
    ids=["most", "by VTE", "in tmux"],
)
def test_who_looks_elsewhere_is_told_that_a_question_waits(
    tmp_path: Path, variables: dict[str, str], notice: str
) -> None:
    folder = tmp_path / "shop"
    folder.mkdir()
    with terminal(
        folder, columns=80, rows=24, FOLDLINE_NOTIFY="desktop", **variables
    ) as term:
        term.until("Enter sends")
        term.send("run `sleep 1`")
        term.send("\r\x1b[O")  # and looks elsewhere
        said = notice.format("? run `sleep 1` · waits for you").encode()
        term.until(lambda seen: said in seen.raw)
        term.send("\x1b[I\x1b")
        quit_by_keys(term)
        working = term.raw.count(b"\x1b]9;4;3\x1b\\")
        assert bool(working) == ("TMUX" not in variables)
        assert b"\x1b]9;4;0\x1b\\" in term.raw[-100:]


def never_cleared(term: Terminal) -> bool:
    return not [clear for clear in CLEARS if clear in term.between]


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize(("columns", "rows"), few(SIZES))
def test_a_session_from_start_to_quit_at_any_size(
    tmp_path: Path, columns: int, rows: int
) -> None:
    folder = tmp_path / "shop"
    folder.mkdir()
    for name in "abcdef":
        (folder / f"{name}.txt").write_text(LINES)
    with terminal(
        folder,
        columns=columns,
        rows=rows,
        FOLDLINE_CONTEXT_WINDOW="8192",
        FOLDLINE_COMPACTION__STRATEGY="summary",
    ) as term:
        term.until("Enter sends")
        for name in "abcdef":
            term.ask(f"read {name}.txt")
            term.until("90 lines")
        assert b"% full" in term.raw
        term.until("% full")  # the last one comes with its draft
        term.send("\x1bOQ")  # F2
        term.until("state no.")  # beside the chat, where there is the room
        term.until("a.txt")
        term.send("\x1b")
        term.until("Enter sends")
        term.until(lambda seen: seen.rows[0].startswith(" shop ▸ read a.txt"))
        quit_by_keys(term)
        assert term.raw.count(ENTER) == term.raw.count(LEAVE) == 1
        assert never_cleared(term)
        assert term.not_restored() == []
        assert termios.tcgetattr(term.child.child_fd) == term.modes


def test_escape_cancels_a_turn_and_the_program_goes_on(tmp_path: Path) -> None:
    with terminal(tmp_path / "shop", FOLDLINE_APPROVALS__MODE="all") as term:
        term.until("Enter sends")
        term.ask("run `sleep 60`", wait=False)
        term.until("Running · bash sleep 60")
        term.send("\x1b")
        term.until("Cancelled")
        term.until("Enter sends")
        term.ask("who are you?")
        quit_by_keys(term)


@pytest.mark.parametrize(("columns", "rows"), [(40, 10), (80, 24)])
def test_a_long_command_is_read_to_its_end_before_enter_allows_it(
    tmp_path: Path, columns: int, rows: int
) -> None:
    folder = tmp_path / "shop"
    with terminal(folder, columns=columns, rows=rows) as term:
        term.until("Enter sends")
        term.send("run `" + "echo and again; " * 60 + "touch the-end`")
        term.until("the-end`")
        term.send("\r")
        term.until(f", ↓ {READ_ALL}")
        assert "the-end" not in term.text.partition("Allow this bash call?")[2]
        is_read = False
        while "Allow this bash call?" in term.text:
            is_read = (
                is_read or "the-end" in term.text.partition("Allow this bash call?")[2]
            )
            assert is_read or not (folder / "the-end").exists()
            term.send("\r")
            term.lives_for(0.7)
        assert is_read
        term.until("Enter sends")
        assert (folder / "the-end").exists()
        quit_by_keys(term)
        assert never_cleared(term)


def test_a_call_is_declined_with_a_word_to_the_model_and_text_typed_at_it_is_a_prompt(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "shop"
    with terminal(folder) as term:
        term.until("Enter sends")
        term.ask("run `touch made`", wait=False)
        term.until("4 No, and say why")
        term.send("and then? 1 or 2\b3")
        term.until("❯ and then? 1 or 3")
        term.send("\x15")
        term.until(lambda now: "and then?" not in now.text)
        term.send("\t")
        while WHY not in term.text:  # for a moment it takes no answer
            term.send("4")
            term.lives_for(0.7)
        term.send("not in this folder\r")
        term.until("declined ✗")
        term.until("Enter sends")
        assert not (folder / "made").exists()
        quit_by_keys(term)


def test_a_prompt_of_the_empty_chat_is_sent_and_gone_back_over_with_enter(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "shop"
    with terminal(folder) as term:
        term.until("Read README.md and say what")
        term.send("\t")
        term.until("▶ What is in this folder?")
        term.send("\r")
        term.until("┃ ❯ What is in this folder?")
        term.send("\r")
        term.until("\n ┃ ❯ What is in this folder?")
        term.until("Enter sends")
        assert "Search for TODO" not in term.text
        term.send("\x1b\x1b")
        term.until(TITLE)
        term.send("\r")
        term.until(f"▶{STAY}")
        term.send("\x1b[B")
        term.until(f"▶{CONTEXT}")
        term.send("\r")
        term.until("context back to before")
        term.until("❯ What is in this folder?")
        quit_by_keys(term)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_told_to_end_it_leaves_the_terminal_in_order(
    tmp_path: Path, number: signal.Signals
) -> None:
    with terminal(tmp_path / "shop", FOLDLINE_APPROVALS__MODE="all") as term:
        before = term.modes
        term.until("Enter sends")
        term.ask("run `sleep 60`", wait=False)
        term.until("Running · bash sleep 60")
        assert termios.tcgetattr(term.child.child_fd) != before, (
            "it reads keys one by one"
        )
        os.kill(term.child.pid, number)
        assert term.ended() == 128 + number
        assert term.not_restored() == [] and never_cleared(term)
        assert termios.tcgetattr(term.child.child_fd) == before


def test_told_to_end_it_ends_what_runs_in_every_open_session(tmp_path: Path) -> None:
    with terminal(tmp_path / "shop", FOLDLINE_APPROVALS__MODE="all") as term:
        before = term.modes
        term.until("Enter sends")
        term.ask("run `sleep 61`", wait=False)
        term.until("Running · bash sleep 61")
        term.send("\x14")  # Ctrl+T
        term.until("Open sessions")
        term.send("\x1b[B\r")
        term.until("│ new session")
        term.until("Enter sends")
        term.ask("run `sleep 62`", wait=False)
        term.until("Running · bash sleep 62")
        term.until(lambda seen: "… run `sleep 61` │ … run `sleep 62`" in seen.rows[0])
        os.kill(term.child.pid, signal.SIGTERM)
        assert term.ended() == 128 + signal.SIGTERM
        assert (
            term.not_restored() == []
            and termios.tcgetattr(term.child.child_fd) == before
        )
    commands = [
        path.read_bytes()
        for path in Path("/proc").glob("[0-9]*/cmdline")
        if _is_there(path)
    ]
    assert not {b"sleep\x0061\x00", b"sleep\x0062\x00"} & {*commands}
    files = [*(tmp_path / "shop-home").glob("sessions/*/*/events.jsonl")]
    assert len(files) == 2
    for file in files:
        session = Session.open(file)
        session.claim()
        session.close()
        assert not session.damage and not broken(session.projection)


def _is_there(path: Path) -> bool:
    try:
        path.read_bytes()
    except OSError:
        return False
    return True


def test_suspended_it_gives_the_terminal_back_and_goes_on_afterwards(
    tmp_path: Path,
) -> None:
    with terminal(tmp_path / "shop") as term:
        before = term.modes
        term.until("Enter sends")
        term.ask("who are you?")
        term.send("\x1a")
        state = Path(f"/proc/{term.child.pid}/stat")
        term.until(lambda _: state.read_text().rpartition(") ")[2].startswith("T"))
        term.read()
        assert term.not_restored() == []
        assert termios.tcgetattr(term.child.child_fd) == before
        term.forget_screen()
        os.kill(term.child.pid, signal.SIGCONT)
        term.until(
            lambda now: now.raw.count(ENTER) == 2 and "what did we do?" in now.text
        )
        term.send("and now?")
        term.until("❯ and now?")
        term.send("\x1f")
        term.until(lambda now: "❯ and now?" not in now.text)
        quit_by_keys(term)
        assert never_cleared(term)
        assert term.not_restored() == []


CONTINUED_AT_ITS_END = """
import os, signal
from foldline.tui.base_app import BaseApp
from foldline.tui.terminal.app import run_app

class Ending(BaseApp):
    def on_ready(self):
        self.exit()

    def on_unmount(self):  # no key is read any more
        os.kill(os.getpid(), signal.SIGCONT)

run_app(Ending())
"""


def test_a_signal_to_go_on_that_comes_at_the_end_does_not_keep_it_alive(
    tmp_path: Path,
) -> None:
    """Whoever closes a window sends two: one says that the terminal is gone, the other to go on."""
    with terminal(
        tmp_path / "shop", program=[sys.executable, "-c", CONTINUED_AT_ITS_END]
    ) as term:
        assert term.ended() == 0
        assert term.raw.count(ENTER) == 1


def test_stopped_from_outside_it_goes_on_as_it_was(tmp_path: Path) -> None:
    with terminal(tmp_path / "shop") as term:
        term.until("Enter sends")
        os.kill(term.child.pid, signal.SIGSTOP)
        term.forget_screen()
        os.kill(term.child.pid, signal.SIGCONT)
        term.until("Enter sends")  # painted anew, over whatever was written there
        assert term.raw.count(ENTER) == 1
        quit_by_keys(term)


def test_a_paste_of_many_lines_is_one_prompt(tmp_path: Path) -> None:
    with terminal(tmp_path / "shop", columns=100, rows=30) as term:
        term.until("Enter sends")
        term.send("\x1b[200~first line\nsecond line\n\tthird [/nope]\x1b[201~")
        term.until("third")
        assert "first line" in term.text and "second line" in term.text
        term.send("\r")
        term.until("\n ┃ ❯ first line")
        quit_by_keys(term)
        assert never_cleared(term)


def test_the_first_enter_makes_room_for_a_long_prompt_and_what_can_never_fit_is_said_until_it_is_gone(
    tmp_path: Path,
) -> None:
    def paste(name: str, lines: int) -> None:
        known = "".join(
            f"all there is to know about part {number} of it\n"
            for number in range(lines)
        )
        term.send(f"\x1b[200~{name}\n{known}\x1b[201~")
        term.until("[pasted")
        term.send("\r")

    with running_server(window=16_384) as server:
        given = {
            "OPENAI_BASE_URL": server.base_url,
            "OPENAI_API_KEY": "x",
            "FOLDLINE_MODEL": MODEL,
        }
        with terminal(tmp_path / "shop", columns=100, rows=30, **given) as term:
            term.until("Enter sends")
            for name in ("first", "second", "third"):
                paste(name, 240)
                term.until(f"You said: {name}")
            paste("longer", 700)
            term.until("You said: longer")
            assert "Not sent" not in term.raw.decode(errors="replace")
            paste("longest", 2_000)
            term.until("Not sent: the prompt is too long")
            term.send(" more")
            term.until("more")
            term.settle()
            assert "Not sent: the prompt is too long" in term.text
            term.send("\x15")
            term.until(
                lambda now: "Not sent" not in now.text and "[pasted" not in now.text
            )
            term.send("something else")
            term.until("something else")
            assert "Not sent" not in term.text
            term.send("\x15")
            quit_by_keys(term)
        assert not [request for request in server.requests() if request.rejected]


def test_bytes_that_are_no_text_are_shown_as_such_and_end_nothing(
    tmp_path: Path,
) -> None:
    with terminal(tmp_path) as term:
        term.until("Enter sends")
        term.child.send(b"caf\xe9 \x9b noir")
        term.until("┃ ❯ caf\ufffd \ufffd noir")
        quit_by_keys(term)


ANSWER = """The **index** `insert_or_get` keeps one order per customer, so that a retry which comes in twice
gets the first order back; see [docs](http://example.org/a).

- one item of a list with `code` in it
- another item that is somewhat longer than the first one was

```python
def insert(order, key):
    return orders.get(key) or orders.add(order, key=key)
```

| file | lines |
|---|---|
| service.py | 31 |

"""
SPINNER_BYTES = 60
"""Bytes of the terminal's output for a step of the spinner; ten of them are a second."""
STREAM_RATIO = 4
"""Bytes of the terminal's output for each of a streamed answer, the steps of the spinner left out."""


def spinner_steps(written: bytes) -> int:
    """Steps are counted, not seconds: a busy machine takes longer over the same ones."""
    return sum(map(written.decode(errors="replace").count, SPINNER))


@pytest.mark.parametrize(("columns", "rows"), [(80, 24), (200, 60)])
def test_a_spinner_and_a_streamed_answer_are_few_bytes(
    tmp_path: Path, columns: int, rows: int
) -> None:
    """What goes over a slow connection. The model writes 2 kB a second."""
    answer = (ANSWER * 60)[:20_000] + "\n\nThat is all."
    rules = [
        {"when": {"content": "hold"}, "answer": {"fault": {"hang": True}}},
        {"answer": {"text": answer, "chunk": 12, "fault": {"pause": 0.005}}},
    ]
    with running_server(script=rules) as server:
        env = {
            "OPENAI_BASE_URL": server.base_url,
            "OPENAI_API_KEY": "a-key",
            "FOLDLINE_MODEL": server.model,
        }
        with terminal(tmp_path / "shop", columns=columns, rows=rows, **env) as term:
            term.until(server.model)
            term.send("write\r")
            term.until("Writing")
            before = len(term.raw)
            term.until("That is all.", patience=8 * PATIENCE)
            term.until("Enter sends")
            written = bytes(term.raw[before:])
            most = STREAM_RATIO * len(answer.encode()) + SPINNER_BYTES * spinner_steps(
                written
            )
            assert len(written) < most
            term.send("hold\r")
            term.until("Waiting")
            before = len(term.raw)
            term.until(
                lambda _: spinner_steps(term.raw[before:]) >= 50, patience=8 * PATIENCE
            )
            assert len(term.raw) - before < SPINNER_BYTES * spinner_steps(
                term.raw[before:]
            )


def test_another_size_is_drawn_without_clearing(tmp_path: Path) -> None:
    with terminal(tmp_path / "shop", columns=120, rows=40) as term:
        term.until("The model still has")
        term.ask("列出文件")
        term.resize(80, 24)
        term.until(
            lambda now: (
                "The model still has" not in now.text
                and "Ctrl+P everything" in now.rows[23]
            )
        )
        term.resize(39, 9)
        term.until("Too small: needs 40x10")
        term.resize(100, 30)
        term.until(lambda now: "Ctrl+P everything" in now.rows[29])
        assert "❯ 列出文件" in term.text
        quit_by_keys(term)
        assert never_cleared(term)


def test_without_a_terminal_it_says_so(tmp_path: Path) -> None:
    with terminal(tmp_path / "shop", "-r", "no-such-session") as term:
        assert term.ended() == 1
        assert ENTER not in term.raw and b"no-such-session" in term.raw


def test_what_changed_is_seen_file_by_file_and_side_by_side_where_there_is_room(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "shop"
    folder.mkdir()
    (folder / "a.py").write_text(LINES)
    with terminal(
        folder, columns=140, rows=40, FOLDLINE_APPROVALS__MODE="edits"
    ) as term:
        term.until("Enter sends")
        term.ask("replace compute(5) with measure(5) in a.py")
        term.until(
            lambda now: any(
                "6 − value_5" in row and "6 + value_5" in row for row in now.rows
            )
        )
        term.send("/diff\r")
        term.until(CHANGES_TITLE)
        term.until(
            lambda now: any(
                "6 − value_5" in row and "6 + value_5" in row for row in now.rows
            )
        )
        term.resize(100, 30)
        term.until(
            lambda now: any(
                "6 + value_5" in row and "6 − value_5" not in row for row in now.rows
            )
        )
        term.send("\r")
        term.until(lambda now: "value_5" not in now.text and "▸ a.py" in now.text)
        term.send("q")
        term.until("Enter sends")
        quit_by_keys(term)


def test_addresses_and_paths_are_links_and_nothing_of_them_is_seen(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "my shop"
    folder.mkdir()
    (folder / "a.txt").write_text("see https://in.file.example/x\n")
    with terminal(folder, columns=120, rows=40, KITTY_WINDOW_ID="1") as term:
        term.until("Enter sends")
        term.ask("read a.txt, then search for see (https://example.org/a)")
        term.until("1 line")
        at = f"file://{socket.gethostname()}{quote(str(folder))}/a.txt".encode()
        opened = re.findall(rb"\x1b\]8;id=[-\d]+;([^\x1b\x07]*)\x1b\\", term.raw)
        assert {at, b"https://example.org/a"} <= {*opened}
        assert term.raw.count(b"\x1b]8;;\x1b\\") == len(opened), "each link is closed"
        assert "8;id=" not in term.text and "file://" not in term.text
        quit_by_keys(term)
        assert never_cleared(term) and term.not_restored() == []


@pytest.mark.parametrize(("columns", "rows"), [(80, 24), (120, 36), (200, 60)])
def test_subagents_work_are_looked_at_and_cancelled_in_a_real_terminal(
    tmp_path: Path, columns: int, rows: int
) -> None:
    tasks = [
        {"name": "task", "arguments": {"prompt": f"Look at {name}", "agent": "explore"}}
        for name in "abc"
    ]
    script = [
        {
            "when": {"content": "^three"},
            "answer": {"text": "I send three.", "tool_calls": tasks},
        },
        {"when": {"content": "^Look at [ab]"}, "answer": {"text": "There is nothing."}},
        {"when": {"content": "^Look at c"}, "answer": {"fault": {"hang": True}}},
        {"answer": {"text": "ok"}},
    ]
    with running_server(script=script) as server:
        env = {
            "OPENAI_BASE_URL": server.base_url,
            "OPENAI_API_KEY": "a-key",
            "FOLDLINE_MODEL": server.model,
        }
        with terminal(tmp_path / "shop", columns=columns, rows=rows, **env) as term:
            term.until("Enter sends")
            term.send("three\r")
            term.until("explore · 1 step")
            term.until(ESC_CANCELS)
            term.until(
                lambda now: (
                    sum("explore" in row and "step" in row for row in now.rows) == 2
                )
            )
            term.send("\t")
            term.until(ESC_TO_PROMPT)
            term.send("\r")
            term.until("▸ Inspector")
            term.until("written by this process")
            term.send("\x1b")
            term.until("I send three.")
            term.send("\x1b")
            term.until(ESC_CANCELS)
            term.send("\x1b")
            term.until("explore · cancelled")
            quit_by_keys(term)


def test_a_draft_in_the_preview_is_few_bytes(tmp_path: Path) -> None:
    """The chat below it goes on with its work: it is no reason to write the screen again."""
    draft = "## Goal\n" + "".join(
        f"- service_{number}.py keeps one order of each\n" for number in range(120)
    )
    rules = [
        {
            "when": {"content": "^ask"},
            "answer": {"text": "Words of a long answer. " * 200},
        },
        {"answer": {"text": draft, "chunk": 12, "fault": {"pause": 0.005}}},
    ]
    with running_server(script=rules, window=16_384) as server:
        env = {
            "OPENAI_BASE_URL": server.base_url,
            "OPENAI_API_KEY": "a-key",
            "FOLDLINE_MODEL": server.model,
        }
        with terminal(tmp_path / "shop", columns=160, rows=48, **env) as term:
            term.until(server.model)
            for number in range(6):
                term.ask(f"ask {number}")
            term.send("\x1bOR")  # F3
            term.until("service_1.py")
            before = len(term.raw)
            term.until("service_110.py", patience=8 * PATIENCE)
            assert len(term.raw) - before < 10 * len(draft.encode())
