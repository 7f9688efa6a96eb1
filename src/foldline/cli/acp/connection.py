"""A JSON-RPC connection to the client, in both directions."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from itertools import count
from typing import Any

from pydantic import ValidationError

from foldline.json_text import JsonObject

from .schema import (
    ElicitationResponse,
    ElicitationSchema,
    Model,
    PermissionOption,
    RequestPermissionResponse,
    SessionUpdate,
    ToolCallUpdate,
)
from .stdio import Message, Stdio

METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603

_log = logging.getLogger(__name__)


class RequestError(Exception):
    """An error that answers a request."""

    def __init__(self, code: int, message: str, data: object = None) -> None:
        super().__init__(message)
        self.code = code
        self.data = data

    def json_object(self) -> JsonObject:
        return {"code": self.code, "message": str(self), "data": self.data}


Handler = Callable[..., Awaitable[Model | None]]
"""Carries out a request or notification, whose parameters are its arguments."""
Routes = Mapping[str, tuple[type[Model], Handler]]
"""The model of the parameters and the handler, by the protocol's name of the method."""


class ClientConnection:
    """Calls the handlers of the client's requests, and sends requests to the client."""

    def __init__(self, wire: Stdio, routes: Routes) -> None:
        self._wire = wire
        self._routes = routes
        self._ids = count()
        self._answers: dict[object, asyncio.Future[Any]] = {}
        """The answers that the client has not sent yet, by the id of the request."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_open = True

    async def listen(self) -> None:
        """Handle messages until the client disconnects."""
        while (message := await self._wire.receive()) is not None:
            if message.get("method") is not None:
                self._start(self._handle(message))
            elif "id" in message:
                self._on_answer(message)
        self._end_requests()

    async def close(self) -> None:
        """Close the connection, and cancel everything that still runs."""
        self._end_requests()
        await self._wire.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    # --- methods of the client --------------------------------------------------------------------------

    async def session_update(self, session_id: str, update: SessionUpdate) -> None:
        await self._send(
            {
                "method": "session/update",
                "params": {"sessionId": session_id, "update": update.json_object()},
            }
        )

    async def request_permission(
        self, session_id: str, call: ToolCallUpdate, options: Sequence[PermissionOption]
    ) -> RequestPermissionResponse:
        answer = await self._request(
            "session/request_permission",
            {
                "sessionId": session_id,
                "toolCall": call.json_object(),
                "options": [option.json_object() for option in options],
            },
        )
        return RequestPermissionResponse.model_validate(answer)

    async def create_elicitation(
        self, session_id: str, message: str, form: ElicitationSchema
    ) -> ElicitationResponse:
        answer = await self._request(
            "elicitation/create",
            {
                "sessionId": session_id,
                "mode": "form",
                "message": message,
                "requestedSchema": form.json_object(),
            },
        )
        return ElicitationResponse.model_validate(answer)

    # --- messages ---------------------------------------------------------------------------------------

    async def _request(self, method: str, params: JsonObject) -> object:
        """Send a request to the client, and return its result.

        Raises:
            RequestError: the client answered with an error.
            ConnectionError: the client is gone.
        """
        id = next(self._ids)
        answer = self._answers[id] = asyncio.get_running_loop().create_future()
        try:
            await self._send({"id": id, "method": method, "params": params})
            return await answer
        finally:
            self._answers.pop(id, None)

    async def _send(self, message: Message) -> None:
        if not self._is_open:
            raise ConnectionError("The client is gone.")
        await self._wire.send({"jsonrpc": "2.0", **message})

    def _on_answer(self, message: Message) -> None:
        answer = self._answers.pop(message["id"], None)
        if answer is None or answer.done():
            return
        error = message.get("error")
        if error is None:
            answer.set_result(message.get("result"))
        else:
            sentence = str(error.get("message", "The client reported an error."))
            answer.set_exception(RequestError(INTERNAL_ERROR, sentence))

    def _end_requests(self) -> None:
        self._is_open = False
        for answer in self._answers.values():
            if not answer.done():
                answer.set_exception(ConnectionError("The client is gone."))

    async def _handle(self, message: Message) -> None:
        """Carry out a request and send its result, or carry out a notification."""
        answer: Message = {}
        try:
            result = await self._call(message["method"], message.get("params"))
            answer["result"] = {} if result is None else result.json_object()
        except RequestError as error:
            answer["error"] = error.json_object()
        except ValidationError as error:
            problems = error.errors(include_context=False, include_input=False)
            refused = RequestError(
                INVALID_PARAMS, "Invalid params", {"errors": problems}
            )
            answer["error"] = refused.json_object()
        except Exception as error:  # noqa: BLE001 - reported to the client
            _log.exception("%s failed", message["method"])
            failed = RequestError(
                INTERNAL_ERROR, "Internal error", {"details": str(error)}
            )
            answer["error"] = failed.json_object()
        if "id" in message:
            await self._wire.send({"jsonrpc": "2.0", "id": message["id"], **answer})

    async def _call(self, method: str, params: object) -> Model | None:
        if method not in self._routes:
            raise RequestError(METHOD_NOT_FOUND, "Method not found", {"method": method})
        model, handler = self._routes[method]
        arguments = model.model_validate(params)
        return await handler(
            **{name: getattr(arguments, name) for name in arguments.model_fields_set}
        )

    def _start(self, coroutine: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
