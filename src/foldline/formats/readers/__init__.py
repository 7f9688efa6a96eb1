"""Readers for other agents' sessions, with one folder per agent."""
