"""Writer for Markdown: for reading, and for pasting into an issue.

Prompts are quotes with a heading, answers stay as they are, and a tool call is one line that opens.
"""

import re
from collections.abc import Iterable, Iterator
from functools import cache
from html import escape
from typing import TYPE_CHECKING, Final, assert_never

from foldline.context.numbers import many
from foldline.protocol import ImagePart, TextPart, ThinkingPart

from ..export import Exported, Original
from .page import (
    ChildItem,
    EntryState,
    Item,
    MarkerItem,
    MessageItem,
    Page,
    ToolItem,
    first_line,
    image_words,
    page_of,
)

if TYPE_CHECKING:
    from markdown_it import MarkdownIt


_TICKS: Final = re.compile("`+")
_SPECIAL: Final = re.compile(r"([\\`*_\[\]<>~&#$])")
_FOLLOWS: Final = "whatfollows"
_ROUNDS: Final = 5
_LARGEST: Final = 200_000
"""Characters: a longer answer is fenced, unparsed."""


def escaped(text: str) -> str:
    """Return a text as Markdown that shows it literally."""
    return _SPECIAL.sub(r"\\\1", text)


def code_span(text: str) -> str:
    ticks = "`" * (max([0, *map(len, _TICKS.findall(text))]) + 1)
    edge = " " if text[:1] in ("`", " ", "") or text[-1:] in ("`", " ") else ""
    return f"{ticks}{edge}{text}{edge}{ticks}"


def fenced(text: str, language: str = "text") -> str:
    fence = "`" * max(3, max([0, *map(len, _TICKS.findall(text))]) + 1)
    return f"{fence}{language}\n{text.rstrip(chr(10))}\n{fence}"


def quoted(markdown: str) -> str:
    return "\n".join(f"> {line}" if line else ">" for line in markdown.split("\n"))


def contained(text: str) -> str:
    """Return Markdown without HTML and open blocks.

    HTML becomes text, and an open fence is closed. Text that is still not closed by then is fenced.
    """
    text = text.strip("\n")
    if len(text) > _LARGEST:
        return fenced(text)
    for _ in range(_ROUNDS):
        lines = _html_lines(text)
        if lines:
            text = _without_tags(text, lines)
            continue
        if _is_closed(text):
            return text
        fences = [token for token in _parser().parse(text) if token.type == "fence"]
        if not fences:
            break
        text = f"{text}\n{fences[-1].markup}"
    return fenced(text)


def _html_lines(text: str) -> set[int]:
    """Return the lines in which a parser finds HTML."""
    lines: set[int] = set()
    for token in _parser().parse(text):
        inline = any(child.type == "html_inline" for child in token.children or ())
        if token.map is not None and (token.type == "html_block" or inline):
            lines.update(range(*token.map))
    return lines


def _without_tags(text: str, numbers: set[int]) -> str:
    lines = text.split("\n")
    for number in numbers:
        if number < len(lines):
            lines[number] = re.sub(r"\\*<", r"\\<", lines[number])
    return "\n".join(lines)


def _is_closed(text: str) -> bool:
    """Return whether all blocks of this text are closed."""
    tokens = _parser().parse(f"{text}\n\n{_FOLLOWS}")
    last = [token for token in tokens if token.level == 0][-1:]
    return bool(last) and last[0].type == "paragraph_close" and tokens[-2].content == _FOLLOWS


@cache
def _parser() -> "MarkdownIt":
    from markdown_it import MarkdownIt

    return MarkdownIt("commonmark", {"html": True}).enable("table")


_SHORT_OUTPUT = 5
"""Lines of an output that is shown open."""
_SHORT_DIFF = 60


def write_markdown(original: Original) -> Exported:
    """Write one document. Images are only named."""
    page = page_of(original)
    images = sum(map(_count_images, page.items))
    notes = (f"{many(images, 'image is', 'images are')} named in the text, not shown.",) if images else ()
    return Exported(f"{_document(_blocks(page))}\n".encode(), notes)


def _document(blocks: Iterable[str]) -> str:
    return "\n\n".join(block.strip("\n") for block in blocks)


