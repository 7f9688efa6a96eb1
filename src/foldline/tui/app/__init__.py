"""The chat's app: its open sessions, and what connects them to screens."""
