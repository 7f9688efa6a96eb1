"""Credentials in a session, found and replaced by placeholders."""
