"""Measures how well compaction strategies work, by replaying recorded sessions.

The figures are cost, recall and survival of facts. The package is part of the same distribution as
`foldline`. It may import anything from `foldline`, but `foldline` imports nothing from it: `foldline eval`
finds the package through an entry point.
"""
