"""Picture files that a prompt names: pasted or dragged paths, and `@shot.png`. Blocks: for threads."""

import re
import shlex
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote, urlsplit

from foldline.files import is_file, read_regular

if TYPE_CHECKING:
    from foldline.protocol import ImagePart

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
    from foldline.agent.tools.pictures import LARGEST, picture, too_large
    from foldline.protocol import FoldlineError

    try:
        known = path.stat()
        if not stat.S_ISREG(known.st_mode):
            raise FoldlineError(f"{path.name} is no file.")
        if known.st_size >= LARGEST:
            raise too_large(path.name, known.st_size)
        found = picture(read_regular(path), path.name)
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