def _count_images(item: Item) -> int:
    match item:
        case MessageItem() | ToolItem():
            return len(item.images)
        case ChildItem():
            return sum(map(_count_images, item.page.items))
        case _:
            return 0


def _blocks(page: Page) -> Iterator[str]:
    yield f"# {escaped(page.title)}"
    folder = [code_span(page.folder)] if page.folder else []
    yield " · ".join([*folder, *map(escaped, page.facts)])
    yield from _items(page)


def _items(page: Page) -> Iterator[str]:
    for item in page.items:
        match item:
            case MessageItem(voice="prompt" | "answer"):
                yield from _spoken(item)
            case MessageItem():
                words = escape(f"{item.title}: {first_line(item.text, 80)}") + _fate(item.entry)
                yield _details(words, fenced(item.text))
                yield from map(_image, item.images)
            case ToolItem():
                yield from _tool(item)
            case MarkerItem():
                yield from _marker(item)
            case ChildItem():
                yield _details(escape(item.words), _document(_items(item.page)))
            case _:
                assert_never(item)


def _spoken(item: MessageItem) -> Iterator[str]:
    """Yield a prompt or an answer."""
    if item.voice == "prompt":
        yield f"## {item.title}{_time(item.entry)}{_fate(item.entry)}"
    for piece in item.pieces:
        match piece:
            case TextPart():
                text = contained(piece.text)
                yield quoted(text) if item.voice == "prompt" else text
            case ThinkingPart():
                yield _details(f"<i>thinking: {escape(first_line(piece.text, 80))}</i>", fenced(piece.text))
            case ImagePart():
                yield _image(piece)


def _tool(item: ToolItem) -> Iterator[str]:
    arguments = fenced(item.arguments, "json") if item.shows_arguments or not item.subject else ""
    diff = fenced(item.diff, "diff") if item.diff else ""
    output = fenced(item.output) if item.output and not diff else ""
    state = "" if item.entry.fate == "summarised" else _fate(item.entry)  # the compaction says so for all
    subject = f" {code_span(item.subject)}" if item.subject else ""
    outcome = f" · {escaped(item.outcome)}" if item.outcome else ""
    line = f"**{escaped(item.name)}**{subject}{outcome}{state}"
    if diff and item.diff.count("\n") < _SHORT_DIFF:
        yield line
        yield diff
    elif output and item.output.count("\n") < _SHORT_OUTPUT:
        yield line
        if arguments:
            yield _details("arguments", arguments)
        yield output
    elif body := _document(filter(None, (arguments, diff, output, *map(_image, item.images)))):
        subject = f" <code>{escape(item.subject)}</code>" if item.subject else ""
        outcome = f" · {escape(item.outcome)}" if item.outcome else ""
        yield _details(f"<b>{escape(item.name)}</b>{subject}{outcome}{state}", body)
    else:
        yield line


def _marker(item: MarkerItem) -> Iterator[str]:
    words = escaped(item.words)
    time = _time(item.entry)
    match item.level:
        case "compaction" | "rule":
            yield f"---\n\n**{words}**{time}"
        case "alert":
            yield f"**✗ {words}**{time}"
        case "info":
            yield f"*{words}*"
    if item.text and item.level == "compaction":
        yield _details("Summary", contained(item.text))
    elif item.text:
        yield fenced(item.text)
    if item.level in ("compaction", "rule"):
        yield "---"


def _time(entry: EntryState) -> str:
    return f" · {entry.time}" if entry.time else ""


def _fate(entry: EntryState) -> str:
    """Return the entry's state, unless the model sees it verbatim."""
    pinned = " · pinned" if entry.pinned else ""
    return pinned if entry.fate in ("live", "aside") else f"{pinned} · {entry.fate}"


def _image(image: ImagePart) -> str:
    return f"*{escaped(image_words(image))}*"


def _details(summary: str, body: str) -> str:
    """Return a collapsed block of `summary` (HTML) and `body` (Markdown)."""
    return f"<details><summary>{summary}</summary>\n\n{body}\n\n</details>"
