"""An agent's session: its state, and the operations on it outside a turn."""
