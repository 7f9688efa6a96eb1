"""Links that the terminal opens (OSC 8): addresses in a text, and paths. What is shown is what is linked.

A word of a span's style says so, `link=ADDRESS` or `path=PATH#LINE`: it is drawn as it was without.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import quote

_IN = r"A-Za-z0-9\-._~:/?#@!$&*+,;=%"
_ADDRESS: Final = re.compile(rf"https?://(?:[{_IN}]|\([{_IN}]*\))*(?:[A-Za-z0-9\-_~/#@$&*+=%]|\([{_IN}]*\))")
"""Characters of RFC 3986; the punctuation behind an address is the sentence's."""
_LONGEST: Final = 2_000
"""Characters; longer ones are dropped by terminals."""


def linked(text: str, style: str) -> list[tuple[str, str]]:
    """Clean text as spans, its addresses linked to themselves."""
    if "://" not in text:
        return [(text, style)]
    spans, at = [], 0
    for found in _ADDRESS.finditer(text):
        if len(found[0]) <= _LONGEST:
            spans += [(text[at : found.start()], style), (found[0], f"{style} link={found[0]}")]
            at = found.end()
    return [span for span in (*spans, (text[at:], style)) if span[0]]


def to_file(path: str, style: str, line: int | str = "") -> str:
    """The style of what names a file, linked to it."""
    return f"{style} path={quote(path, errors='replace')}#{line}"


class FileLinks(NamedTuple):
    """How files are addressed: the host says whose they are, at the other end of ssh as well."""

    host: str
    folder: str
    with_lines: bool
    """Whether the terminal takes a line behind the path; to others it would be part of the name."""

    def address(self, path: str) -> str:
        """The address of a `PATH#LINE` as `to_file` writes it."""
        path, _, line = path.partition("#")
        whole = path if path.startswith("/") else f"{self.folder}/{path}"
        return f"file://{self.host}{whole}{f'#{line}' if line and self.with_lines else ''}"


def file_links(folder: Path, host: str, environ: Mapping[str, str]) -> FileLinks:
    """Links to what is named relative to a folder, as this terminal takes them."""
    is_kitty = "KITTY_WINDOW_ID" in environ or environ.get("TERM") == "xterm-kitty"
    is_iterm = "iTerm" in environ.get("LC_TERMINAL", environ.get("TERM_PROGRAM", ""))
    return FileLinks(quote(host), quote(str(folder.absolute()), errors="replace"), is_kitty or is_iterm)
