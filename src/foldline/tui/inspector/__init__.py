"""The Inspector: the history, the next request and the files, side by side.

`InspectorPanels` is docked beside the chat or fills an `InspectorScreen`. `foldline open` runs
`app.InspectorApp`. The Inspector reads a projection and never changes it.
"""

from foldline.tui.inspector.link import Link
from foldline.tui.inspector.panels import InspectorPanels
from foldline.tui.inspector.screen import InspectorScreen

__all__ = ["InspectorPanels", "InspectorScreen", "Link"]
