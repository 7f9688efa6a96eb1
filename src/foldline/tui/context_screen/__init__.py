"""/context: what fills the window, by category and by item."""
