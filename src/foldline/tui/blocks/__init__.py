"""The scrolling list of blocks on which the transcript and every panel are based.

Only visible lines are drawn. A position is a `Key` (entry index, piece number), never a row number. Blocks
are immutable, and their text has already been sanitised with `clean`.
"""
