"""The questions' wording: prompts in files, filled in at once, so that what is put in is never filled in."""

import re

from foldline.compaction.prompts import load_prompt

_PLACE = re.compile(r"\{([a-z_]+)\}")


def worded(name: str, /, **values: str) -> str:
    """The text of `prompts/judge-<name>.md` with its places filled.

    Raises:
        FoldlineError: there is no such prompt.
    """
    return _PLACE.sub(lambda place: values.get(place[1], place[0]), load_prompt(f"judge-{name}"))
