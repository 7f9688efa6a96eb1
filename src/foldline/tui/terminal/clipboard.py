"""The system clipboard, for text and pictures, and the user's editor. All calls block."""

import base64
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from textual.app import App

from foldline.programs import find_program, trusted_environment

if TYPE_CHECKING:
    from foldline.protocol import ImagePart

_MOST: Final = 74_994
"""Bytes, in base64, that xterm takes at a time; few terminals take less, many more."""


def copy(app: App[Any], text: str) -> str:
    """Put text into the clipboard; what may be wrong with that, in words, mostly nothing."""
    app.copy_to_clipboard(text)
    if len(base64.b64encode(text.encode("utf-8", "replace"))) > _MOST and not os.environ.get("TMUX"):
        return "some terminals take no more than 56 kB"
    return ""


def to_tmux(text: str) -> None:
    """tmux as it is set up by default keeps OSC 52 of its programs to itself; this it hands on. Blocks."""
    given = text.encode("utf-8", "replace")
    tmux = find_program("tmux")
    if tmux is None:
        return
    command = [tmux, "load-buffer", "-w", "-"]
    env = trusted_environment(os.environ)
    subprocess.run(command, input=given, env=env, capture_output=True, timeout=5, check=False)


def edit_text(text: str) -> str:
    """`text` after the reader edited it in a file; blocks until the editor ends. What `$EDITOR` names is
    looked up by the user's own PATH.

    Raises:
        OSError: the editor cannot be started, or the file cannot be read back.
        ValueError: there is no such editor, it ended with an error, the file is no UTF-8, or `$EDITOR` is no
            command line.
    """
    command = shlex.split(os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi")
    if not command or shutil.which(command[0]) is None:
        raise ValueError(f"{command[0] if command else 'it'} is not there, set $VISUAL or $EDITOR to another")
    with tempfile.TemporaryDirectory(prefix="foldline-") as folder:
        path = Path(folder) / "prompt.md"
        path.write_text(text, "utf-8")
        code = subprocess.call([*command, str(path)])
        if code != 0:
            raise ValueError(f"it ended with code {code}")
        return path.read_text("utf-8").removesuffix("\n")


_SECONDS: Final = 5.0
"""How long the program may take; some wait for an owner of the clipboard who is gone."""
_POWERSHELL: Final = (
    "Add-Type -AssemblyName System.Windows.Forms;"
    "$p=[System.Windows.Forms.Clipboard]::GetImage();"
    "if($p){$m=New-Object IO.MemoryStream;$p.Save($m,[Drawing.Imaging.ImageFormat]::Png);"
    "$o=[Console]::OpenStandardOutput();$b=$m.ToArray();$o.Write($b,0,$b.Length)}"
)
_OSASCRIPT: Final = (
    'set f to open for access POSIX file "{path}" with write permission\n'
    "write (the clipboard as «class PNGf») to f\nclose access f"
)


def clipboard_picture(environ: Mapping[str, str] = os.environ, platform: str = sys.platform) -> "ImagePart":
    """The picture in the clipboard.

    Raises:
        FoldlineError: there is none, it is too large, or no program here can fetch it.
    """
    from foldline.agent.tools.images import image_part
    from foldline.protocol import FoldlineError

    command = fetching_command(environ, platform)
    if command is None:
        raise FoldlineError(
            f"Pictures cannot be fetched from the clipboard here: {_missing(environ, platform)}."
        )
    found = image_part(_fetched(command), "The picture in the clipboard")
    if found is None:
        raise FoldlineError("There is no picture in the clipboard.")
    return found


def fetching_command(environ: Mapping[str, str], platform: str) -> Sequence[str] | None:
    """The command that prints the clipboard's picture; None where nothing here can."""
    choices: list[Sequence[str]] = []
    if platform == "darwin":
        choices = [("pngpaste", "-"), ("osascript",)]
    elif platform == "win32":
        choices = [("powershell", "-NoProfile", "-STA", "-Command", _POWERSHELL)]
    else:
        if environ.get("WAYLAND_DISPLAY"):
            choices.append(("wl-paste", "--no-newline", "--type", "image/png"))
        if environ.get("DISPLAY"):
            choices.append(("xclip", "-selection", "clipboard", "-target", "image/png", "-out"))
        if environ.get("WSL_DISTRO_NAME"):
            choices.append(("powershell.exe", "-NoProfile", "-STA", "-Command", _POWERSHELL))
    for name, *words in choices:
        if program := find_program(name):
            return (program, *words)
    return None


def _missing(environ: Mapping[str, str], platform: str) -> str:
    if platform in ("darwin", "win32"):
        return (
            "neither pngpaste nor osascript is there" if platform == "darwin" else "powershell is not there"
        )
    if environ.get("WAYLAND_DISPLAY"):
        return "install wl-clipboard (wl-paste)"
    if environ.get("DISPLAY"):
        return "install xclip"
    return "this terminal has no display; paste the path of a file instead"


def _fetched(command: Sequence[str]) -> bytes:
    from foldline.protocol import FoldlineError

    with tempfile.TemporaryDirectory(prefix="foldline-") as folder:
        file = Path(folder) / "clipboard.png"
        if Path(command[0]).name == "osascript":
            command = (*command, "-e", _OSASCRIPT.format(path=file))
        try:
            done = subprocess.run(
                command, env=trusted_environment(os.environ), stdin=subprocess.DEVNULL, capture_output=True,
                timeout=_SECONDS, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            raise FoldlineError(
                f"The clipboard did not answer within {_SECONDS:.0f} s ({Path(command[0]).name})."
            ) from None
        except OSError as error:
            raise FoldlineError(f"{command[0]} could not be started: {error.strerror or error}.") from None
        return file.read_bytes() if file.exists() else done.stdout
