"""The recorded session that `foldline demo` plays in the chat."""
