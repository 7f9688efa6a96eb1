"""Writing a prompt in the reader's own editor."""

import os
import shlex
import shutil
import subprocess
import tempfile
from pathlib import Path


def editor_command() -> list[str]:
    """`$VISUAL`, else `$EDITOR`, else `vi`."""
    return shlex.split(os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi")


def edit_text(text: str) -> str:
    """`text` after the reader edited it in a file; blocks until the editor ends.

    Raises:
        OSError: the editor cannot be started, or the file cannot be read back.
        ValueError: there is no such editor, it ended with an error, the file is no UTF-8, or `$EDITOR` is no
            command line.
    """
    command = editor_command()
    if not command or shutil.which(command[0]) is None:
        raise ValueError(f"{command[0] if command else 'it'} is not there, set $VISUAL or $EDITOR to another")
    with tempfile.TemporaryDirectory(prefix="foldline-") as folder:
        path = Path(folder) / "prompt.md"
        path.write_text(text, "utf-8")
        code = subprocess.call([*command, str(path)])
        if code != 0:
            raise ValueError(f"it ended with code {code}")
        return path.read_text("utf-8").removesuffix("\n")
