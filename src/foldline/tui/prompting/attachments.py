"""What placeholders in prompts stand for: pictures, and pastes too long to be shown.

A prompt is a plain text wherever it waits, is edited, recalled or given back. Only where it is sent does
somebody ask here what is behind `[picture 1: shot.png 640×480]` or `[pasted 120 lines, 4.1k characters]`.
A placeholder that was changed by hand is text like any other.
"""

import asyncio
import re
import shlex
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote, urlsplit

from foldline.context.harmless import clean, clean_line
from foldline.context.numbers import many
from foldline.files import is_file, read_regular
from foldline.tui.prompting.completion import Start
from foldline.tui.widgets.fields import Editor

if TYPE_CHECKING:
    from foldline.protocol import BaseMessage, ImagePart, Part


LONG_LINES: Final = 20
LONG_CHARACTERS: Final = 2_000
"""A paste with more lines or characters than that becomes a placeholder."""
_NAME: Final = 40
"""Characters of a picture's name that are shown."""

_PLACEHOLDER: Final = re.compile(r"\[(?:picture (\d+): [^\[\]\n]+|pasted [^\[\]\n]+)\]")


def is_long(text: str) -> bool:
    """Whether a paste would push everything else out of the prompt."""
    return len(text) > LONG_CHARACTERS or text.count("\n") >= LONG_LINES


class Attachments:
    """The pictures and pastes of one program run, kept to its end: any earlier prompt may be recalled."""

    def __init__(self) -> None:
        self._pictures: dict[str, ImagePart] = {}
        self._pastes: dict[str, str] = {}

    # --- attaching -------------------------------------------------------------------------------------

    def paste(self, text: str) -> str:
        """The placeholder of a pasted text; the same text has the same one."""
        lines = text.count("\n") + (not text.endswith("\n"))
        shown = f"pasted {many(lines, 'line')}, {_thousands(len(text))} characters"
        number, placeholder = 1, f"[{shown}]"
        while self._pastes.setdefault(placeholder, text) != text:
            number += 1
            placeholder = f"[{shown}, {number}]"
        return placeholder

    def picture(self, name: str, part: "ImagePart") -> str:
        """The placeholder of a picture; `name` is what people know it by."""
        shown = re.sub(r"[\[\]]", "", clean_line(name)) or "picture"
        shown = shown if len(shown) <= _NAME else f"…{shown[1 - _NAME :]}"
        size = f" {part.width}×{part.height}" if part.width and part.height else ""
        numbers = (int(found[1]) for each in self._pictures if (found := _PLACEHOLDER.fullmatch(each)))
        placeholder = f"[picture {max(numbers, default=0) + 1}: {shown}{size}]"
        self._pictures[placeholder] = part
        return placeholder

    async def picture_in(self, path: Path) -> str:
        """The placeholder of the picture in a file.

        Raises:
            FoldlineError: it cannot be taken.
        """
        return self.picture(path.name, await asyncio.to_thread(read_picture, path))

    def remember(self, message: "BaseMessage") -> None:
        """Take over the pictures of an earlier prompt, so that it can be recalled with them."""
        from foldline.protocol import ImagePart

        named = (found[0] for found in _PLACEHOLDER.finditer(message.text) if found[1])
        images = (part for part in message.parts if isinstance(part, ImagePart))
        self._pictures.update(zip(dict.fromkeys(named), images, strict=False))

    # --- asking ----------------------------------------------------------------------------------------

    def parts(self, text: str) -> "tuple[Part, ...]":
        """What the model is sent for a prompt: pastes in full, pictures behind the text that names them."""
        from foldline.protocol import text_parts

        return (*text_parts(self.opened(text)), *self.pictures_in(text))

    def pictures_in(self, text: str) -> "tuple[ImagePart, ...]":
        """The pictures a prompt names, each once, in order."""
        named = dict.fromkeys(found[0] for found in _PLACEHOLDER.finditer(text))
        return tuple(self._pictures[name] for name in named if name in self._pictures)

    def opened(self, text: str) -> str:
        """The text with every paste in full."""
        return _PLACEHOLDER.sub(lambda found: self._pastes.get(found[0], found[0]), text)

    def beside(self, line: str, column: int, *, back: bool) -> tuple[int, int] | None:
        """(start, end) of the placeholder that ends at a column (`back`) or begins there: it is deleted as
        one."""
        for found in _PLACEHOLDER.finditer(line):
            if found.span()[back] == column and (found[0] in self._pictures or found[0] in self._pastes):
                return found.span()
        return None


