"""Attachments of prompts: images, and pastes that are too long to show.

A prompt is plain text with placeholders, `[picture 1: shot.png 640×480]` or `[pasted 120 lines, 4.1k
characters]`. On sending, each placeholder is replaced by its content. An edited placeholder is plain text.
"""

import asyncio
import re
import shlex
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote, urlsplit

from foldline.files import is_file, read_regular
from foldline.text.harmless import clean, clean_line
from foldline.text.numbers import many
from foldline.tui.look.fields import Editor

if TYPE_CHECKING:
    from foldline.protocol import BaseMessage, ImagePart, Part, TextPart
    from foldline.tui.prompting.file_finder import Start

LONG_LINES: Final = 20
"""Minimum number of line breaks in a paste that is replaced by a placeholder."""
LONG_CHARACTERS: Final = 2_000
"""Maximum length, in characters, of a paste that is inserted as text. Longer ones become placeholders."""
_NAME: Final = 40
"""Maximum length of an image's name in a placeholder.

The start of a longer name is cut off.
"""

_PLACEHOLDER: Final = re.compile(r"\[(?:picture (\d+): [^\[\]\n]+|pasted [^\[\]\n]+)\]")


def is_long(text: str) -> bool:
    """Whether pasted text is so long that a placeholder replaces it."""
    return len(text) > LONG_CHARACTERS or text.count("\n") >= LONG_LINES


class Attachments:
    """Images and pasted texts, by placeholder.

    They are kept until the program exits, because a prompt that contains them may be recalled.
    """

    def __init__(self) -> None:
        self._pictures: dict[str, ImagePart] = {}
        self._pastes: dict[str, str] = {}
        self._piped: dict[str, TextPart] = {}
        """Piped input of earlier prompts, by its text."""

    # --- attaching -------------------------------------------------------------------------------------

    def paste(self, text: str) -> str:
        """Store pasted text, and return its placeholder.

        Equal pastes share a placeholder.
        """
        lines = text.count("\n") + (not text.endswith("\n"))
        label = f"pasted {many(lines, 'line')}, {_thousands(len(text))} characters"
        number = 1
        placeholder = f"[{label}]"
        while self._pastes.setdefault(placeholder, text) != text:
            number += 1
            placeholder = f"[{label}, {number}]"
        return placeholder

    def picture(self, name: str, part: "ImagePart") -> str:
        """Store an image, and return its placeholder with this name."""
        label = re.sub(r"[\[\]]", "", clean_line(name)) or "picture"
        if len(label) > _NAME:
            label = f"…{label[1 - _NAME :]}"
        size = f" {part.width}×{part.height}" if part.width and part.height else ""
        matches = map(_PLACEHOLDER.fullmatch, self._pictures)
        number = max((int(match[1]) for match in matches if match), default=0) + 1
        placeholder = f"[picture {number}: {label}{size}]"
        self._pictures[placeholder] = part
        return placeholder

    async def picture_in(self, path: Path) -> str:
        """Read an image file, and return the placeholder of the image.

        Raises:
            FoldlineError: the image cannot be read.
        """
        return self.picture(path.name, await asyncio.to_thread(read_picture, path))

    def remember(self, message: "BaseMessage") -> None:
        """Add the images and the piped input of an earlier prompt.

        If the prompt is recalled, they are sent with it again.
        """
        from foldline.protocol import ImagePart, UserMessage

        names = (match[0] for match in _PLACEHOLDER.finditer(message.text) if match[1])
        images = (part for part in message.parts if isinstance(part, ImagePart))
        self._pictures.update(zip(dict.fromkeys(names), images, strict=False))
        if isinstance(message, UserMessage):
            piped = (part for part in message.attached if part.origin == "piped")
            self._piped.update((part.text, part) for part in piped)

    # --- expanding -------------------------------------------------------------------------------------

    def parts(self, text: str) -> "tuple[Part, ...]":
        """Return the message parts for a prompt.

        They are the text with all pastes expanded, then the images. Piped input at the end of a recalled
        prompt is a part of its own, as it was before.
        """
        from foldline.protocol import text_parts

        images = self.pictures_in(text)
        for piped in self._piped.values():
            if text.endswith(f"\n{piped.text}"):
                typed = text[: -len(piped.text) - 1]
                return (*text_parts(self.expand(typed)), piped, *images)
        return (*text_parts(self.expand(text)), *images)

    def pictures_in(self, text: str) -> "tuple[ImagePart, ...]":
        """Return the images whose placeholders are in the text, in order and without duplicates."""
        names = dict.fromkeys(match[0] for match in _PLACEHOLDER.finditer(text))
        return tuple(self._pictures[name] for name in names if name in self._pictures)

    def expand(self, text: str) -> str:
        """Return the text with each placeholder of a paste replaced by the pasted text."""
        return _PLACEHOLDER.sub(
            lambda match: self._pastes.get(match[0], match[0]), text
        )

    def placeholder_at(
        self, line: str, column: int, *, back: bool
    ) -> tuple[int, int] | None:
        """Return the range of the placeholder at `column`, or None.

        It starts there or, with `back`, ends there.
        """
        for match in _PLACEHOLDER.finditer(line):
            if match.span()[back] == column and (
                match[0] in self._pictures or match[0] in self._pastes
            ):
                return match.span()
        return None


