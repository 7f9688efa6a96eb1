"""Extensions: skills, commands, agents, hooks and tool servers, as read from disk."""
