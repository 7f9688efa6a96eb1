"""Terminal hyperlinks (OSC 8) for addresses and file paths.

A link is a word in a span's style, `link=ADDRESS` or `path=PATH#LINE`. It does not change the appearance of
the span.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import quote

_IN = r"A-Za-z0-9\-._~:/?#@!$&*+,;=%"
_ADDRESS: Final = re.compile(
    rf"https?://(?:[{_IN}]|\([{_IN}]*\))*(?:[A-Za-z0-9\-_~/#@$&*+=%]|\([{_IN}]*\))"
)
"""Matches a web address (RFC 3986), without the punctuation that follows an address in a sentence."""
_LONGEST: Final = 2_000
"""Maximum length of an address, in characters. Terminals ignore longer ones."""


def linked(text: str, style: str) -> list[tuple[str, str]]:
    """Convert sanitised text to spans, linking the addresses in the text."""
    if "://" not in text:
        return [(text, style)]
    spans = []
    at = 0
    for match in _ADDRESS.finditer(text):
        address = match[0]
        if len(address) <= _LONGEST:
            spans += [
                (text[at : match.start()], style),
                (address, f"{style} link={address}"),
            ]
            at = match.end()
    spans.append((text[at:], style))
    return [span for span in spans if span[0]]


def to_file(path: str, style: str, line: int | str = "") -> str:
    """Return the style with an added link to a file."""
    return f"{style} path={quote(path, errors='replace')}#{line}"


class FileLinks(NamedTuple):
    """Builds `file://` addresses.

    The addresses contain the host name, which makes them work over SSH as well.
    """

    host: str
    folder: str
    with_lines: bool
    """Whether the terminal supports `#LINE` after the path."""

    def address(self, path: str) -> str:
        """Convert a `PATH#LINE` from `to_file` to an address."""
        path, _, line = path.partition("#")
        if not path.startswith("/"):
            path = f"{self.folder}/{path}"
        anchor = f"#{line}" if line and self.with_lines else ""
        return f"file://{self.host}{path}{anchor}"


def file_links(folder: Path, host: str, environ: Mapping[str, str]) -> FileLinks:
    """Create a link builder for paths relative to `folder`.

    The links use the syntax that this terminal supports.
    """
    is_kitty = "KITTY_WINDOW_ID" in environ or environ.get("TERM") == "xterm-kitty"
    is_iterm = "iTerm" in environ.get("LC_TERMINAL", environ.get("TERM_PROGRAM", ""))
    return FileLinks(
        quote(host),
        quote(str(folder.absolute()), errors="replace"),
        is_kitty or is_iterm,
    )
