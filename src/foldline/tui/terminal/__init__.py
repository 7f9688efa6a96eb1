"""The terminal: what it can show and send, its window, and the apps that know it."""
