"""Keys stay out of what tools bring, and out of what the system shows of this process."""

import os
import subprocess
import sys
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foldline.agent.settings.api_keys import Mask, mask_of
from foldline.history import Session
from support.agents import PlayedLLM, agent_in, tool_reply
from support.fake_key import KEY, found_below
from support.terminal import COLD, terminal
from support.tools import call, tool_context
from support.trust import bring

STORED = "sk-stored-0f1e2d3c4b5a"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "home"
    folder.mkdir()
    (folder / "keys.toml").write_text(f'[keys]\ndeepseek = "{STORED}"\n')
    (folder / "keys.toml").chmod(0o600)
    monkeypatch.setenv("FOLDLINE_HOME", str(folder))
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    return folder


def test_every_key_we_know_is_hidden_and_no_other_word(home: Path) -> None:
    mask = mask_of(os.environ)
    assert mask(f"a {KEY} b {STORED}, {KEY}") == "a [key] b [key], [key]"
    assert mask("sk-planted elsewhere") == "sk-planted elsewhere"


@pytest.mark.parametrize("word", ["", " ", "none", "ollama", "lm-studio", "not-needed"])
def test_a_word_that_a_server_without_keys_is_given_stays_a_word(word: str) -> None:
    environ = {"OPENAI_API_KEY": word, "FOLDLINE_HOME": "/nowhere"}
    text = "none of ollama's or lm-studio's words is not-needed"
    assert mask_of(environ)(text) == text


def test_a_new_key_in_the_file_is_masked_from_then_on(home: Path) -> None:
    assert mask_of(os.environ)("sk-new-0123456789") == "sk-new-0123456789"
    (home / "keys.toml").write_text('[keys]\ndeepseek = "sk-new-0123456789"\n')
    assert mask_of(os.environ)("sk-new-0123456789") == "[key]"


@given(
    st.lists(
        st.sampled_from([KEY, STORED, KEY[:9], STORED[3:], "sk-", "a\n", "é"]),
        max_size=12,
    ),
    st.data(),
)
def test_a_key_cut_between_two_pieces_is_masked_as_in_one(
    parts: list[str], data: st.DataObject
) -> None:
    mask, whole = Mask([KEY, STORED]), "".join(parts).encode()
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=8)))
    stream, said = mask.stream(), b""
    for start, end in pairwise([0, *cuts, len(whole)]):
        said += stream.feed(whole[start:end])
    assert said + stream.rest() == mask(whole.decode()).encode()


async def test_what_is_cut_to_its_room_was_masked_first(
    home: Path, tmp_path: Path
) -> None:
    """By every tool that cuts: at any width, a key is nowhere shown in part."""
    folder = tmp_path / "work"
    folder.mkdir()
    for shift in range(0, 40, 3):
        (folder / f"{shift}.txt").write_text(("x" * shift + f" {KEY} ") * 200 + "\n")
        (folder / f"{shift}.log").write_text(
            "y" * (360 + shift) + f"{KEY} and so on" + "z" * 400 + "\n"
        )
        (folder / f"{shift}.env").write_text("q" * (120 + shift) + KEY + "\n")
    shown = []
    for shift in range(0, 40, 3):
        context = replace(
            tool_context(folder, max_tokens=300 + shift), mask=mask_of(os.environ)
        )
        shown += [
            await call(context, "read", path=f"{shift}.txt"),
            await call(context, "grep", pattern="y and|yy|q", path="."),
            await call(
                context,
                "edit",
                path=f"{shift}.env",
                old="q" * (120 + shift) + "\nnext",
                new="r",
            ),
            await call(context, "bash", command=f"cat {shift}.txt", background=True),
            await call(
                context, "bash", command=f"cat {shift}.txt; sleep 0.01; cat {shift}.log"
            ),
        ]
        await context.jobs.aclose()
    spilled = [path.read_text() for path in (tmp_path / "work-spill").iterdir()]
    assert not [
        text
        for text in [outcome.text for outcome in shown] + spilled
        if KEY[8:20] in text
    ]
    assert sum("[key]" in outcome.text for outcome in shown) > 30, "they looked at it"


