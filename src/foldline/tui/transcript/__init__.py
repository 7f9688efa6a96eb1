"""The chat's transcript.

History entries and streamed responses are shown as blocks in a panel.
"""
