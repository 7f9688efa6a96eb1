"""OpenAI's Responses API, without memory at the server: `items` renders, `assembly` reads, `wire` joins."""

from .items import RESPONSES, to_input
from .wire import ResponsesWire

__all__ = ["RESPONSES", "ResponsesWire", "to_input"]
