"""How well a strategy folds, measured on recorded sessions: replays, what they cost, what survives."""
