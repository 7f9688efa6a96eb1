"""Skills: `SKILL.md` by the convention of agentskills.io, and how the model is told of them.

What the convention's own validator refuses is refused here. Beyond it, fields that only some agents know do
no harm, and lists may be written as `[a, b]`: both are common.
"""

import os
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Final

from foldline.context.digest import clip
from foldline.context.harmless import clean_line
from foldline.context.tokens import estimate_tokens
from foldline.data import real_path
from foldline.protocol import DeveloperMessage, text_parts

from .discovery import Custom, front_matter

_MOST_NAME, _MOST_DESCRIPTION, _MOST_COMPATIBILITY = 64, 1024, 500
"""Characters, as the convention has it."""
SOURCE: Final = "skills"
"""What the notice of skills that came during a session calls itself."""


@lru_cache(maxsize=512)
def parsed_skill(data: bytes, parts: Sequence[str]) -> Custom:
    """The skill of a `SKILL.md` whose folder has this name.

    Raises:
        ValueError: it is no skill; why, as the end of a sentence.
    """
    fields, body = front_matter(data.decode("utf-8", "replace"))
    if fields is None:
        raise ValueError("it does not begin with front matter")
    name = unicodedata.normalize("NFKC", _text(fields, "name", _MOST_NAME))
    if name != name.lower() or not all(sign.isalnum() or sign == "-" for sign in name):
        raise ValueError(f"its name {name!r} has other signs than small letters, digits and hyphens")
    if name.startswith("-") or name.endswith("-") or "--" in name:
        raise ValueError(f"its name {name!r} has a hyphen at an end, or two together")
    if unicodedata.normalize("NFKC", parts[-1]) != name:
        raise ValueError(f"its name {name!r} is not that of its folder, {parts[-1]!r}")
    description = _text(fields, "description", _MOST_DESCRIPTION)
    if fields.get("compatibility"):
        _text(fields, "compatibility", _MOST_COMPATIBILITY)
    hidden = str(fields.get("disable-model-invocation")).lower() == "true"
    return Custom("skills", name, clean_line(description), body, for_model=not hidden)


def _text(fields: Mapping[str, object], name: str, most: int) -> str:
    given = fields.get(name, "")
    if not isinstance(given, str) or not given.strip():
        raise ValueError(f"it has no {name}")
    if len(given.strip()) > most:
        raise ValueError(f"its {name} has more than {most:,} characters")
    return given.strip()


def skill_message(skill: Custom) -> DeveloperMessage:
    """What the model reads once a skill is loaded. Its folder is named without links: one in Foldline's own
    folder leads nowhere in the sandbox."""
    folder = os.fsencode(real_path(skill.path.parent)).decode("utf-8", "replace")
    text = (
        f"The skill {skill.name} is loaded: follow it in what it is about. Its relative paths begin in "
        f"{folder}: `read` shows the files there, `bash` runs the scripts.\n\n{skill.body}"
    )
    return DeveloperMessage(origin="skill", source=skill.shown, parts=text_parts(text))


# --- the list ---------------------------------------------------------------------------------------------

_MOST_LISTED: Final = 200
_LEAST_ROOM, _MOST_ROOM, _SHARE = 256, 4_000, 32
"""Tokens for the list in the smallest windows and the largest, and the part of a window between them."""
_WIDTHS: Final = (_MOST_DESCRIPTION, 400, 160, 60, 0)
"""Characters that are left of each description until all of them fit."""
_HEAD: Final = (
    "Skills, instructions for certain tasks. Where one fits what is asked, load it with the tool `skill` "
    "before you begin:"
)
_NEW: Final = "There are skills beside those in the list, which the tool `skill` loads:"


def listing(skills: Iterable[Custom], window: int, *, head: str = _HEAD) -> str:
    """The skills by name and description, for the model, within a part of its window: where that is too
    little, descriptions are shortened, and names are all that stays. Empty without skills."""
    most = max(_LEAST_ROOM, min(_MOST_ROOM, window // _SHARE))
    listed = [skill for skill in skills if skill.for_model][:_MOST_LISTED]
    text = ""
    for width in _WIDTHS if listed else ():
        text = "\n".join([head, *(_line(skill, width) for skill in listed)])
        if estimate_tokens(text) <= most:
            break
    return text


def _line(skill: Custom, width: int) -> str:
    return f"- {skill.name}" + (f": {clip(skill.description, width)}" if width else "")


def news(skills: Iterable[Custom], said: Sequence[str], window: int) -> list[DeveloperMessage]:
    """That there are skills of which none of these texts of the view says anything."""
    listed = [skill for skill in skills if skill.for_model][:_MOST_LISTED]
    new = [s for s in listed if not any(_names(text, s.name) for text in said)]
    text = listing(new, window, head=_NEW)
    return [DeveloperMessage(source=SOURCE, parts=text_parts(text))] if text else []


def _names(text: str, name: str) -> bool:
    return re.search(rf"^- {re.escape(name)}(?::|$)", text, re.MULTILINE) is not None
