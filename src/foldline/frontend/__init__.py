"""The parts of a chat that every front end uses: the full screen, `--plain`, ACP and `run`.

Events of the agent go through `reduce` into a `ChatState`. The runner starts turns, commands and compactions.
Nothing here imports Textual or Rich.
"""
