"""HTML as Markdown, as a program of its own: HTML on its input, Markdown on its output, both in UTF-8.

A process, because pages can be made on which parsers and regular expressions work for hours and hold Python's
lock: in the agent that would freeze the screen, here it is ended. Its one argument is the URL that links are
relative to.
"""

import asyncio
import re
import sys
from contextlib import suppress
from typing import TYPE_CHECKING
from urllib.parse import urljoin

from foldline.programs import python_command, trusted_environment

from .base import ToolFailure
from .process import environment
from .text import one_line

if TYPE_CHECKING:
    from bs4 import BeautifulSoup, Tag

_NOISE = (
    "script, style, template, noscript, svg, canvas, iframe, object, embed, nav, footer, aside, dialog, "
    "button, input, select, textarea, body > header, [hidden], [aria-hidden=true], [role=navigation], "
    "[role=banner], [role=search], [role=contentinfo], [role=complementary]"
)
_MAIN = "main, [role=main], article"
_LEAST = 200
"""Characters of what calls itself the main part, for it to be taken for all there is to read."""
_SECONDS = 15
"""How long it may take: a second or two for a large page of text, several for one large table."""
_MEMORY = 4 * 1024**3
"""Bytes of address space; what needs more has been made to."""


async def markdown_of(html: str, base: str) -> str:
    """What there is to read on a page, with links that can be fetched.

    Raises:
        ToolFailure: it cannot be converted, or not within reason.
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
        raise _not_converted(base, f"it takes longer than {_SECONDS} s") from None
    finally:
        with suppress(ProcessLookupError):
            converter.kill()
        await converter.wait()
    if converter.returncode:
        raise _not_converted(base, "it is too large or too deep, or broken")
    return text.decode()


def _not_converted(base: str, why: str) -> ToolFailure:
    return ToolFailure(
        f"{one_line(base)} cannot be turned into text, {why}: get it with `bash` and curl.",
        brief="unreadable ✗",
    )


def main() -> int:
    _bounded()
    sys.stdout.write(converted(sys.stdin.read(), sys.argv[1]))
    return 0


def _bounded() -> None:
    """Limits time and memory, also for when the agent is no longer there to end this process."""
    with suppress(ImportError, OSError, ValueError):
        import resource

        resource.setrlimit(resource.RLIMIT_CPU, (_SECONDS, _SECONDS))
        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))


def converted(html: str, base: str) -> str:
    """The Markdown of a page. Takes as long as it takes."""
    from bs4 import BeautifulSoup
    from markdownify import ATX, MarkdownConverter

    soup = BeautifulSoup(html, "html.parser")
    title = soup.title.get_text(" ", strip=True) if soup.title else ""
    part = _readable(soup)
    _absolute(part, base)
    try:
        text = MarkdownConverter(
            heading_style=ATX,
            bullets="-",
            # Code and names as they are: a model reads the text, nothing renders it.
            escape_misc=False,
            escape_asterisks=False,
            escape_underscores=False,
        ).convert_soup(part)
    except RecursionError:  # nested deeper than any page that was written for people
        text = part.get_text("\n", strip=True)
    text = "\n".join(line.rstrip(" \t") for line in text.split("\n"))
    text = re.sub(r"\n{3,}", "\n\n", text).strip()
    if title and not re.search(r"^# ", text, re.MULTILINE):
        text = f"# {one_line(title)}\n\n{text}"
    return text + "\n" if text else ""


def _readable(soup: "BeautifulSoup") -> "Tag":
    """The part that is there to be read."""
    for title in soup.find_all("title"):
        title.decompose()
    for noise in soup.select(_NOISE):
        if not noise.decomposed:
            noise.decompose()
    mains = [part for part in soup.select(_MAIN) if len(part.get_text(strip=True)) >= _LEAST]
    known = set(map(id, mains))  # tags are compared by all that is in them
    mains = [part for part in mains if not any(id(parent) in known for parent in part.parents)]
    # Several articles are a list of them, and what stands between belongs to it.
    return mains[0] if len(mains) == 1 else soup


def _absolute(part: "Tag", base: str) -> None:
    """Links that can be fetched; no scripts, and no pictures that are written out in the page."""
    for name, attribute in (("a", "href"), ("img", "src")):
        for tag in part.find_all(name):
            target = str(tag.get(attribute, ""))
            try:
                whole = urljoin(base, target)
            except ValueError:
                whole = ""
            if whole.startswith(("http://", "https://", "mailto:")):
                tag[attribute] = whole
            elif name == "img":
                tag.replace_with(str(tag.get("alt", "")))
            else:
                del tag[attribute]


if __name__ == "__main__":
    sys.exit(main())
