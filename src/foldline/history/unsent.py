"""What was written and not sent when a chat ended: kept beside its events, given back when it opens again."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from foldline.files import put_private, read_regular

UNSENT: Final = "unsent.json"
"""Beside the events of a session, and gone once it was given back."""


@dataclass(frozen=True, slots=True)
class Unsent:
    """Prompts that waited, in order, and the text that was being written."""

    queued: tuple[str, ...] = ()
    draft: str = ""

    def __bool__(self) -> bool:
        return bool(self.queued or self.draft.strip())


def keep_unsent(folder: Path, unsent: Unsent) -> None:
    """Keep it in the folder of a session; nothing where the session never came to disk.

    Raises:
        OSError: the disk refused.
    """
    if unsent and folder.is_dir():
        data = json.dumps({"queued": unsent.queued, "draft": unsent.draft}, ensure_ascii=False)
        put_private(folder / UNSENT, data.encode("utf-8", "surrogatepass"))


def take_unsent(folder: Path) -> Unsent:
    """What was kept there, once. A file that is none of ours gives nothing, and stays."""
    path = folder / UNSENT
    try:
        kept = json.loads(read_regular(path))
        queued, draft = kept["queued"], kept["draft"]
        unsent = Unsent(tuple(map(str, queued)), str(draft))
        path.unlink()
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return Unsent()
    return unsent
