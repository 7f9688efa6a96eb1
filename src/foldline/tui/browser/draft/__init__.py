"""The draft of a compaction, which the Inspector shows as one of its modes.

Shows the cut, the draft and the facts that would be lost. `DraftMode` shows a `DraftState`, which
`tui/app/preview_host.py` keeps up to date.
"""
