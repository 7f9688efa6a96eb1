"""The same surroundings for every test: what is read once, at import, is set before."""

import atexit
import gc
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from foldline import programs
from support import quiet
from support.limits import examples

for name in list(os.environ):
    if (
        name in ("NO_COLOR", "COLORTERM", "FORCE_COLOR", "OPENAI_BASE_URL", "OPENAI_MODEL")
        or name.startswith("GIT_")
        or name.endswith("_API_KEY")
    ):
        del os.environ[name]
os.environ["GIT_CONFIG_GLOBAL"] = os.devnull
for name in ("FOLDLINE_HOME", "FOLDLINE_MODEL", "FOLDLINE_PROVIDER", "COLUMNS", "LINES"):
    os.environ.pop(name, None)
# Whoever runs the tests may keep skills and commands at home.
os.environ["HOME"] = tempfile.mkdtemp(prefix="foldline-home-")
atexit.register(shutil.rmtree, os.environ["HOME"], ignore_errors=True)
# Every worker, and every process that a test starts, would compile anew what another one has compiled.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
os.environ["TEXTUAL_ANIMATIONS"] = "none"
# In the background, or under nohup, these are ignored, and would be in each program a test starts: what is
# handled here begins there as usual.
for ignored in (signal.SIGINT, signal.SIGHUP):
    if signal.getsignal(ignored) is signal.SIG_IGN:
        signal.signal(ignored, lambda *_: None)
os.environ["TZ"] = "UTC"
time.tzset()
quiet.install()
# What a test holds is no time: a busy machine must not fail it.
settings.register_profile(
    "timeless", deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=examples(100)
)
settings.load_profile("timeless")


def share_parsed_styles() -> None:
    """Each of a thousand apps would parse the same style sheets."""
    from textual.css.stylesheet import Stylesheet  # with the surroundings above

    parse = Stylesheet._parse_rules
    parsed: dict[tuple[object, ...], Any] = {}

    def once(sheet: Stylesheet, *given: Any, **named: Any) -> Any:
        key = (*given, *named.items(), *sheet._variables.items())
        if key not in parsed:
            parsed[key] = parse(sheet, *given, **named)
        return parsed[key]

    Stylesheet._parse_rules = once  # type: ignore[method-assign]


share_parsed_styles()


def pytest_collection_finish() -> None:
    """Eleven thousand tests live until the end: no collection of garbage looks at them again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 10, 10)  # each app leaves much that a look at 700 objects does not find dead


@pytest.fixture(autouse=True)
def apart(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Working folders and variables of one test do not change which programs another one starts, and how."""
    monkeypatch.setattr(programs, "_writable", set())
    environ = dict(os.environ)
    yield
    if os.environ != environ:
        os.environ.clear()
        os.environ.update(environ)


@pytest.fixture
def data_folder(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """A data folder of the test's own, for what the program keeps where no environment is handed in."""
    monkeypatch.setenv("FOLDLINE_HOME", str(tmp_path_factory.mktemp("data")))


@pytest.fixture
def snap_compare(snap_compare: Callable[..., bool], monkeypatch: pytest.MonkeyPatch) -> Callable[..., bool]:
    """Pictures without buttons: which key a click presses is nothing to see, and would cut up the text. What
    the model is told of the folder is as long wherever the tests run: the meter counts it."""
    from rich.style import Style

    from foldline.agent import instructions
    from foldline.protocol import SystemMessage, text_parts
    from foldline.tui.blocks.styles import Styles  # Textual only with the surroundings above

    styled = Styles.__getitem__

    def unpressed(styles: Styles, spec: str) -> Style:
        return styled(styles, " ".join(word for word in spec.split() if not word.startswith("key:")))

    read = instructions.read_preamble

    def told(cwd: Path, *given: Any, **named: Any) -> instructions.Preamble:
        system, *rest = (preamble := read(cwd, *given, **named)).messages
        usual = "/home/somebody/who/works/in/folders/that/have/the/usual/lengths/shop-api"
        text = system.text.replace(str(cwd), usual)
        return replace(preamble, messages=[SystemMessage(parts=text_parts(text)), *rest])

    monkeypatch.setattr(instructions, "read_preamble", told)
    monkeypatch.setattr(Styles, "__getitem__", unpressed)
    return snap_compare
