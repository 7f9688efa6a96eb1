"""The reading job's model: reads every requested file to its last line.

It repeats calls that were not run, and continues clipped or partial results at the line named by the tool. It
keeps its own list of files to read, because a compaction may remove the calls from the request.

Part of the script of the test server (`server_rules`, builtin `reader`).
"""

import json
import re
from typing import Any

from support.server_checks import text_of

TOGETHER, ONE_BY_ONE = "all at once", "one by one"
"""Words of a prompt that ask for four calls a step, or one."""

_NOTE = re.compile(r"<system-note>.*?</system-note>", re.DOTALL)
_FILE = re.compile(r"\bpart\d\d\.\w+")
_NOT_RUN = "window full, call again"
_LEFT_OUT = re.compile(
    r"\[… [^\n]* left out, [^\n]*`read` (\S+) with offset (\d+) and limit (\d+) …\]"
)
_GO_ON = re.compile(
    r"\[Portion \d+ of \d+, [^\n]*\. Continue with offset (\d+)(?: and limit (\d+))?\.\]\Z"
)
_MOST_STEPS = 80
"""Most steps of a prompt; a job that needs more is stuck."""

Call = dict[str, Any]


class Reader:
    """Answers the requests of one session, in order."""

    def __init__(self) -> None:
        self._left: list[Call] = []
        self._together = False
        self._steps = 0
        self._prompts = 0

    def answer(self, body: dict[str, Any]) -> dict[str, Any]:
        messages = body["messages"]
        if is_summary_request(body):
            return {"text": notes(self._prompts)}
        results = _newest_results(messages)
        if results:
            self._steps += 1
            self._left = [*_to_do(results), *self._left]
        else:
            self._begin(_last_typed(messages))
        if self._steps > _MOST_STEPS:
            return {
                "text": f"I give up after {self._steps} steps with {len(self._left)} reads left."
            }
        if not self._left:
            return {
                "text": f"All files of request {self._prompts} are read; nothing in them is out of place."
            }
        calls, self._left = (
            (self._left, []) if self._together else (self._left[:1], self._left[1:])
        )
        return {"tool_calls": [{"name": "read", "arguments": call} for call in calls]}

    def _begin(self, prompt: str) -> None:
        self._left = [{"path": path} for path in _FILE.findall(prompt)]
        self._together = TOGETHER in prompt
        self._steps = 0
        self._prompts += 1


def is_summary_request(body: dict[str, Any]) -> bool:
    """Return whether a request asks for a summary.

    Either a transcript without tools, or the session with an instruction at its end.
    """
    last = text_of(body["messages"][-1].get("content"))
    return "<summary-request>" in last or (
        "<conversation>" in last and not body.get("tools")
    )


def notes(prompts: int) -> str:
    """Return a summary of about 300 tokens, with the sections its prompt asks for."""
    done = "\n".join(
        f"- Request {n}: read all of its files to the last line, from top to bottom; they parse, and nothing "
        "in them asks for a change"
        for n in range(max(1, prompts - 2), prompts + 1)
    )
    return (
        "## Goal\n- Read the files of each request completely and report what is out of place in them\n\n"
        "## Constraints & Preferences\n- As the user stated in the first request\n\n"
        f"## Progress\n### Done\n{done}\n### In Progress\n- The newest request: its files are being read in "
        "the order they were named\n### Blocked\n- (none)\n\n"
        "## Key Decisions\n- Read on by line numbers where a result was clipped: no line is read twice\n"
        "- Answer each request in one sentence, once all of its files are read to the last line\n\n"
        "## Next Steps\n- Read on where the newest result ends, then answer in one sentence\n\n"
        "## Critical Context\n- The files are named partNN, with the ending of their kind: code, JSON, logs, "
        "notes and Chinese prose; lines carry the name of their file\n"
        "- Each is between twenty and forty kilobytes long, which a single result cannot always hold; where "
        "it does not, the result says at which line to go on and how many lines are left\n"
        "- A call that was not run because the window was full has to be made again in the next step"
    )


def _newest_results(messages: list[dict[str, Any]]) -> list[tuple[Call, str]]:
    """Return the newest step's calls with their results; empty after a newer prompt."""
    results: dict[str, str] = {}
    for message in reversed(messages):
        if message["role"] == "tool":
            results[message["tool_call_id"]] = text_of(message["content"])
        elif message["role"] == "assistant":
            calls = message.get("tool_calls") or []
            return [
                (_arguments(call), results[call["id"]])
                for call in calls
                if call["id"] in results
            ]
        elif _typed(message):
            return []
    return []


def _arguments(call: dict[str, Any]) -> Call:
    return dict(json.loads(call["function"]["arguments"]))


def _to_do(results: list[tuple[Call, str]]) -> list[Call]:
    """Return the remaining reads: calls not run, and the clipped parts of others."""
    calls: list[Call] = []
    for call, text in results:
        if _NOT_RUN in text and len(text) < 200:
            calls.append(call)
        if portion := _GO_ON.search(text):
            further = {"offset": portion[1], "limit": portion[2]}
            calls.append(
                {
                    "path": call["path"],
                    **{name: int(at) for name, at in further.items() if at},
                }
            )
        calls += [
            {"path": path, "offset": int(first), "limit": int(count)}
            for path, first, count in _LEFT_OUT.findall(text)
        ]
    return calls


def _typed(message: dict[str, Any]) -> str:
    return (
        _NOTE.sub("", text_of(message.get("content"))).strip()
        if message["role"] == "user"
        else ""
    )


def _last_typed(messages: list[dict[str, Any]]) -> str:
    return next(
        (text for message in reversed(messages) if (text := _typed(message))), ""
    )
