"""The Sessions screen: all sessions, other agents' too; search in all that was said; resume, fork, tidy."""