def detached(text: str) -> str:
    """A prompt of another session, whose pictures stay there: what named them no longer looks attached."""
    return _PLACEHOLDER.sub(lambda found: f"({found[0][1:-1]})" if found[1] else found[0], text)


def named_pictures(text: str) -> list[str]:
    """The pictures a sent prompt names, as `shot.png 640×480`: these need not be named behind it again."""
    named = dict.fromkeys(found[0] for found in _PLACEHOLDER.finditer(text) if found[1])
    return [name[1:-1].partition(": ")[2] for name in named]


def _thousands(count: int) -> str:
    return (
        str(count) if count < 1_000 else f"{count / 1_000:.1f}k" if count < 999_950 else f"{count / 1e6:.2f}M"
    )


_MOST: Final = 10
"""Paths in one paste that are taken for pictures."""
_LONGEST: Final = 8_000
"""Characters of a paste that is looked at for paths."""
_ENDINGS: Final = r"(?:png|jpe?g|gif|webp)"
_NAMED: Final = re.compile(rf"(?:^|(?<=[\s(\[{{\"'，。：（]))@(\S+\.{_ENDINGS})(?![\w/.-])", re.IGNORECASE)
_ENDS: Final = re.compile(rf".+\.{_ENDINGS}", re.IGNORECASE | re.DOTALL)


def pasted_paths(pasted: str, root: Path) -> tuple[Path, ...]:
    """The picture files a paste consists of: one or several paths, quoted, with escaped blanks or as `file://`.
    None where it is anything else, or one of them does not exist."""
    text = pasted.strip()
    if not text or len(text) > _LONGEST or not _ENDS.fullmatch(text.strip("'\"")):
        return ()
    whole = _path(text, root)
    if is_file(whole):
        return (whole,)  # a path with blanks that nobody escaped
    try:
        words = shlex.split(text)
    except ValueError:
        return ()
    paths = tuple(_path(word, root) for word in words[: _MOST + 1])
    fits = len(paths) <= _MOST and all(_ENDS.fullmatch(path.name) and is_file(path) for path in paths)
    return paths if fits else ()


def named_paths(text: str, root: Path) -> list[tuple[str, Path]]:
    """(`@` word, path) of each picture file that a prompt names."""
    words = dict.fromkeys(found[1] for found in _NAMED.finditer(text))
    return [(f"@{word}", path) for word in words if is_file(path := _path(word, root))]


def names_pictures(text: str) -> bool:
    """Whether a prompt may name picture files: a quick look, without the disk."""
    return _NAMED.search(text) is not None


def read_picture(path: Path) -> "ImagePart":
    """The picture a file holds.

    Raises:
        FoldlineError: it cannot be read, is none, or is too large.
    """
    from foldline.agent.tools.images import LARGEST, image_part, too_large
    from foldline.protocol import FoldlineError

    try:
        known = path.stat()
        if not stat.S_ISREG(known.st_mode):
            raise FoldlineError(f"{path.name} is no file.")
        if known.st_size >= LARGEST:
            raise too_large(path.name, known.st_size)
        found = image_part(read_regular(path), path.name)
    except OSError as error:
        raise FoldlineError(f"{path.name} cannot be read: {error.strerror or error}.") from None
    if found is None:
        raise FoldlineError(f"{path.name} is no picture that models take (PNG, JPEG, GIF, WebP).")
    return found


def _path(word: str, root: Path) -> Path:
    if word.startswith("file://"):
        word = unquote(urlsplit(word).path)
    path = Path(word)
    try:
        return root / path.expanduser()
    except RuntimeError:  # nobody has this home
        return root / path


