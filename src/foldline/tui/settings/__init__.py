"""The Settings screen: every setting, what it is, who set it, and another value."""
