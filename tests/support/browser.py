"""A page of `foldline serve` in a real Chromium, and the screen that its socket's bytes make."""

import json
import re
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pyte
import pytest

from support.terminal import _UNKNOWN_TO_PYTE, PATIENCE

if TYPE_CHECKING:
    from playwright.sync_api import Page, WebSocket

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
_QUERIES = re.compile(rb"\x1b\[\?[0-9;]*\$p")


class Tab:
    """One open page."""

    def __init__(self, page: "Page") -> None:
        self.page = page
        self.asked: list[str] = []
        """Every address the page asked for."""
        self._screen = pyte.Screen(80, 24)
        self._stream = pyte.ByteStream(self._screen)
        page.on("request", lambda request: self.asked.append(request.url))
        page.on("websocket", self._listen)

    def _listen(self, socket: "WebSocket") -> None:
        self.asked.append(socket.url)
        socket.on("framesent", self._sent)
        socket.on("framereceived", self._received)

    def _sent(self, payload: str | bytes) -> None:
        said = json.loads(payload)
        if said[0] == "resize":
            self._screen.resize(said[1]["height"], said[1]["width"])

    def _received(self, payload: str | bytes) -> None:
        if isinstance(payload, bytes):
            self._stream.feed(_UNKNOWN_TO_PYTE.sub(b"", _QUERIES.sub(b"", payload)))

    @property
    def size(self) -> tuple[int, int]:
        return self._screen.columns, self._screen.lines

    @property
    def text(self) -> str:
        return "\n".join(line.rstrip() for line in self._screen.display)

    def until(self, wanted: str | Callable[["Tab"], object]) -> None:
        """Until this text, or this condition, is on the screen."""
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            if wanted in self.text if isinstance(wanted, str) else wanted(self):
                return
            self.page.wait_for_timeout(20)
        raise AssertionError(f"{wanted!r} did not come to the page:\n{self.text}")

    def press(self, *keys: str) -> None:
        for key in keys:
            self.page.keyboard.press(key)


@contextmanager
def tab(address: str, size: tuple[int, int] = (1200, 800)) -> Iterator[Tab]:
    """A page of this address; the test is skipped where there is no browser to open it."""
    if CHROMIUM is None:
        pytest.skip("no Chromium here: `apt-get install chromium` brings one")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        try:
            page = browser.new_page(viewport={"width": size[0], "height": size[1]})
            opened = Tab(page)
            page.goto(address)
            yield opened
        finally:
            browser.close()
