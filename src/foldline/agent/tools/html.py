"""Converts HTML to Markdown in a separate process: HTML on stdin, Markdown on stdout, in UTF-8.

A malicious page can keep parsers and regular expressions busy for hours while they hold the GIL, which would
freeze the screen. A separate process can be killed. The process's only argument is the base URL for links.
"""

import asyncio
import re
import sys
from contextlib import suppress
from typing import TYPE_CHECKING
from urllib.parse import urljoin

from foldline.programs import python_command, trusted_environment
from foldline.text.harmless import escaped_line

from .base import ToolFailure
from .process import environment

if TYPE_CHECKING:
    from bs4 import BeautifulSoup, Tag

_NOISE = (
    "script, style, template, noscript, svg, canvas, iframe, object, embed, nav, footer, aside, dialog, "
    "button, input, select, textarea, body > header, [hidden], [aria-hidden=true], [role=navigation], "
    "[role=banner], [role=search], [role=contentinfo], [role=complementary]"
)
_MAIN = "main, [role=main], article"
NOT_CONVERTED = (
    "{url} cannot be converted to text, because {reason}: get it with `bash` and curl."
)
TOO_SLOW = "this takes longer than {seconds} s"
_LEAST = 200
"""Minimum length of a main element, in characters.

A shorter one is not considered the page's content.
"""
_SECONDS = 15
"""Time limit for converting a page, in seconds.

A large page takes one or two seconds, a large table several.
"""
_MEMORY = 4 * 1024**3
"""Maximum address space of the converting process, in bytes. Ordinary pages need less."""


async def markdown_of(html: str, base: str) -> str:
    """Convert the readable content of a page to Markdown with absolute links.

    Raises:
        ToolFailure: the page cannot be converted, or takes too long.
    """
    converter = await asyncio.create_subprocess_exec(
        *python_command(__name__, base),
        env=trusted_environment(environment()),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        async with asyncio.timeout(_SECONDS):
            text, _ = await converter.communicate(html.encode("utf-8", "replace"))
    except TimeoutError:
        reason = TOO_SLOW.format(seconds=_SECONDS)
        raise _not_converted(base, reason) from None
    finally:
        with suppress(ProcessLookupError):
            converter.kill()
        await converter.wait()
    if converter.returncode:
        raise _not_converted(base, "it is too large, nested too deeply, or broken")
    return text.decode()


def _not_converted(base: str, reason: str) -> ToolFailure:
    return ToolFailure(
        NOT_CONVERTED, "unreadable ✗", url=escaped_line(base), reason=reason
    )


def main() -> int:
    _limit_resources()
    sys.stdout.write(converted(sys.stdin.read(), sys.argv[1]))
    return 0


def _limit_resources() -> None:
    """Limit time and memory, in case the agent's process ends before this one."""
    with suppress(ImportError, OSError, ValueError):
        import resource

        resource.setrlimit(resource.RLIMIT_CPU, (_SECONDS, _SECONDS))
        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))


def converted(html: str, base: str) -> str:
    """Convert a page to Markdown. This may take a very long time."""
    from bs4 import BeautifulSoup
    from markdownify import ATX, MarkdownConverter

    soup = BeautifulSoup(html, "html.parser")
    title = soup.title.get_text(" ", strip=True) if soup.title else ""
    part = _readable(soup)
    _make_links_absolute(part, base)
    try:
        text = MarkdownConverter(
            heading_style=ATX,
            bullets="-",
            # Do not escape characters: code and names must stay readable, because the text is not rendered.
            escape_misc=False,
            escape_asterisks=False,
            escape_underscores=False,
        ).convert_soup(part)
    except RecursionError:  # nested deeper than any ordinary page
        text = part.get_text("\n", strip=True)
    text = "\n".join(line.rstrip(" \t") for line in text.split("\n"))
    text = re.sub(r"\n{3,}", "\n\n", text).strip()
    if title and not re.search(r"^# ", text, re.MULTILINE):
        text = f"# {escaped_line(title)}\n\n{text}"
    return text + "\n" if text else ""


def _readable(soup: "BeautifulSoup") -> "Tag":
    """Return the element that contains the page's content."""
    for title in soup.find_all("title"):
        title.decompose()
    for noise in soup.select(_NOISE):
        if not noise.decomposed:
            noise.decompose()
    mains = [
        part for part in soup.select(_MAIN) if len(part.get_text(strip=True)) >= _LEAST
    ]
    ids = set(map(id, mains))  # `==` on tags would compare their content
    mains = [
        part for part in mains if not any(id(parent) in ids for parent in part.parents)
    ]
    # Several articles form a list, to which the text between them belongs.
    return mains[0] if len(mains) == 1 else soup


def _make_links_absolute(part: "Tag", base: str) -> None:
    """Make links absolute; remove scripts, and images embedded as data URLs."""
    for name, attribute in (("a", "href"), ("img", "src")):
        for tag in part.find_all(name):
            target = str(tag.get(attribute, ""))
            try:
                url = urljoin(base, target)
            except ValueError:
                url = ""
            if url.startswith(("http://", "https://", "mailto:")):
                tag[attribute] = url
            elif name == "img":
                tag.replace_with(str(tag.get("alt", "")))
            else:
                del tag[attribute]


if __name__ == "__main__":
    sys.exit(main())
