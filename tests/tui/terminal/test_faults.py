"""An error nobody foresaw, in the real program: one sentence, a terminal in order, and no values."""

from pathlib import Path

import pytest

from foldline.cli import TRY_DEBUG
from support.terminal import COLD, terminal

KEY = "sk-planted-7f3a9c51e2"
BREAKS = """
import foldline.agent.settings.settings as settings

def connect_llm(settings, environ):
    key = environ["OPENAI_API_KEY"]
    raise RuntimeError("nobody foresaw this")

settings.connect_llm = connect_llm
"""


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [(), ("--debug",)])
def test_an_unforeseen_error_shows_no_values(
    tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    (tmp_path / "sitecustomize.py").write_text(BREAKS)
    env = {"PYTHONPATH": str(tmp_path), "OPENAI_API_KEY": KEY}
    with terminal(
        tmp_path / "shop", *arguments, program=COLD, columns=120, **env
    ) as term:
        assert term.ended() == 1
    said = term.raw.decode()
    assert KEY not in said
    assert "nobody foresaw this" in said
    assert ("Traceback" in said) == ("--debug" in arguments)
    assert (TRY_DEBUG in said) == ("--debug" not in arguments)
    assert term.not_restored() == []
