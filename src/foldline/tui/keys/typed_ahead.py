"""Keys that were typed before their question was on the screen."""

DEAF_SECONDS = 1.0
"""How long a new question ignores keys that would answer it, in seconds.

A key pressed during this time was probably meant for the previous screen.
"""
TOO_SOON = "Press again to confirm"
