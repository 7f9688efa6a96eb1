"""Where the terminal is a page in a browser: `foldline serve` stands between it and us."""

import signal

from textual import messages
from textual.drivers.web_driver import WebDriver

from foldline.termination import end_soon
from foldline.tui.textual_private import app_of


class ServedDriver(WebDriver):
    """Ends the program with the server: nobody else could ever end it."""

    def run_input_thread(self) -> None:
        """As long as the server is there."""
        super().run_input_thread()
        if not self.exit_event.is_set():
            end_soon(signal.SIGTERM)
        app_of(self).post_message(messages.ExitApp())
