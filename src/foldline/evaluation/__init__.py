"""How well a strategy compacts, measured on recorded sessions: replays, what they cost, what survives."""
