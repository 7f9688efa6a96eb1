"""Shared test environment: variables, signals, caches.

Settings that the program reads at import are set here first.
"""

import atexit
import gc
import os
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from foldline import programs
from support import idle
from support.limits import examples

for name in list(os.environ):
    if (
        name
        in ("NO_COLOR", "COLORTERM", "FORCE_COLOR", "OPENAI_BASE_URL", "OPENAI_MODEL")
        or name.startswith("GIT_")
        or name.endswith("_API_KEY")
    ):
        del os.environ[name]
os.environ["GIT_CONFIG_GLOBAL"] = os.devnull
for name in (
    "FOLDLINE_HOME",
    "FOLDLINE_MODEL",
    "FOLDLINE_PROVIDER",
    "COLUMNS",
    "LINES",
):
    os.environ.pop(name, None)
# Hide skills and commands in the home folder of the person running the tests.
os.environ["HOME"] = tempfile.mkdtemp(prefix="foldline-home-")
atexit.register(shutil.rmtree, os.environ["HOME"], ignore_errors=True)
# Without bytecode files, every worker and every started process would compile the same modules again.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
os.environ["TEXTUAL_ANIMATIONS"] = "none"
# Background jobs and nohup ignore these signals, and child processes inherit that. A handled signal, in turn,
# has its default action in a child.
for ignored in (signal.SIGINT, signal.SIGHUP):
    if signal.getsignal(ignored) is signal.SIG_IGN:
        signal.signal(ignored, lambda *_: None)
os.environ["TZ"] = "UTC"
time.tzset()
idle.install()
# No deadlines: a busy machine must not fail a test.
settings.register_profile(
    "timeless",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    max_examples=examples(100),
)
settings.load_profile("timeless")


def share_parsed_styles() -> None:
    """Cache parsed style sheets: a thousand apps parse the same ones."""
    from textual.css.stylesheet import (
        Stylesheet,
    )  # imported only after the environment above is set

    parse = Stylesheet._parse_rules
    parsed: dict[tuple[object, ...], Any] = {}

    def parse_once(sheet: Stylesheet, *args: Any, **kwargs: Any) -> Any:
        key = (*args, *kwargs.items(), *sheet._variables.items())
        if key not in parsed:
            parsed[key] = parse(sheet, *args, **kwargs)
        return parsed[key]

    Stylesheet._parse_rules = parse_once  # type: ignore[method-assign]


share_parsed_styles()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the first cases of a test with `quick_cases` as quick, all others as slow.

    Runs before the order is shuffled and before `-m` deselects.
    """
    cases: Counter[str] = Counter()
    for item in items:
        limit = item.get_closest_marker("quick_cases")
        is_slow = any(marker.name == "slow" for marker in item.own_markers)
        if limit is None or is_slow:
            continue
        test = item.nodeid.partition("[")[0]
        cases[test] += 1
        is_quick = cases[test] <= limit.args[0]
        item.add_marker(pytest.mark.quick if is_quick else pytest.mark.slow)


def pytest_collection_finish() -> None:
    """Exclude the collected tests from garbage collection.

    More than ten thousand tests live until the end of the run.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(
        20_000, 10, 10
    )  # a threshold of 700 finds little garbage: each app leaves many objects


@pytest.fixture(autouse=True)
def isolated_environment(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Restore environment variables and the writable folders after each test."""
    monkeypatch.setattr(programs, "_writable", set())
    environ = dict(os.environ)
    yield
    if os.environ != environ:
        os.environ.clear()
        os.environ.update(environ)


@pytest.fixture
def data_folder(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Set FOLDLINE_HOME to a data folder of this test."""
    monkeypatch.setenv("FOLDLINE_HOME", str(tmp_path_factory.mktemp("data")))


@pytest.fixture
def snap_compare(
    snap_compare: Callable[..., bool], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., bool]:
    """Compare snapshots without clickable links, and with a preamble of fixed length.

    Links are invisible but would split the text of the SVG. The preamble names the working folder, so the
    meter would depend on its length.
    """
    from rich.style import Style

    from foldline.agent.session import instructions
    from foldline.protocol import SystemMessage, text_parts

    # Imports Textual, so only after the environment above is set.
    from foldline.tui.look.styles import Styles

    styled = Styles.__getitem__

    def without_links(styles: Styles, spec: str) -> Style:
        return styled(
            styles,
            " ".join(word for word in spec.split() if not word.startswith("key:")),
        )

    read = instructions.read_preamble

    def fixed_length_preamble(
        cwd: Path, *args: Any, **kwargs: Any
    ) -> instructions.Preamble:
        system, *others = (preamble := read(cwd, *args, **kwargs)).messages
        usual_folder = (
            "/home/somebody/who/works/in/folders/that/have/the/usual/lengths/shop-api"
        )
        text = system.text.replace(str(cwd), usual_folder)
        return replace(
            preamble, messages=[SystemMessage(parts=text_parts(text)), *others]
        )

    monkeypatch.setattr(instructions, "read_preamble", fixed_length_preamble)
    monkeypatch.setattr(Styles, "__getitem__", without_links)
    return snap_compare
