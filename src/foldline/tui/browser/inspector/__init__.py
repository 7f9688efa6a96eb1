"""The Inspector: the history, the next request and the files, side by side.

`InspectorPanels` is docked beside the chat or fills an `InspectorScreen`. `foldline open` runs
`app.InspectorApp`. The Inspector reads a projection and never changes it.
"""

from foldline.tui.browser.inspector.link import Link
from foldline.tui.browser.inspector.panels import InspectorPanels
from foldline.tui.browser.inspector.screen import InspectorScreen

__all__ = ["InspectorPanels", "InspectorScreen", "Link"]
