"""The heart, pure: projection, tokens, budget, cut, serialisation, files, overflow. No I/O, no clock."""
