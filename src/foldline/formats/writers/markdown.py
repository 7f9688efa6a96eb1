"""A session as Markdown that one likes to read, and that can be pasted into an issue.

Prompts are headings with a quote, answers stand as they are, tool calls are one line with their output folded
away. Nothing foreign leaves its place: `markdown_text` makes sure.
"""

from collections.abc import Iterator
from html import escape
from typing import assert_never

from foldline.protocol import ImagePart, TextPart, ThinkingPart

from ..writing import Exported, Original
from .markdown_text import code_span, contained, escaped, fenced, quoted
from .page import page_of
from .page_image import image_words
from .page_items import Folded, Item, Marked, Page, Place, Said, Used
from .page_text import first_line

_SHORT_OUTPUT = 5
"""Lines of an output that is shown without being opened."""
_SHORT_DIFF = 60


def write_markdown(original: Original) -> Exported:
    """One document. Images are named, not shown: where Markdown is pasted, they are not displayed anyway."""
    page = page_of(original)
    text = "\n\n".join(block.strip("\n") for block in _blocks(page)) + "\n"
    name = f"{original.header.id}.md"
    images = sum(len(_images(item)) for item in page.items)
    note = f"{images} image{' is' if images == 1 else 's are'} named in the text, not shown."
    return Exported(files={name: text.encode()}, main=name, notes=(note,) if images else ())


def _images(item: Item) -> tuple[ImagePart, ...]:
    match item:
        case Said():
            return tuple(piece for piece in item.pieces if isinstance(piece, ImagePart))
        case Used():
            return item.images
        case _:
            return ()


def _blocks(page: Page) -> Iterator[str]:
    yield f"# {escaped(page.title)}"
    folder = [code_span(page.folder)] if page.folder else []
    yield " · ".join([*folder, *map(escaped, page.facts)])
    for item in page.items:
        match item:
            case Said():
                yield from _said(item)
            case Used():
                yield from _used(item)
            case Folded():
                yield f"---\n\n**{escaped(item.words)}**{_when(item.place)}"
                if item.summary:
                    yield _details("Summary", contained(item.summary))
                yield "---"
            case Marked():
                yield from _marked(item)
            case _:
                assert_never(item)


def _said(item: Said) -> Iterator[str]:
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


def _used(item: Used) -> Iterator[str]:
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


def _bare(item: Used) -> str:
    subject = f" {code_span(item.subject)}" if item.subject else ""
    outcome = f" · {escaped(item.outcome)}" if item.outcome else ""
    return f"**{escaped(item.name)}**{subject}{outcome}{_altered(item.place)}"


def _marked(item: Marked) -> Iterator[str]:
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
    """The same for what tools gave, where it is not what the fold below says of everything."""
    return "" if place.fate == "summarised" else _fate(place)


def _image(image: ImagePart) -> str:
    return f"*{escaped(image_words(image))}*"


def _details(summary: str, body: str) -> str:
    """`summary` is HTML on one line, `body` Markdown that is contained."""
    return f"<details><summary>{summary}</summary>\n\n{body}\n\n</details>"
