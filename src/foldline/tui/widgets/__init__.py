"""The widgets around the transcript.

The widgets show a value and post messages. They have no session state.
"""
