"""The built-in strategies, each in its own file.

A strategy takes a `CompactionContext` and returns the new view, or None if there is nothing to compact.
Strategies do not depend on the engine or the failure ladder.
"""
