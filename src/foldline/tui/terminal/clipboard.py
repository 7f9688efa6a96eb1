"""Blocking functions for the clipboard, which may contain text or an image."""

import base64
import os
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

NO_PICTURE: Final = "The clipboard does not contain a picture."
NO_ANSWER: Final = "{program} did not return the picture within {seconds:.0f} s."
_MOST: Final = 74_994
"""Maximum number of Base64 characters that xterm accepts at once.

Most terminals accept at least as many.
"""


def copy(app: App[Any], text: str) -> str:
    """Copy text to the clipboard.

    Returns:
        A warning, or an empty string.
    """
    app.copy_to_clipboard(text)
    size = len(base64.b64encode(text.encode("utf-8", "replace")))
    if size > _MOST and not os.environ.get("TMUX"):
        return "some terminals accept no more than 56 kB"
    return ""


def to_tmux(text: str) -> None:
    """Copy text with a tmux command. Blocks.

    By default, tmux does not pass OSC 52 on.
    """
    tmux = find_program("tmux")
    if tmux is None:
        return
    command = [tmux, "load-buffer", "-w", "-"]
    env = trusted_environment(os.environ)
    data = text.encode("utf-8", "replace")
    subprocess.run(
        command,
        input=data,
        env=env,
        capture_output=True,
        timeout=5,
        check=False,
    )


_SECONDS: Final = 5.0
"""Timeout of the clipboard program, in seconds.

Some programs wait for the program that owns the clipboard, even if that program has exited.
"""
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


def clipboard_picture(
    environ: Mapping[str, str] = os.environ, platform: str = sys.platform
) -> "ImagePart":
    """Read the image on the clipboard.

    Raises:
        FoldlineError: There is no image, the image is too large, or no program can read it.
    """
    from foldline.agent.tools.images import image_part
    from foldline.protocol import FoldlineError

    command = fetching_command(environ, platform)
    if command is None:
        raise FoldlineError(
            "Foldline cannot read pictures from the clipboard: {reason}.",
            reason=_missing(environ, platform),
        )
    picture = image_part(_fetched(command), "The picture in the clipboard")
    if picture is None:
        raise FoldlineError(NO_PICTURE)
    return picture


def fetching_command(environ: Mapping[str, str], platform: str) -> Sequence[str] | None:
    """Return the command that prints the clipboard's image.

    Returns None if no such command is installed.
    """
    choices: list[Sequence[str]] = []
    if platform == "darwin":
        choices = [("pngpaste", "-"), ("osascript",)]
    elif platform == "win32":
        choices = [("powershell", "-NoProfile", "-STA", "-Command", _POWERSHELL)]
    else:
        if environ.get("WAYLAND_DISPLAY"):
            choices.append(("wl-paste", "--no-newline", "--type", "image/png"))
        if environ.get("DISPLAY"):
            choices.append(
                ("xclip", "-selection", "clipboard", "-target", "image/png", "-out")
            )
        if environ.get("WSL_DISTRO_NAME"):
            choices.append(
                ("powershell.exe", "-NoProfile", "-STA", "-Command", _POWERSHELL)
            )
    for name, *words in choices:
        if program := find_program(name):
            return (program, *words)
    return None


def _missing(environ: Mapping[str, str], platform: str) -> str:
    if platform == "darwin":
        return "neither pngpaste nor osascript is installed"
    if platform == "win32":
        return "powershell is not installed"
    if environ.get("WAYLAND_DISPLAY"):
        return "wl-clipboard (wl-paste) is not installed"
    if environ.get("DISPLAY"):
        return "xclip is not installed"
    return "there is no display. Paste the path of a file instead"


def _fetched(command: Sequence[str]) -> bytes:
    from foldline.protocol import FoldlineError

    with tempfile.TemporaryDirectory(prefix="foldline-") as folder:
        file = Path(folder) / "clipboard.png"
        if Path(command[0]).name == "osascript":
            command = (*command, "-e", _OSASCRIPT.format(path=file))
        try:
            process = subprocess.run(
                command, env=trusted_environment(os.environ), stdin=subprocess.DEVNULL, capture_output=True,
                timeout=_SECONDS, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            program = Path(command[0]).name
            sentence = NO_ANSWER.format(program=program, seconds=_SECONDS)
            raise FoldlineError(sentence) from None
        except OSError as error:
            reason = error.strerror or error
            sentence = f"{command[0]} could not be started: {reason}."
            raise FoldlineError(sentence) from None
        return file.read_bytes() if file.exists() else process.stdout
