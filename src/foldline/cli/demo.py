"""`foldline demo`: the guided tour."""

import sys
from pathlib import Path

from .arguments import UsageError
from .keys import check_chosen_keys, use_chosen_keys
from .themes import dress


def run(theme: str | None) -> int:
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError("The demo needs a terminal.")
    from foldline.tui.demo import DemoApp
    from foldline.tui.terminal.app import run_app

    check_chosen_keys()
    use_chosen_keys()
    app = DemoApp(Path.cwd())
    dress(app, theme)
    run_app(app)
    if app.failure is not None:
        from .output import note

        note(app.failure)
        return 1
    return app.return_code or 0
