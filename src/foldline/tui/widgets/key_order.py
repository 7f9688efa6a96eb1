"""Keys of a text field in the order they were pressed.

Textual 8.2.8 puts a letter into the field at once, but lets a key with a binding bubble up to the app, which
carries it out when it has its turn: where keys come fast, as over a slow line, what is typed behind Backspace
overtakes it.
"""

from textual import events
from textual.widget import Widget
from textual.widgets import Input


async def act_now(field: Widget, key: str) -> bool:
    """Do what the field's own binding of this key does; False where it has none."""
    node, own = field.screen._modal_binding_chain[0]
    if node is not field:
        return False  # it has lost the focus meanwhile
    for binding in own.key_to_bindings.get(key, ()):
        if not binding.priority and await field.app.run_action(binding.action, field):
            return True
    return False


class OrderedInput(Input):
    """An `Input` whose keys keep their order."""

    async def _on_key(self, event: events.Key) -> None:
        if await act_now(self, event.key):
            event.stop()
            event.prevent_default()
