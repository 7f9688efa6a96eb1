"""The setup screen: which provider, with which key, and which of its models."""
