"""The test server's script: which answer a request gets.

A script is JSON: a list of rules, or `{"rules": [...]}`. The first rule that matches answers:

    {"when":   {"role": "user", "content": "regex", "tools": true, "nth": 3},   all optional
     "times":  2,                                     matches at most this often, then later rules are tried
     "answer": {"text": "…", "thinking": "…",
                "tool_calls": [{"name": "read", "arguments": {"path": "${path}"}, "id": "call_1"}],
                "builtin": "calls" | "next_call" | "summary" | "last_line" | "reader" | "notes",
                "recorded": [{"text": "…", "tool_calls": […]}, …],   one after the other, unchanged
                "finish_reason": "length", "usage": {"prompt_tokens": 9}, "chunk": 12, "seconds": 0.5,
                "fault": {"status": 429, "body": {…} or "…", "headers": {"retry-after": "2"}}
                      or {"cut_after": 2} or {"stall_after": 0} or {"malformed_after": 1}
                      or {"pause": 0.01}, seconds before each piece,
                      or {"error_after": 1, "body": {…}} or {"raw": [{…}, "text", …]}
                      or {"hang": true}, no answer, or {"unstreamed": true}, one JSON text
                      for a streamed request, or those of `server_wild`}}

`content` is searched in the text of the last message; `nth` (a number or a list) is the number of the chat
request, counted from 1; faults `*_after` count streamed pieces; `raw` sends these pieces (objects as JSON)
instead of an answer. Texts and arguments may hold `${name}` of the named groups of `content`, `${content}`,
`${first_line}`, `${last_line}`, `${prompt}` (the last user text), `${summary}`, `${nth}`.

An answer begins after its `seconds`. The default script is a small usable model: see `DEFAULT`.
"""

import re
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from string import Template
from typing import Any

from support.job_reader import Reader
from support.server_checks import text_of
from support.server_notes import notes

_PATH = r"[\w./~-]*\w\.\w+|[\w.~-]*/[\w./-]*\w"

DEFAULT: list[dict[str, Any]] = [
    {
        "when": {"content": "<conversation>", "tools": False},
        "answer": {"builtin": "summary"},
    },
    {"when": {"content": "<summary-request>"}, "answer": {"builtin": "summary"}},
    # "Read a.py and b.py one by one" asks for one file a step; without these words, for all at once.
    {"when": {"role": "tool", "tools": True}, "answer": {"builtin": "next_call"}},
    {"when": {"role": "user", "tools": True}, "answer": {"builtin": "calls"}},
    {"answer": {"text": "You said: ${first_line}"}},
]
"""Obeys prompts such as `Read src/a.py and tell me its last line`, `List src`, `Run ls -l`, `Grep TODO`,
`Write notes.txt: some text`, `Replace 'a' with 'b' in notes.txt`, and quotes the last line of the result.
Summarises `<conversation>` texts. Repeats anything else.
"""

_NOTE = re.compile(r"<system-note>.*?</system-note>", re.DOTALL)


