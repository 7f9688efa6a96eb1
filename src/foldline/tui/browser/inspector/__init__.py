"""The Inspector: the history, the next request and the files, side by side.

`InspectorPanels` is docked beside the chat or fills an `InspectorScreen`. `foldline open` runs
`tui/app/inspector_app.py`. The Inspector reads a projection and never changes it.
"""
