"""The Inspector: every entry of a history, what the next request sends of it, and the files, side by side.

`InspectorPanels` stands docked beside the chat or in an `InspectorScreen`; `InspectorApp` (in `.app`) is
`foldline open`. It reads a projection and never changes it. `history_rows`, `view_rows` and `file_rows` are
the pure part.
"""

from foldline.tui.inspector.filelist import file_rows
from foldline.tui.inspector.linked import Link
from foldline.tui.inspector.panels import InspectorPanels
from foldline.tui.inspector.rows import history_rows, view_rows
from foldline.tui.inspector.screen import InspectorScreen

__all__ = ["InspectorPanels", "InspectorScreen", "Link", "file_rows", "history_rows", "view_rows"]