@dataclass
class Script:
    """The rules, and their state between requests."""

    rules: list[dict[str, Any]]
    used: dict[int, int] = field(default_factory=dict)
    read_calls: dict[str, set[str]] = field(default_factory=dict)
    """Files already read for a prompt. Kept here, because a compaction may remove the calls from the request.
    """
    reader: Reader = field(default_factory=Reader)

    def answer(self, body: dict[str, Any], nth: int) -> dict[str, Any]:
        """Return the answer to a request with its templates filled in; plain text if no rule matches."""
        last = body["messages"][-1]
        content = text_of(last.get("content"))
        for number, rule in enumerate(self.rules):
            match = _matches(
                rule.get("when", {}), last, content, bool(body.get("tools")), nth
            )
            if match is None or self.used.get(number, 0) >= rule.get("times", 1 << 30):
                continue
            self.used[number] = self.used.get(number, 0) + 1
            answer = dict(rule["answer"])
            if "recorded" in answer:
                return dict(answer["recorded"][self.used[number] - 1])
            if answer.get("builtin") == "notes":
                return {"text": notes(content, body), **answer}
            builtin = answer.pop("builtin", None)
            if builtin is not None:
                answer = {**self._builtin(builtin, body, content), **answer}
            filled: dict[str, Any] = _fill(answer, _values(match, body, content, nth))
            return filled
        return {"text": "No rule of the script matches."}

    def _builtin(self, name: str, body: dict[str, Any], content: str) -> dict[str, Any]:
        prompt = _typed(body)
        match name:
            case "summary":
                return {
                    "text": summary(
                        content
                        if "<conversation>" in content
                        else session_transcript(body) + content
                    )
                }
            case "last_line":
                return _last_line_answer(content)
            case "reader":
                return self.reader.answer(body)
            case "calls":
                if not _NOTE.sub("", content).strip():
                    # Images of a result, or other machine text: no new prompt.
                    return self._builtin("next_call", body, content)
                self.read_calls.pop(prompt, None)
                calls = _requested_calls(prompt)
                if not calls:
                    return {"text": f"You said: {_first_line(prompt)}"}
                if _stepwise(prompt):
                    calls = calls[:1]
                self.read_calls[prompt] = {_key(call) for call in calls}
                return {
                    "tool_calls": [_with_offered_names(call, body) for call in calls]
                }
            case "next_call":
                done = self.read_calls.setdefault(prompt, set())
                for call in _requested_calls(prompt) if _stepwise(prompt) else ():
                    if _key(call) not in done:
                        done.add(_key(call))
                        return {"tool_calls": [_with_offered_names(call, body)]}
                return _last_line_answer(content)
            case _:
                raise ValueError(f"the script names no builtin {name!r}")


def _matches(
    when: dict[str, Any], last: dict[str, Any], content: str, tools: bool, nth: int
) -> dict[str, str] | None:
    """Return the named groups of the match; None for no match."""
    if "role" in when and when["role"] != last.get("role"):
        return None
    if "tools" in when and when["tools"] != tools:
        return None
    if "nth" in when and nth not in (
        when["nth"] if isinstance(when["nth"], list) else [when["nth"]]
    ):
        return None
    if "content" not in when:
        return {}
    match = re.search(when["content"], content, re.DOTALL)
    return (
        None
        if match is None
        else {key: value or "" for key, value in match.groupdict().items()}
    )


def _values(
    groups: dict[str, str], body: dict[str, Any], content: str, nth: int
) -> dict[str, str]:
    lines = [line for line in content.splitlines() if line.strip()] or [""]
    return {
        "content": content,
        "first_line": lines[0].strip(),
        "last_line": lines[-1].strip(),
        "prompt": _typed(body),
        "summary": summary(content) if "<conversation>" in content else "",
        "nth": str(nth),
        **groups,
    }


def _fill(value: Any, values: dict[str, str]) -> Any:
    match value:
        case str():
            return Template(value).safe_substitute(values) if "${" in value else value
        case dict():
            return {key: _fill(inner, values) for key, inner in value.items()}
        case list():
            return [_fill(inner, values) for inner in value]
        case _:
            return value


def _typed(body: dict[str, Any]) -> str:
    """Return the last text typed by the user; marked machine text is skipped."""
    for message in reversed(body["messages"]):
        if message.get("role") == "user":
            text = _NOTE.sub("", text_of(message.get("content"))).strip()
            if text:
                return text
    return ""


def _stepwise(prompt: str) -> bool:
    return "one by one" in prompt.lower()


def _requested_calls(prompt: str) -> list[dict[str, Any]]:
    """Return the tool calls requested by a prompt."""
    match = re.match(r"(?is)\s*write (\S+?):\s*(.+)", prompt)
    if match:
        return [{"name": "write", "arguments": {"path": match[1], "content": match[2]}}]
    match = re.search(r"(?is)\breplace '(.+?)' (?:with|by) '(.*?)' in (\S+)", prompt)
    if match:
        arguments = {"path": match[3], "old_text": match[1], "new_text": match[2]}
        return [{"name": "edit", "arguments": arguments}]
    match = re.match(r"(?i)\s*run (.+)", prompt)
    if match:
        return [{"name": "bash", "arguments": {"command": match[1].strip().strip("`")}}]
    match = re.match(r"(?i)\s*(?:grep|search for) (\S+)(?: in (\S+))?", prompt)
    if match:
        return [
            {
                "name": "grep",
                "arguments": {
                    "pattern": match[1],
                    **({"path": match[2]} if match[2] else {}),
                },
            }
        ]
    match = re.match(
        r"(?i)\s*list\b(?: (?:the )?(?:files )?(?:of |in )?(\S+))?", prompt
    )
    if match:
        return [{"name": "ls", "arguments": {"path": match[1] or "."}}]
    if re.search(r"(?i)\bread\b", prompt):
        paths = dict.fromkeys(path.rstrip(".") for path in re.findall(_PATH, prompt))
        return [{"name": "read", "arguments": {"path": path}} for path in paths]
    return []


