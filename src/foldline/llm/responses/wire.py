"""The Responses API as one more way to ask: what a request looks like, and what can be done without."""

from typing import Any

from ..base import ModelInfo, Request
from ..failures import Failure
from ..providers import address_of
from ..wire import expected
from .assembly import ResponsesAssembly
from .items import RESPONSES, signer, to_input, tools_to_responses


class ResponsesWire:
    """`/responses`. The server keeps nothing: each request carries the whole view."""

    name = RESPONSES
    path = "/responses"

    def __init__(self, base_url: str) -> None:
        self._host = address_of(base_url)
        self._replays = True
        """Whether encrypted reasoning goes back."""
        self._asks_encrypted = True
        """Whether the server is asked for it. It refuses that for models that do not reason."""
        self._asks_summary = True
        """Whether reasoning is to be shown. Refused likewise, and to accounts that are not verified."""

    def body(self, request: Request, model: str) -> dict[str, Any]:
        reader = signer(model, self._host) if self._replays else ""
        body: dict[str, Any] = {
            "model": model,
            "input": to_input(request.messages, reader),
            "store": False,
            "stream": True,
        }
        if self._asks_encrypted:
            body["include"] = ["reasoning.encrypted_content"]
        if self._asks_summary:
            body["reasoning"] = {"summary": "auto"}
        if request.tools:
            body["tools"] = tools_to_responses(request.tools)
        if request.max_output is not None:
            body["max_output_tokens"] = request.max_output
        return body

    def reading(self, request: Request, info: ModelInfo) -> ResponsesAssembly:
        return ResponsesAssembly(expected(request, info), signer(info.id, self._host))

    def concede(self, failure: Failure) -> bool:
        if failure.status not in (400, 404, 422) or failure.overflow:
            return False
        body = failure.body.lower()
        if self._replays and ("could not be verified" in body or "items are not persisted" in body):
            self._replays = False  # The key that it was encrypted with is another now.
        elif self._asks_encrypted and "encrypted" in body:
            self._asks_encrypted = False
        elif self._asks_summary and "reasoning" in body:
            self._asks_summary = False
        else:
            return False
        return True
