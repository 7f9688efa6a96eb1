"""The browser of a session: the Inspector, the preview, and the panels that both show."""
