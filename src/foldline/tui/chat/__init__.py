"""The chat screen, and the widgets around its transcript."""