def detach_pictures(text: str) -> str:
    """Return the text with image placeholders rewritten as plain text, `(picture …)`.

    Used for text from another session, because that session's images are not available here.
    """
    return _PLACEHOLDER.sub(
        lambda match: f"({match[0][1:-1]})" if match[1] else match[0], text
    )


def named_pictures(text: str) -> list[str]:
    """Return the labels of the images in a sent prompt, such as `shot.png 640×480`."""
    names = dict.fromkeys(match[0] for match in _PLACEHOLDER.finditer(text) if match[1])
    return [name[1:-1].partition(": ")[2] for name in names]


def _thousands(count: int) -> str:
    if count < 1_000:
        return str(count)
    return f"{count / 1_000:.1f}k" if count < 999_950 else f"{count / 1e6:.2f}M"


_MOST: Final = 10
"""Maximum number of image paths in a paste.

A paste with more paths is inserted as text.
"""
_LONGEST: Final = 8_000
"""Maximum length, in characters, of a paste that is parsed as paths."""
_ENDINGS: Final = r"(?:png|jpe?g|gif|webp)"
_NAMED: Final = re.compile(
    rf"(?:^|(?<=[\s(\[{{\"'，。：（]))@(\S+\.{_ENDINGS})(?![\w/.-])", re.IGNORECASE
)
_ENDS: Final = re.compile(rf".+\.{_ENDINGS}", re.IGNORECASE | re.DOTALL)


def pasted_paths(pasted: str, root: Path) -> tuple[Path, ...]:
    """Parse a paste that consists of paths of image files.

    Paths may be quoted, contain escaped spaces, or be `file://` URLs. Returns an empty tuple if the paste
    contains anything else, or if a file does not exist.
    """
    text = pasted.strip()
    if len(text) > _LONGEST or not _ENDS.fullmatch(text.strip("'\"")):
        return ()
    path = _path(text, root)
    if is_file(path):
        return (path,)  # spaces in a single path need no escape
    try:
        words = shlex.split(text)
    except ValueError:
        return ()
    if len(words) > _MOST:
        return ()
    paths = tuple(_path(word, root) for word in words)
    return (
        paths
        if all(_ENDS.fullmatch(path.name) and is_file(path) for path in paths)
        else ()
    )


def named_paths(text: str, root: Path) -> list[tuple[str, Path]]:
    """Return the image files that a prompt names.

    Each one is given by its `@` word and its path.
    """
    words = dict.fromkeys(match[1] for match in _NAMED.finditer(text))
    return [(f"@{word}", path) for word in words if is_file(path := _path(word, root))]


def names_pictures(text: str) -> bool:
    """Whether a prompt may name image files.

    Does not access the disk.
    """
    return _NAMED.search(text) is not None


NO_FILE: Final = "{name} is not a file."
UNREADABLE: Final = "{name} cannot be read: {reason}."
NO_PICTURE: Final = (
    "{name} has no image format that models accept (PNG, JPEG, GIF, WebP)."
)


def read_picture(path: Path) -> "ImagePart":
    """Read an image file.

    Raises:
        FoldlineError: the file cannot be read, is not an image, or is too large.
    """
    from foldline.agent.tools.images import LARGEST, image_part, too_large
    from foldline.protocol import FoldlineError

    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise FoldlineError(NO_FILE, name=path.name)
        if status.st_size >= LARGEST:
            raise too_large(path.name, status.st_size)
        part = image_part(read_regular(path), path.name)
    except OSError as error:
        raise FoldlineError(
            UNREADABLE, name=path.name, reason=error.strerror or error
        ) from None
    if part is None:
        raise FoldlineError(NO_PICTURE, name=path.name)
    return part


def _path(word: str, root: Path) -> Path:
    if word.startswith("file://"):
        word = unquote(urlsplit(word).path)
    path = Path(word)
    try:
        return root / path.expanduser()
    except RuntimeError:  # the home folder is unknown
        return root / path


MOST: Final = 16_000_000
"""Maximum length of a paste, in characters. A longer paste is rejected."""
PASTE_TOO_LONG: Final = (
    "The pasted text has {length:,} characters, and the limit is {most:,}. "
    "Save it as a file and ask the model to read the file."
)
_PIECE: Final = 64_000
"""Number of characters cleaned before yielding to the event loop.

Cleaning them takes a few milliseconds.
"""


