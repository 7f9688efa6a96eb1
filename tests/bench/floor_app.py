"""A minimal Textual app with a prompt: the floor of screen measurements."""

from textual.app import App, ComposeResult
from textual.widgets import Input, Static

PLACEHOLDER = "Ask for something"
SEEN = PLACEHOLDER[1:]
"""The part of the placeholder written in one piece: the cursor is on its first letter."""


class Floor(App[None]):
    def compose(self) -> ComposeResult:
        yield Static("A line of text")
        yield Input(placeholder=PLACEHOLDER)


if __name__ == "__main__":
    Floor().run()
