"""The reading side of the chat: the transcript as a panel, its keys, its search, what it copies."""
