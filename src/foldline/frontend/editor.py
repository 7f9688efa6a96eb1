"""Edits a text in the user's editor."""

import os
import shlex
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Final

NO_EDITOR: Final = "{program} was not found; set $VISUAL or $EDITOR to your editor"
EDITOR_FAILED: Final = "it exited with code {code}"


def edit_text(text: str) -> str:
    """Edit `text` in the user's editor and return the edited text.

    Blocks until the editor exits.

    Raises:
        OSError: The editor cannot be started, or the file cannot be read.
        ValueError: The editor does not exist or failed, the file is not UTF-8, or `$EDITOR` is not a valid
            command line.
    """
    command = shlex.split(os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi")
    if not command or shutil.which(command[0]) is None:
        program = command[0] if command else "it"
        raise ValueError(NO_EDITOR.format(program=program))
    with tempfile.TemporaryDirectory(prefix="foldline-") as folder:
        path = Path(folder) / "prompt.md"
        path.write_text(text, "utf-8")
        code = subprocess.call([*command, str(path)])
        if code != 0:
            raise ValueError(EDITOR_FAILED.format(code=code))
        return path.read_text("utf-8").removesuffix("\n")
