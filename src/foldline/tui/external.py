"""Writing a prompt in the reader's own editor."""

import os
import shlex
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
        ValueError: the editor ended with an error, the file is no UTF-8, or `$EDITOR` is no command line.
    """
    with tempfile.TemporaryDirectory(prefix="foldline-") as folder:
        path = Path(folder) / "prompt.md"
        path.write_text(text, "utf-8")
        code = subprocess.call([*editor_command(), str(path)])
        if code != 0:
            raise ValueError(f"it ended with code {code}")
        return path.read_text("utf-8").removesuffix("\n")
