"""The readers of other agents' sessions, one folder for each agent."""
