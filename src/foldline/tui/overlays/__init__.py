"""The list screens.

Their data and actions are passed to them as arguments.
"""
