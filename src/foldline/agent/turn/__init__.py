"""A turn: requests to the model and the tool calls of its answers."""
