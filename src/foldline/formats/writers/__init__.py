"""What writes a session for other agents and for people, a format a module (`formats/export.py`)."""