_OTHER_NAMES = {
    "path": ("file_path", "file", "filename", "dir", "directory"),
    "content": ("text",),
    "command": ("cmd",),
    "pattern": ("query", "regex"),
    "old_text": ("old", "old_string", "oldText", "search"),
    "new_text": ("new", "new_string", "newText", "replace"),
}


def _with_offered_names(call: dict[str, Any], body: dict[str, Any]) -> dict[str, Any]:
    """Rename the arguments of a call to those of the offered tool."""
    for tool in body.get("tools") or ():
        function = tool.get("function", {})
        if function.get("name") == call["name"]:
            properties = function.get("parameters", {}).get("properties", {})
            renamed = {
                next(
                    (
                        name
                        for name in (key, *_OTHER_NAMES.get(key, ()))
                        if name in properties
                    ),
                    key,
                ): value
                for key, value in call["arguments"].items()
            }
            return {"name": call["name"], "arguments": renamed}
    return call


def _key(call: dict[str, Any]) -> str:
    return f"{call['name']} {sorted(call['arguments'].items())}"


def _first_line(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), "")


def _last_line_answer(content: str) -> dict[str, Any]:
    lines = [line.strip() for line in content.splitlines() if line.strip()]
    return {
        "text": f"The last line of the result is: {lines[-1] if lines else '(nothing)'}"
    }


def session_transcript(body: dict[str, Any]) -> str:
    """Return the session as a transcript, if a summary is requested at its end."""
    labels = {"user": "[User]", "assistant": "[Assistant]", "tool": "[Tool result]"}
    talk = [
        (labels.get(m["role"], ""), text_of(m.get("content")))
        for m in body["messages"][:-1]
    ]
    lines = "\n\n".join(f"{label}: {text}" for label, text in talk if label)
    before = "\n".join(_between(text, "summary") for _, text in talk)
    return f"<conversation>\n{lines}\n</conversation>\n<previous-summary>\n{before}\n</previous-summary>\n"


def summary(content: str) -> str:
    """Return a plausible summary of the `<conversation>` in a text.

    It has the sections that the prompt asks for.
    """
    talk = _between(content, "conversation")
    before = _between(content, "previous-summary")
    instructions = content.replace(talk, "")
    lines = [line.strip() for line in talk.splitlines() if line.strip()]
    requests = [line for line in lines if line.startswith("[User]")] or lines[:1]
    constraints = [
        line
        for line in lines
        if re.search(
            r"\b(must|never|only|do not|don't)\b|必须|不要", line, re.IGNORECASE
        )
    ]
    # Long lines are data, and slow to search.
    short = "\n".join(line for line in lines if len(line) < 400)
    paths = sorted({str(PurePosixPath(path)) for path in re.findall(_PATH, short)})[:12]
    facts = [line for line in lines if not line.startswith("[")][-4:]
    if "Original Request" in instructions and "Critical Context" not in instructions:
        return _sections(
            ("Original Request", requests[-1:]),
            ("Early Progress", [f"Looked at {path}" for path in paths]),
            ("Context for Suffix", facts),
        )
    old_lines = [line for line in before.splitlines() if line.startswith("- ")][:10]
    return _sections(
        ("Goal", requests[:1]),
        ("Constraints & Preferences", constraints[:4]),
        ("Progress", [*old_lines, *(f"Done: looked at {path}" for path in paths)]),
        ("Key Decisions", ["Work through the requests in order"]),
        ("Next Steps", requests[-1:]),
        ("Critical Context", facts),
    )


def _sections(*sections: tuple[str, list[str]]) -> str:
    return "\n\n".join(
        f"## {title}\n"
        + "\n".join(
            f"- {line.removeprefix('- ')[:160]}" for line in lines or ["(none)"]
        )
        for title, lines in sections
    )


def _between(text: str, tag: str) -> str:
    match = re.search(rf"<{tag}>(.*)</{tag}>", text, re.DOTALL)
    return match[1] if match else ""