MOST: Final = 16_000_000
"""Characters of a paste that are taken."""
_PIECE: Final = 64_000
"""Characters that are cleaned at a time: a few milliseconds."""


async def pasted(text: str, root: Path | None, attachments: Attachments) -> str:
    """What goes into the prompt for a paste; other things may run before it is done.

    Raises:
        FoldlineError: it is a picture that cannot be taken, or far too long.
    """
    if len(text) > MOST:
        from foldline.protocol import FoldlineError

        raise FoldlineError(f"That is {len(text):,} characters, and {MOST:,} are taken: have a file read.")
    paths = () if root is None else await asyncio.to_thread(pasted_paths, text, root)
    if paths:
        return " ".join([await attachments.picture_in(path) for path in paths]) + " "
    cleaned = []
    for piece in _pieces(text):
        cleaned.append(clean(piece))
        await asyncio.sleep(0)
    harmless = "".join(cleaned)
    return attachments.paste(harmless) if is_long(harmless) else harmless


def _pieces(text: str) -> Iterator[str]:
    """The text in pieces that end with a line where they can: a CR LF is not torn."""
    start = 0
    while start < len(text):
        end = text.rfind("\n", start, start + _PIECE) + 1 or start + _PIECE
        yield text[start:end]
        start = end


_EDITABLE = 20_000
"""Characters of a text that comes back into the editor as it is; what is longer comes as a paste."""


class PromptAttachments:
    """Attaches to the text in the editor. `refuse` says in a sentence why something was not taken; `start`
    runs something in the background."""

    def __init__(self, root: Path | None, refuse: Callable[[str], None], start: Start) -> None:
        self.attachments = Attachments()
        self.editor: Editor
        self._root = root
        self._refuse = refuse
        self._start = start
        self._warned_of: str | None = None
        """A text whose pictures the model is known not to take, as was said."""

    def put(self, text: str) -> None:
        """Make this the text of the editor. One that is too long to be edited there becomes a paste."""
        self.editor.put(text if len(text) <= _EDITABLE else self.attachments.paste(text))

    async def take_paste(self, text: str) -> str:
        """What goes in for a paste; nothing where it is refused."""
        from foldline.protocol import FoldlineError

        try:
            return await pasted(text, self._root, self.attachments)
        except FoldlineError as failure:
            self._refuse(str(failure))
            return ""

    def paste_picture(self) -> None:
        """Attach the picture in the system's clipboard."""
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
        """Attach the pictures that the text names now, where it names any."""
        if names_pictures(self.editor.text):
            self._start(self.attach_named)

    async def attach_named(self) -> bool:
        """Put placeholders for the picture files the text names; False where one is refused."""
        text = self.editor.text
        if self._root is None or not names_pictures(text):
            return True
        from foldline.protocol import FoldlineError

        attached = text
        try:
            for word, path in await asyncio.to_thread(named_paths, text, self._root):
                attached = attached.replace(word, await self.attachments.picture_in(path))
        except FoldlineError as failure:
            self._refuse(str(failure))
            return False
        if attached != text and self.editor.text == text:
            self.editor.put(attached)
        return True

    def delete_placeholder(self, back: bool) -> bool:
        """Delete the placeholder before the cursor, or behind it, as one sign; False where there is none."""
        if self.editor.selected_text:
            return False
        line, column = self.editor.cursor_location
        place = self.attachments.beside(self.editor.document.get_line(line), column, back=back)
        if place is not None:
            self.editor.replace("", (line, place[0]), (line, place[1]))
        return place is not None

    def in_vain(self, text: str, model: str) -> bool:
        """Whether a prompt holds pictures that its model is known not to take. Said once a text."""
        if self._warned_of == text or not self.attachments.pictures_in(text):
            return False
        from foldline.llm.models import takes_pictures

        if takes_pictures(model) is not False:
            return False
        self._warned_of = text
        self._refuse(f"{model} takes no pictures: /model switches, Enter again sends them all the same")
        return True