async def pasted(text: str, root: Path | None, attachments: Attachments) -> str:
    """Return the text to insert for a paste.

    Yields to the event loop after each piece.

    Raises:
        FoldlineError: a pasted image cannot be read, or the text is too long.
    """
    if len(text) > MOST:
        from foldline.protocol import FoldlineError

        raise FoldlineError(PASTE_TOO_LONG, length=len(text), most=MOST)
    paths = () if root is None else await asyncio.to_thread(pasted_paths, text, root)
    if paths:
        return " ".join([await attachments.picture_in(path) for path in paths]) + " "
    pieces = []
    for piece in _pieces(text):
        pieces.append(clean(piece))
        await asyncio.sleep(0)
    cleaned = "".join(pieces)
    return attachments.paste(cleaned) if is_long(cleaned) else cleaned


def _pieces(text: str) -> Iterator[str]:
    """Split text into pieces, at line ends if possible.

    CR LF is never split.
    """
    start = 0
    while start < len(text):
        end = text.rfind("\n", start, start + _PIECE) + 1 or start + _PIECE
        yield text[start:end]
        start = end


_EDITABLE = 20_000
"""Maximum length, in characters, of text in the editor.

Longer text that is put there becomes a placeholder.
"""
TAKES_NO_PICTURES: Final = (
    "{model} does not accept images. Use /model to switch, "
    "or press Enter again to send anyway"
)


class Attacher:
    """Attaches images and pasted texts to the text in the editor."""

    def __init__(
        self, root: Path | None, refuse: Callable[[str], None], start: "Start"
    ) -> None:
        """Create an attacher. The owner sets its `editor` afterwards.

        Args:
            root: Folder that relative paths start from.
            refuse: Called with the reason why something was not attached.
            start: Runs work in the background.
        """
        self.attachments = Attachments()
        self.editor: Editor
        self._root = root
        self._refuse = refuse
        self._start = start
        self._warned_of: str | None = None
        """The text for which `refuses_pictures` last returned True."""

    def put(self, text: str) -> None:
        """Set the text of the editor.

        Long text becomes a placeholder.
        """
        self.editor.put(
            text if len(text) <= _EDITABLE else self.attachments.paste(text)
        )

    async def take_paste(self, text: str) -> str:
        """Return the text to insert for a paste.

        Returns an empty string if the paste was rejected.
        """
        from foldline.protocol import FoldlineError

        try:
            return await pasted(text, self._root, self.attachments)
        except FoldlineError as failure:
            self._refuse(str(failure))
            return ""

    def paste_picture(self) -> None:
        """Attach the image on the system clipboard."""
        self._start(self._paste_picture)

    async def _paste_picture(self) -> None:
        from foldline.protocol import FoldlineError
        from foldline.tui.terminal.clipboard import clipboard_picture

        try:
            part = await asyncio.to_thread(clipboard_picture)
        except FoldlineError as failure:
            self._refuse(str(failure))
        else:
            self.editor.insert_here(self.attachments.picture("clipboard", part))

    def attach_soon(self) -> None:
        """Start attaching the image files named in the text, in the background."""
        if names_pictures(self.editor.text):
            self._start(self.attach_named)

    async def attach_named(self) -> bool:
        """Replace the names of image files with placeholders.

        Return False if a file was rejected.
        """
        text = self.editor.text
        if self._root is None or not names_pictures(text):
            return True
        from foldline.protocol import FoldlineError

        attached = text
        try:
            for word, path in await asyncio.to_thread(named_paths, text, self._root):
                attached = attached.replace(
                    word, await self.attachments.picture_in(path)
                )
        except FoldlineError as failure:
            self._refuse(str(failure))
            return False
        if attached != text and self.editor.text == text:
            self.editor.put(attached)
        return True

    def delete_placeholder(self, back: bool) -> bool:
        """Delete the placeholder after (with `back`, before) the cursor.

        Returns:
            Whether there was a placeholder.
        """
        if self.editor.selected_text:
            return False
        line, column = self.editor.cursor_location
        span = self.attachments.placeholder_at(
            self.editor.document.get_line(line), column, back=back
        )
        if span is not None:
            self.editor.replace("", (line, span[0]), (line, span[1]))
        return span is not None

    def refuses_pictures(self, text: str, model: str) -> bool:
        """Whether to hold back a prompt because the model does not accept images.

        Returns True only once for the same text, so that sending it again succeeds.
        """
        if self._warned_of == text or not self.attachments.pictures_in(text):
            return False
        from foldline.llm.models import takes_pictures

        if takes_pictures(model) is not False:
            return False
        self._warned_of = text
        self._refuse(TAKES_NO_PICTURES.format(model=model))
        return True
