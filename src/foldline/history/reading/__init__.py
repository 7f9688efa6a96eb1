"""Reading a history from disk: outlines first, the rest when somebody looks; an index for the next time."""