async def test_a_key_in_a_prompt_an_instruction_file_or_an_answer_is_neither_sent_nor_stored(
    home: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    bring(folder / "AGENTS.md", f"Use {KEY} for the tests.\n")
    called = tool_reply(("ls", {"path": f"nowhere/{STORED}"}))
    llm = PlayedLLM(called, f"as you say: {STORED}", "done")
    agent, _ = agent_in(folder, llm)
    await agent.prompt(f"my key is {KEY}")
    await agent.prompt("go on")
    await agent.aclose()
    sent = [message.text for request in llm.requests for message in request.messages]
    assert "my key is [key]" in sent and any(
        "Use [key] for the tests." in text for text in sent
    )
    assert not [text for text in sent if KEY in text or STORED in text]
    assert agent.session.path is not None
    assert found_below(agent.session.path.parent) == []
    assert found_below(agent.session.path.parent, key=STORED) == []
    stored = Session.open(agent.session.path)
    assert list(stored.entries) == list(agent.session.entries), (
        "the live session is the stored one"
    )


async def test_a_file_that_holds_a_key_is_read_without_it(
    home: Path, tmp_path: Path
) -> None:
    """Also where it is long: neither the result, nor what is kept beside it, nor the diff of an edit."""
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / ".env").write_text(f"OPENAI_API_KEY={KEY}\nDEBUG=0\n")
    (folder / "big.txt").write_text(f"{KEY} in a line of a big file\n" * 3_000)
    llm = PlayedLLM(
        tool_reply(("read", {"path": ".env"}), ("grep", {"pattern": "KEY"}), stem="a"),
        tool_reply(
            ("edit", {"path": ".env", "old": "DEBUG=0", "new": "DEBUG=1"}), stem="b"
        ),
        tool_reply(("bash", {"command": "cat big.txt"}), stem="c"),
    )
    agent, watch = agent_in(folder, llm, approvals="all")
    await agent.prompt("look")
    assert "OPENAI_API_KEY=[key]" in llm.requests[1].messages[-2].text
    assert not any(KEY in event.model_dump_json() for event in watch.events)
    assert not any(
        KEY in message.text for request in llm.requests for message in request.messages
    )
    await agent.aclose()
    assert agent.session.path is not None
    found = found_below(agent.session.path.parent)
    assert [Path(path).parent.name for path in found] == ["contents", "contents"], (
        "what a rewind puts back"
    )


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="no /proc here")
@pytest.mark.parametrize("command", [[], ["run", "stop and go"]])
def test_from_its_start_on_no_program_reads_a_key_out_of_it(
    tmp_path: Path, command: list[str]
) -> None:
    """Read by root, from whom nothing else could hide it."""
    # So slow that it has not ended when it is looked at.
    env = {
        "OPENAI_API_KEY": KEY,
        "FOLDLINE_MODEL": "offline",
        "FOLDLINE_OFFLINE__PACE": "5",
    }
    with terminal(tmp_path / "work", *command, program=COLD, **env) as started:
        process = Path(f"/proc/{started.child.pid}")
        started.until(
            lambda _: b"OPENAI_API_KEY=xxx" in (process / "environ").read_bytes()
        )
        assert KEY.encode() not in (process / "environ").read_bytes()


@pytest.mark.skipif(sys.platform != "linux", reason="of Linux")
def test_nobody_may_trace_this_process_and_it_leaves_no_core() -> None:
    code = """
import ctypes, resource
from foldline.process import protect_process
protect_process()
print(ctypes.CDLL(None).prctl(3, 0, 0, 0, 0), resource.getrlimit(resource.RLIMIT_CORE)[0])
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stdout == "0 0\n"
