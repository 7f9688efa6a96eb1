"""A question on the terminal, for what costs money or cannot be undone."""

import sys

from foldline.context.harmless import with_signs
from foldline.protocol import FoldlineError


def confirmed(question: str, *, yes: bool, how: str) -> bool:
    """Whether to go on: a key pressed, or said beforehand by an option. `how` names the option.

    Raises:
        FoldlineError: nobody is there to be asked, and nothing was said beforehand.
    """
    if yes:
        return True
    if not sys.stdin.isatty():
        raise FoldlineError(f"{question} Nobody is there to be asked: {how} says yes beforehand.")
    sys.stderr.write(f"{with_signs(question)} [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")
