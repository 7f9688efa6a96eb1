"""Commands and their keys.

Contains the tables of commands, the names of keys, and the user's keymap.
"""
