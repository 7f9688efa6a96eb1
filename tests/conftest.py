"""The same surroundings for every test: what is read once, at import, is set before."""

import atexit
import os
import shutil
import tempfile
import time
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, settings

from support import quiet

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
os.environ["TEXTUAL_ANIMATIONS"] = "none"
os.environ["TZ"] = "UTC"
time.tzset()
quiet.install()
# What a test holds is no time: a busy machine must not fail it.
settings.register_profile("timeless", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("timeless")


@pytest.fixture
def data_folder(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """A data folder of the test's own, for what the program keeps where no environment is handed in."""
    monkeypatch.setenv("FOLDLINE_HOME", str(tmp_path_factory.mktemp("data")))


@pytest.fixture
def snap_compare(snap_compare: Callable[..., bool], monkeypatch: pytest.MonkeyPatch) -> Callable[..., bool]:
    """Pictures without buttons: which key a click presses is nothing to see, and would cut up the text."""
    from rich.style import Style

    from foldline.tui.blocks.styles import Styles  # Textual only with the surroundings above

    styled = Styles.__getitem__

    def unpressed(styles: Styles, spec: str) -> Style:
        return styled(styles, " ".join(word for word in spec.split() if not word.startswith("key:")))

    monkeypatch.setattr(Styles, "__getitem__", unpressed)
    return snap_compare
