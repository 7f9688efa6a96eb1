"""The terminal's capabilities, input, window title and clipboard."""
