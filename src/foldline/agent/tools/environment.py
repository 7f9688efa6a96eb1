"""The environment of commands: ours, quiet, and without the keys of model providers."""

import os

from ..api_keys import secret_variables

_QUIET = {
    "TERM": "dumb",
    "NO_COLOR": "1",
    "PAGER": "cat",
    "GIT_PAGER": "cat",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_EDITOR": "true",
    "PYTHONUNBUFFERED": "1",
}
"""Nobody is there to page, to answer a question or to look at colours."""


def environment() -> dict[str, str]:
    """What a command gets. A key in it would be put into the session by whoever prints it (decision 8)."""
    secret = secret_variables()
    return {name: value for name, value in os.environ.items() if name not in secret} | _QUIET
