"""Opens a page in the user's browser, where there is a desktop with one."""

import asyncio
import os
import sys
from collections.abc import Mapping


def opener(environ: Mapping[str, str], platform: str = sys.platform) -> str:
    """The program that opens pages; empty where there is no desktop: a browser of text would take the
    terminal."""
    if platform == "darwin":
        return "open"
    return "xdg-open" if environ.get("DISPLAY") or environ.get("WAYLAND_DISPLAY") else ""


async def open_page(url: str) -> bool:
    """Whether the page was given to a browser. Only addresses of the web are."""
    program = opener(os.environ)
    if not program or not url.lower().startswith(("https://", "http://")):
        return False
    nothing = asyncio.subprocess.DEVNULL
    try:
        await asyncio.create_subprocess_exec(
            program, url, stdin=nothing, stdout=nothing, stderr=nothing, start_new_session=True
        )
    except OSError:
        return False
    return True
