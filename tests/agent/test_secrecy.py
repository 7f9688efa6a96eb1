"""Keys stay out of what tools bring, and out of what the system shows of this process."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from foldline.agent.secrecy import hider
from support.agents import PlayedLLM, agent_in, calling
from support.planted_key import KEY, found_below

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
    hide = hider(os.environ)
    assert hide(f"a {KEY} b {STORED}, {KEY}") == "a [key] b [key], [key]"
    assert hide("sk-planted elsewhere") == "sk-planted elsewhere"


@pytest.mark.parametrize("short", ["", " ", "none", "ollama"])
def test_what_is_too_short_for_a_key_stays_a_word(short: str) -> None:
    environ = {"OPENAI_API_KEY": short, "FOLDLINE_HOME": "/nowhere"}
    assert hider(environ)("none of ollama's words") == "none of ollama's words"


async def test_a_file_that_holds_a_key_is_read_without_it(home: Path, tmp_path: Path) -> None:
    """Also where it is long: neither the result, nor what is kept beside it, nor the diff of an edit."""
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / ".env").write_text(f"OPENAI_API_KEY={KEY}\nDEBUG=0\n")
    (folder / "big.txt").write_text(f"{KEY} in a line of a big file\n" * 3_000)
    llm = PlayedLLM(
        calling(("read", {"path": ".env"}), ("grep", {"pattern": "KEY"}), stem="a"),
        calling(("edit", {"path": ".env", "old": "DEBUG=0", "new": "DEBUG=1"}), stem="b"),
        calling(("bash", {"command": "cat big.txt"}), stem="c"),
    )
    agent, watch = agent_in(folder, llm, approvals="all")
    await agent.prompt("look")
    assert "OPENAI_API_KEY=[key]" in llm.requests[1].messages[-2].text
    assert not any(KEY in event.model_dump_json() for event in watch.events)
    assert not any(KEY in message.text for request in llm.requests for message in request.messages)
    await agent.aclose()
    assert agent.session.path is not None
    found = found_below(agent.session.path.parent)
    assert [Path(path).parent.name for path in found] == ["contents", "contents"], "what a rewind puts back"


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="no /proc here")
def test_no_program_reads_it_out_of_this_process() -> None:
    code = """
import asyncio, os
from pathlib import Path
from foldline.agent.tools.process import spawn

async def look():
    said = []
    async def take(chunk):
        said.append(chunk)
        return True
    async with spawn(["cat", f"/proc/{os.getpid()}/environ"], Path("/"), {}) as child:
        await child.follow(take)
    return b"".join(said)

said = asyncio.run(look())
assert b"OPENAI_API_KEY=xxx" in said and b"HOME=" in said, said
assert os.environ["OPENAI_API_KEY"].encode() not in said
"""
    environ = {**os.environ, "OPENAI_API_KEY": KEY, "HOME": "/"}
    done = subprocess.run([sys.executable, "-c", code], env=environ, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
