"""The pure core: projection, tokens, budget, cut, serialisation, files, overflow. No I/O, no clock."""
