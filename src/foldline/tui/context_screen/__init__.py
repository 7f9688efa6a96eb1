"""The Context screen: what fills the window, by category and item, and what can be done about it. It reads
the session's one projection, asks no model and costs no tokens."""
