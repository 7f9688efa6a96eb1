"""The Jobs screen: what the agent runs in the background, and what it writes."""
