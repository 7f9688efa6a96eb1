"""Chat completions: what nearly every server speaks."""

from typing import Any

from .assembly import Assembly
from .base import ModelInfo, Request
from .dialect import Dialect, Renderings, tools_to_openai
from .failures import Failure
from .wire import expected


class ChatWire:
    """`/chat/completions`, in the dialect of one kind of server."""

    path = "/chat/completions"

    def __init__(self, dialect: Dialect, *, asks_usage: bool = True) -> None:
        """`asks_usage`: whether the server takes `stream_options`, without which most report no usage."""
        self._dialect = dialect
        self._renderings = Renderings(dialect)
        self._asks_usage = asks_usage

    @property
    def name(self) -> str:
        return self._dialect.name

    def body(self, request: Request, model: str) -> dict[str, Any]:
        body: dict[str, Any] = {
            "model": model,
            "messages": self._renderings.of(request.messages),
            "stream": True,
        }
        if self._asks_usage:
            body["stream_options"] = {"include_usage": True}
        if request.tools:  # An empty list is refused by OpenAI.
            body["tools"] = tools_to_openai(request.tools)
        if request.max_output is not None:
            body[self._dialect.max_tokens_field] = request.max_output
        return body

    def reading(self, request: Request, info: ModelInfo) -> Assembly:
        return Assembly(expected(request, info))

    def concede(self, failure: Failure) -> bool:
        if self._asks_usage and failure.status in (400, 422) and "stream_options" in failure.body:
            self._asks_usage = False
            return True
        return False
