"""The floor of whatever happens on the screen: the least there can be of a Textual app with a prompt."""

from textual.app import App, ComposeResult
from textual.widgets import Input, Static

PLACEHOLDER = "Ask for something"
SEEN = PLACEHOLDER[1:]
"""Of it in one piece on the screen: the cursor stands on its first letter."""


class Floor(App[None]):
    def compose(self) -> ComposeResult:
        yield Static("A line of text")
        yield Input(placeholder=PLACEHOLDER)


if __name__ == "__main__":
    Floor().run()
