"""Cline: the first prompt by its command, which cannot go on with a session; the others on its screen."""

from pathlib import Path

from ..install import Npm
from ..script import job_of
from ..terminal import Terminal
from .base import Agent


class Cline(Agent):
    name = "cline"
    title = "Cline"
    version = "3.0.65"
    packages = Npm(("cline@3.0.65",))

    def set_up(self) -> None:
        address = f"{self.place.address}/v1"
        options = (
            "-p",
            "openai-compatible",
            "-k",
            "dummy",
            "-m",
            "scripted",
            "-b",
            address,
        )
        self.place.run("cline", "auth", *options)

    def prompt(self, text: str) -> None:
        if not self.session:
            self.place.run("cline", text)
            self.session = self.path().parent.name
            return
        end = f"Finished number {job_of(text)}"
        with Terminal(self.place, "cline", "--id", self.session) as screen:
            screen.settle()
            screen.type(text)
            screen.wait_until(lambda: end in self.path().read_text(), "its turn")

    def compact(self) -> None:
        before = self._compactions()
        with Terminal(self.place, "cline", "--id", self.session) as screen:
            screen.settle()
            screen.type("/compact")
            screen.wait_until(lambda: self._compactions() != before, "its compaction")
            screen.settle()

    def _compactions(self) -> list[str]:
        """What its compactions have left, in a file of their own."""
        return [
            file.read_text() for file in self.path().parent.glob("*.compaction.json")
        ]

    def path(self) -> Path:
        return self.place.newest(".cline/data/sessions/*/*.messages.json")
