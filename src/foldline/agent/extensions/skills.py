"""Skills: parses `SKILL.md` (agentskills.io), and lists skills for the model.

Rejects the same files as the specification's own validator, with two exceptions for common mistakes: unknown
fields are ignored, and lists may be written as `[a, b]`.
"""

import os
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

from foldline.agent.project.discovery import NO_FRONT_MATTER, Extension, front_matter
from foldline.data import real_path
from foldline.protocol import DeveloperMessage, text_parts
from foldline.text.harmless import clean_line
from foldline.text.shorten import clip
from foldline.view.tokens import estimate_tokens

_MOST_NAME = 64
_MOST_DESCRIPTION = 1024
_MOST_COMPATIBILITY = 500
"""Maximum lengths of a skill's name, description and compatibility, in characters.

The specification of skills sets them."""
BAD_NAME = "its name {name!r} may contain only lowercase letters, digits and hyphens"
BAD_HYPHEN = "its name {name!r} begins or ends with a hyphen, or has two in a row"
OTHER_NAME = "its name {name!r} differs from the name of its folder, {folder!r}"
NO_FIELD = "it has no {name}"
LONG_FIELD = "its {name} has more than {most:,} characters"
SOURCE = "skills"
"""Source of the notice about new skills."""


@lru_cache(maxsize=512)
def parsed_skill(data: bytes, parts: Sequence[str]) -> Extension:
    """Parse a `SKILL.md`.

    Args:
        parts: parts of the path of the skill's folder. The last part must be the skill's name.

    Raises:
        ValueError: the file is not a valid skill. The message is a clause that states the reason.
    """
    fields, body = front_matter(data.decode("utf-8", "replace"))
    if fields is None:
        raise ValueError(NO_FRONT_MATTER)
    name = unicodedata.normalize("NFKC", _text_field(fields, "name", _MOST_NAME))
    if name != name.lower() or not all(
        letter.isalnum() or letter == "-" for letter in name
    ):
        raise ValueError(BAD_NAME.format(name=name))
    if name.startswith("-") or name.endswith("-") or "--" in name:
        raise ValueError(BAD_HYPHEN.format(name=name))
    if unicodedata.normalize("NFKC", parts[-1]) != name:
        raise ValueError(OTHER_NAME.format(name=name, folder=parts[-1]))
    description = _text_field(fields, "description", _MOST_DESCRIPTION)
    if fields.get("compatibility"):
        _text_field(fields, "compatibility", _MOST_COMPATIBILITY)
    is_hidden = str(fields.get("disable-model-invocation")).lower() == "true"
    return Extension(
        "skills",
        name,
        clean_line(description),
        body,
        for_model=not is_hidden,
    )


def _text_field(fields: Mapping[str, object], name: str, most: int) -> str:
    value = fields.get(name, "")
    if not isinstance(value, str) or not value.strip():
        raise ValueError(NO_FIELD.format(name=name))
    if len(value.strip()) > most:
        raise ValueError(LONG_FIELD.format(name=name, most=most))
    return value.strip()


def skill_message(skill: Extension) -> DeveloperMessage:
    """Return the message that loads a skill.

    The message contains the resolved path of the skill's folder, because links in Foldline's own folder
    cannot be followed in the sandbox.
    """
    folder = os.fsencode(real_path(skill.path.parent)).decode("utf-8", "replace")
    text = (
        f"The skill {skill.name} is loaded. Follow it for tasks that it covers. Its relative paths start in "
        f"{folder}: `read` shows the files there, `bash` runs the scripts.\n\n{skill.body}"
    )
    return DeveloperMessage(origin="skill", source=skill.shown, parts=text_parts(text))


# --- the list ---------------------------------------------------------------------------------------------

_MOST_LISTED = 200
_LEAST_ROOM = 256
"""Tokens that the list of skills may always take, however small the window is."""
_MOST_ROOM = 4_000
"""Maximum size of the list of skills in the largest windows, in tokens."""
_SHARE = 32
"""In other windows, the maximum is the window's size divided by this number."""
_WIDTHS = (_MOST_DESCRIPTION, 400, 160, 60, 0)
"""Maximum length of each description, in characters.

The values are tried in order until the list fits.
"""
_HEAD = (
    "Skills are instructions for certain tasks. If one fits the request, load it with the `skill` tool "
    "before you begin:"
)
_NEW = "More skills are available now. The `skill` tool loads them:"


def listing(skills: Iterable[Extension], window: int, *, head: str = _HEAD) -> str:
    """List skills for the model, within a share of the model's window.

    Returns an empty string if there are no skills. If the list is too long, its descriptions are shortened,
    or only the names remain.

    Args:
        window: the model's window in tokens.
    """
    listed = _listed(skills)
    if not listed:
        return ""
    most = max(_LEAST_ROOM, min(_MOST_ROOM, window // _SHARE))
    text = ""
    for width in _WIDTHS:
        text = "\n".join([head, *(_line(skill, width) for skill in listed)])
        if estimate_tokens(text) <= most:
            break
    return text


def _listed(skills: Iterable[Extension]) -> list[Extension]:
    return [skill for skill in skills if skill.for_model][:_MOST_LISTED]


def _line(skill: Extension, width: int) -> str:
    if not width:
        return f"- {skill.name}"
    return f"- {skill.name}: {clip(skill.description, width)}"


def news(
    skills: Iterable[Extension],
    texts: Sequence[str],
    window: int,
) -> list[DeveloperMessage]:
    """Return a notice about the skills that `texts` do not mention."""
    new = [
        skill
        for skill in _listed(skills)
        if not any(_lists(text, skill.name) for text in texts)
    ]
    text = listing(new, window, head=_NEW)
    return [DeveloperMessage(source=SOURCE, parts=text_parts(text))] if text else []


def _lists(text: str, name: str) -> bool:
    return re.search(rf"^- {re.escape(name)}(?::|$)", text, re.MULTILINE) is not None
