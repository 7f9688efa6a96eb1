"""The list of blocks behind the transcript and every panel, drawn line by line, only what is in sight.

A place is a `Key` (entry index, piece), never a row. Blocks are immutable plain data; text given to them
goes through `clean` first.
"""
