"""`foldline open`: the inspector on any session, read-only."""

import sys

from .arguments import UsageError
from .sources import read_source
from .themes import dress


def run(source: str, format_name: str | None, theme: str | None) -> int:
    found = read_source(source, format_name)
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError(
            "The inspector needs a terminal: `foldline view` and `foldline history` work without one."
        )
    from foldline.tui.inspector.app import InspectorApp

    app = InspectorApp(found.session(), found.name)
    dress(app, theme)
    app.run()
    return app.return_code or 0
