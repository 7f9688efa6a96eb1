"""An agent: how to install it, set it up and talk to it, and where its session is."""

import re
from abc import ABC, abstractmethod
from pathlib import Path

from ..drivers import LineProcess, Rpc
from ..install import Npm, Pip
from ..script import PROMPTS
from ..wires import Json
from ..workspace import Workspace


class Agent(ABC):
    """One agent in one workspace. A subclass for each; the class attributes are what the table says of it.

    `begin` opens a session, or continues `session`; then come prompts, and perhaps `compact` and `rewind`.
    """

    name: str
    title: str
    version: str
    packages: Npm | Pip
    can_rewind = False
    handoff = ""
    """Its name for `foldline handoff --to`, if there is one."""
    window = 200_000

    def __init__(self, place: Workspace) -> None:
        self.place = place
        self.session = ""
        self.running: LineProcess | Rpc | None = None
        self.set_up()

    def set_up(self) -> None:  # noqa: B027 - some need nothing
        """Write its settings and set its variables."""

    def begin(self, session: str = "") -> None:
        """Open a new session, or the one with this id."""
        self.session = session

    def resume(self, handed: Json) -> None:
        """Open the session that `foldline handoff --json` says it has written."""
        self.begin(re.split(r"[ =]", handed["command"])[-1])

    def job(self, number: int) -> None:
        """Let it do one job of the script."""
        self.prompt(PROMPTS[number])

    @abstractmethod
    def prompt(self, text: str) -> None:
        """Send a prompt, and wait until its turn has ended."""

    @abstractmethod
    def compact(self) -> None:
        """Let it compact its session."""

    def rewind(self) -> None:
        """Take the last prompt back, with all that came of it."""
        raise TypeError(f"{self.title} cannot be rewound by a script.")

    def file(self) -> str:
        """What `foldline view` is given to read its session."""
        return str(self.path())

    @abstractmethod
    def path(self) -> Path:
        """Its session file."""

    def close(self) -> None:
        """End what runs."""
        if self.running is not None:
            self.running.close()
