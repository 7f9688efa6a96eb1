"""Waiting for the screen: what takes long begins when the reader sees something already."""

import asyncio

from textual.widget import Widget


async def painted(widget: Widget) -> None:
    """Return when what is known by now has been drawn; at once where the widget is going."""
    done = asyncio.Event()
    if widget.call_after_refresh(done.set):
        await done.wait()
