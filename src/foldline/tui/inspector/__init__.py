"""The Inspector: every entry of a history, what the next request sends of it, and the files, side by side.

`InspectorPanels` stands docked beside the chat or in an `InspectorScreen`; `InspectorApp` (in `.app`) is
`foldline open`. It reads a projection and never changes it.
"""

from foldline.tui.inspector.link import Link
from foldline.tui.inspector.panels import InspectorPanels
from foldline.tui.inspector.screen import InspectorScreen

__all__ = ["InspectorPanels", "InspectorScreen", "Link"]
