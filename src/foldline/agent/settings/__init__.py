"""Settings: their declaration, sources, changes, and the choice of a model."""
