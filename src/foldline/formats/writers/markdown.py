"""A session as Markdown that one likes to read, and that can be pasted into an issue.

Prompts are headings with a quote, answers stand as they are, tool calls are one line with their output folded
away. Nothing foreign leaves its place: `markdown_text` makes sure.
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
    CompactionItem,
    Item,
    MarkerItem,
    MessageItem,
    Page,
    Place,
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
"""Characters; a longer answer is shown in a fence, unparsed."""


def escaped(text: str) -> str:
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
    """Markdown as somebody wrote it, but without HTML, and with every block closed at its end.

    HTML becomes text; an open fence is closed. What cannot be mended so is shown as code. The parser itself
    is asked, before and after.
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
        closing = _closing(text)
        if closing is None:
            break
        text = f"{text}\n{closing}"
    return fenced(text)


def _html_lines(text: str) -> set[int]:
    """The lines that a parser might find HTML in."""
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
    """Whether a paragraph after this text is a paragraph of the document."""
    tokens = _parser().parse(f"{text}\n\n{_FOLLOWS}")
    last = [token for token in tokens if token.level == 0][-1:]
    return bool(last) and last[0].type == "paragraph_close" and tokens[-2].content == _FOLLOWS


def _closing(text: str) -> str | None:
    """What ends the fence that the text leaves open."""
    fences = [token for token in _parser().parse(text) if token.type == "fence"]
    return fences[-1].markup if fences else None


@cache
def _parser() -> "MarkdownIt":
    from markdown_it import MarkdownIt

    return MarkdownIt("commonmark", {"html": True}).enable("table")


_SHORT_OUTPUT = 5
"""Lines of an output that is shown without being opened."""
_SHORT_DIFF = 60


def write_markdown(original: Original) -> Exported:
    """One document. Images are named, not shown: where Markdown is pasted, they are not displayed anyway."""
    page = page_of(original)
    text = _document(_blocks(page)) + "\n"
    images = sum(len(_images(item)) for item in page.items)
    note = f"{many(images, 'image is', 'images are')} named in the text, not shown."
    return Exported(text.encode(), (note,) if images else ())


def _document(blocks: Iterable[str]) -> str:
    return "\n\n".join(block.strip("\n") for block in blocks)


def _images(item: Item) -> tuple[ImagePart, ...]:
    match item:
        case MessageItem():
            return tuple(piece for piece in item.pieces if isinstance(piece, ImagePart))
        case ToolItem():
            return item.images
        case ChildItem():
            return tuple(image for each in item.page.items for image in _images(each))
        case _:
            return ()


def _blocks(page: Page) -> Iterator[str]:
    yield f"# {escaped(page.title)}"
    folder = [code_span(page.folder)] if page.folder else []
    yield " · ".join([*folder, *map(escaped, page.facts)])
    yield from _shown(page)


def _shown(page: Page) -> Iterator[str]:
    for item in page.items:
        match item:
            case MessageItem():
                yield from _said(item)
            case ToolItem():
                yield from _used(item)
            case CompactionItem():
                yield f"---\n\n**{escaped(item.words)}**{_when(item.place)}"
                if item.summary:
                    yield _details("Summary", contained(item.summary))
                yield "---"
            case MarkerItem():
                yield from _marked(item)
            case ChildItem():
                yield _details(escape(item.words), _document(_shown(item.page)))
            case _:
                assert_never(item)


def _said(item: MessageItem) -> Iterator[str]:
    if item.voice == "prompt":
        yield f"## {item.title}{_when(item.place)}{_fate(item.place)}"
    elif item.voice != "answer":
        text = "\n\n".join(piece.text for piece in item.pieces if isinstance(piece, TextPart))
        words = escape(f"{item.title}: {first_line(text, 80)}") + _fate(item.place)
        yield _details(words, fenced(text))
        yield from (_image(piece) for piece in item.pieces if isinstance(piece, ImagePart))
        return
    for piece in item.pieces:
        match piece:
            case TextPart():
                text = contained(piece.text)
                yield quoted(text) if item.voice == "prompt" else text
            case ThinkingPart():
                yield _details(f"<i>thinking: {escape(first_line(piece.text, 80))}</i>", fenced(piece.text))
            case ImagePart():
                yield _image(piece)


def _used(item: ToolItem) -> Iterator[str]:
    shown = item.output if item.output.count("\n") < _SHORT_OUTPUT and not item.diff else ""
    diff = item.diff if item.diff.count("\n") < _SHORT_DIFF else ""
    arguments = item.arguments if len(item.arguments) > len(item.subject) + 40 or not item.subject else ""
    if shown or diff:
        yield _bare(item)
        if arguments and not diff:
            yield _details("arguments", fenced(arguments, "json"))
        yield fenced(diff, "diff") if diff else fenced(shown)
        return
    words = f"<b>{escape(item.name)}</b>"
    words += f" <code>{escape(item.subject)}</code>" if item.subject else ""
    words += f" · {escape(item.outcome)}" if item.outcome else ""
    inside = [fenced(arguments, "json")] if arguments else []
    inside += [fenced(item.diff, "diff")] if item.diff else [fenced(item.output)] if item.output else []
    inside += map(_image, item.images)
    yield _details(words + _altered(item.place), "\n\n".join(inside)) if inside else _bare(item)


def _bare(item: ToolItem) -> str:
    subject = f" {code_span(item.subject)}" if item.subject else ""
    outcome = f" · {escaped(item.outcome)}" if item.outcome else ""
    return f"**{escaped(item.name)}**{subject}{outcome}{_altered(item.place)}"


def _marked(item: MarkerItem) -> Iterator[str]:
    if item.level == "rule":
        yield f"---\n\n**{escaped(item.words)}**{_when(item.place)}"
    elif item.level == "alert":
        yield f"**✗ {escaped(item.words)}**{_when(item.place)}"
    else:
        yield f"*{escaped(item.words)}*"
    if item.text:
        yield fenced(item.text)
    if item.level == "rule":
        yield "---"


def _when(place: Place) -> str:
    return f" · {place.time}" if place.time else ""


def _fate(place: Place) -> str:
    """What has become of it, in one word; nothing where the model still has it as it was."""
    pinned = " · pinned" if place.pinned else ""
    return pinned if place.fate in ("live", "aside") else f"{pinned} · {place.fate}"


def _altered(place: Place) -> str:
    """The same for what tools gave, where it is not what the compaction below says of everything."""
    return "" if place.fate == "summarised" else _fate(place)


def _image(image: ImagePart) -> str:
    return f"*{escaped(image_words(image))}*"


def _details(summary: str, body: str) -> str:
    """`summary` is HTML on one line, `body` Markdown that is contained."""
    return f"<details><summary>{summary}</summary>\n\n{body}\n\n</details>"
