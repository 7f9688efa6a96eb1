"""headroom-ai as an arm: run in its own environment, with protected messages restored."""

import sys
from pathlib import Path

import pytest

from bench.headroom import HeadroomCompaction
from foldline.compaction import CompactionContext, CompactionFailed
from foldline.protocol import FoldlineError
from support.history import history
from support.llm import ScriptedLLM

FAKE = """
import os
from types import SimpleNamespace
print("a banner")
def compress(messages, *, model, model_limit):
    if not os.environ["HEADROOM_OFFLINE"] or "OPENAI_API_KEY" in os.environ: raise ValueError("unsafe")
    if model_limit < 10_000: raise ValueError("too small")
    short = [{**m, "content": "short" if m["role"] in ("tool", "user") else m["content"]} for m in messages]
    return SimpleNamespace(messages=short)
"""


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Install a `headroom` that shortens everything, linked as pipx does."""
    scripts = tmp_path / "venv" / "bin"
    scripts.mkdir(parents=True)
    (tmp_path / "venv" / "headroom.py").write_text(FAKE)
    python = scripts / "python"
    python.write_text(
        f'#!/bin/sh\nPYTHONPATH={tmp_path / "venv"} exec {sys.executable} "$@"\n'
    )
    (scripts / "headroom").write_text("#!/bin/sh\n")
    links = tmp_path / "links"
    links.mkdir()
    for program in scripts.iterdir():
        program.chmod(0o755)
    (links / "headroom").symlink_to(scripts / "headroom")
    monkeypatch.setenv("PATH", str(links), prepend=":")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-planted")


def context(window: int = 16_384) -> CompactionContext:
    built = history().system("s").user("read it")
    built.step("read", "line 1\n" * 200, path="a.py").step(
        "read", "line 2\n" * 200, path="b.py"
    )
    view = [item.message for item in built.projection().view]
    return CompactionContext(view, 500, window, 2_048, ScriptedLLM())


@pytest.mark.usefixtures("installed")
async def test_only_seen_results_are_shortened() -> None:
    after = await HeadroomCompaction().compact(context())
    assert after is not None
    assert [message.text[:6] for message in after] == [
        "s",
        "read i",
        "",
        "short",
        "",
        "line 2",
    ]


@pytest.mark.usefixtures("installed")
async def test_a_failure_of_headroom_is_one_sentence() -> None:
    with pytest.raises(
        CompactionFailed, match=r"^headroom failed: ValueError: too small$"
    ):
        await HeadroomCompaction().compact(context(window=8_192))


def test_a_missing_headroom_is_reported_with_install_instructions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(FoldlineError, match="pipx install headroom-ai"):
        HeadroomCompaction()
