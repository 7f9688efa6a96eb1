"""The test server's script: which answer a request gets.

A script is JSON: a list of rules, or `{"rules": [...]}`. The first rule that matches answers:

    {"when":   {"role": "user", "content": "regex", "tools": true, "nth": 3},   all optional
     "times":  2,                                     matches at most so often, then the next rules are tried
     "answer": {"text": "…", "thinking": "…",
                "tool_calls": [{"name": "read", "arguments": {"path": "${path}"}, "id": "call_1"}],
                "builtin": "calls" | "next_call" | "summary" | "last_line" | "reader" | "notes",
                "recorded": [{"text": "…", "tool_calls": […]}, …],   one after the other, as they stand
                "finish_reason": "length", "usage": {"prompt_tokens": 9}, "chunk": 12, "seconds": 0.5,
                "fault": {"status": 429, "body": {…} or "…", "headers": {"retry-after": "2"}}
                      or {"cut_after": 2} or {"stall_after": 0} or {"malformed_after": 1}
                      or {"pause": 0.01}, seconds before each piece,
                      or {"error_after": 1, "body": {…}} or {"raw": [{…}, "text", …]}
                      or {"hang": true}, which never answers, or {"unstreamed": true}, one JSON text
                      although a stream was asked for, or those of `server_wild`}}

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
    {"when": {"content": "<conversation>", "tools": False}, "answer": {"builtin": "summary"}},
    {"when": {"content": "<summary-request>"}, "answer": {"builtin": "summary"}},
    # "Read a.py and b.py one by one" asks for one file a step; without these words for all at once.
    {"when": {"role": "tool", "tools": True}, "answer": {"builtin": "next_call"}},
    {"when": {"role": "user", "tools": True}, "answer": {"builtin": "calls"}},
    {"answer": {"text": "You said: ${first_line}"}},
]
"""Follows requests such as `Read src/a.py and tell me its last line`, `List src`, `Run ls -l`, `Grep TODO`,
`Write notes.txt: some text`, `Replace 'a' with 'b' in notes.txt`; quotes the last line of what came back;
writes summaries of `<conversation>` texts. Anything else it repeats."""

_NOTE = re.compile(r"<system-note>.*?</system-note>", re.DOTALL)


@dataclass
class Script:
    """Rules, and what they have to remember between requests."""

    rules: list[dict[str, Any]]
    used: dict[int, int] = field(default_factory=dict)
    asked: dict[str, set[str]] = field(default_factory=dict)
    """Files already read for a prompt. Kept here, because a fold may remove the calls from the request."""
    reader: Reader = field(default_factory=Reader)

    def answer(self, body: dict[str, Any], nth: int) -> dict[str, Any]:
        """The answer to a request, templates filled in; a plain text where no rule matches."""
        last = body["messages"][-1]
        content = text_of(last.get("content"))
        for number, rule in enumerate(self.rules):
            match = _matches(rule.get("when", {}), last, content, bool(body.get("tools")), nth)
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
                return {"text": summary(content if "<conversation>" in content else told(body) + content)}
            case "last_line":
                return _last_line_answer(content)
            case "reader":
                return self.reader.answer(body)
            case "calls":
                if not _NOTE.sub("", content).strip():
                    # Images of a result, or another note of the machine: nobody has asked anything new.
                    return self._builtin("next_call", body, content)
                self.asked.pop(prompt, None)
                wanted = _wanted(prompt)
                if not wanted:
                    return {"text": f"You said: {_first_line(prompt)}"}
                if _stepwise(prompt):
                    wanted = wanted[:1]
                self.asked[prompt] = {_key(call) for call in wanted}
                return {"tool_calls": [_fitted(call, body) for call in wanted]}
            case "next_call":
                done = self.asked.setdefault(prompt, set())
                for call in _wanted(prompt) if _stepwise(prompt) else ():
                    if _key(call) not in done:
                        done.add(_key(call))
                        return {"tool_calls": [_fitted(call, body)]}
                return _last_line_answer(content)
            case _:
                raise ValueError(f"the script names no builtin {name!r}")


def _matches(
    when: dict[str, Any], last: dict[str, Any], content: str, tools: bool, nth: int
) -> dict[str, str] | None:
    """The named groups of the match; None where the rule does not apply."""
    if "role" in when and when["role"] != last.get("role"):
        return None
    if "tools" in when and when["tools"] != tools:
        return None
    if "nth" in when and nth not in (when["nth"] if isinstance(when["nth"], list) else [when["nth"]]):
        return None
    if "content" not in when:
        return {}
    found = re.search(when["content"], content, re.DOTALL)
    return None if found is None else {key: value or "" for key, value in found.groupdict().items()}


def _values(groups: dict[str, str], body: dict[str, Any], content: str, nth: int) -> dict[str, str]:
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
    """The last text a user typed: machine text is marked and left out."""
    for message in reversed(body["messages"]):
        if message.get("role") == "user":
            text = _NOTE.sub("", text_of(message.get("content"))).strip()
            if text:
                return text
    return ""


def _stepwise(prompt: str) -> bool:
    return "one by one" in prompt.lower()


def _wanted(prompt: str) -> list[dict[str, Any]]:
    """The tool calls a prompt asks for."""
    found = re.match(r"(?is)\s*write (\S+?):\s*(.+)", prompt)
    if found:
        return [{"name": "write", "arguments": {"path": found[1], "content": found[2]}}]
    found = re.search(r"(?is)\breplace '(.+?)' (?:with|by) '(.*?)' in (\S+)", prompt)
    if found:
        arguments = {"path": found[3], "old_text": found[1], "new_text": found[2]}
        return [{"name": "edit", "arguments": arguments}]
    found = re.match(r"(?i)\s*run (.+)", prompt)
    if found:
        return [{"name": "bash", "arguments": {"command": found[1].strip().strip("`")}}]
    found = re.match(r"(?i)\s*(?:grep|search for) (\S+)(?: in (\S+))?", prompt)
    if found:
        return [
            {"name": "grep", "arguments": {"pattern": found[1], **({"path": found[2]} if found[2] else {})}}
        ]
    found = re.match(r"(?i)\s*list\b(?: (?:the )?(?:files )?(?:of |in )?(\S+))?", prompt)
    if found:
        return [{"name": "ls", "arguments": {"path": found[1] or "."}}]
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


def _fitted(call: dict[str, Any], body: dict[str, Any]) -> dict[str, Any]:
    """The call with its arguments named as the offered tool names them."""
    for tool in body.get("tools") or ():
        function = tool.get("function", {})
        if function.get("name") == call["name"]:
            known = function.get("parameters", {}).get("properties", {})
            renamed = {
                next((name for name in (key, *_OTHER_NAMES.get(key, ())) if name in known), key): value
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
    return {"text": f"The last line of the result is: {lines[-1] if lines else '(nothing)'}"}


def told(body: dict[str, Any]) -> str:
    """The session itself as a transcript, where a summary is asked for at its end."""
    labels = {"user": "[User]", "assistant": "[Assistant]", "tool": "[Tool result]"}
    talk = [(labels.get(m["role"], ""), text_of(m.get("content"))) for m in body["messages"][:-1]]
    lines = "\n\n".join(f"{label}: {text}" for label, text in talk if label)
    before = "\n".join(_between(text, "summary") for _, text in talk)
    return f"<conversation>\n{lines}\n</conversation>\n<previous-summary>\n{before}\n</previous-summary>\n"


def summary(content: str) -> str:
    """A plausible summary of the `<conversation>` in a text, with the sections that its prompt asks for."""
    talk = _between(content, "conversation")
    before = _between(content, "previous-summary")
    asked = content.replace(talk, "")
    lines = [line.strip() for line in talk.splitlines() if line.strip()]
    requests = [line for line in lines if line.startswith("[User]")] or lines[:1]
    constraints = [
        line
        for line in lines
        if re.search(r"\b(must|never|only|do not|don't)\b|必须|不要", line, re.IGNORECASE)
    ]
    # Long lines are data, and slow to search.
    short = "\n".join(line for line in lines if len(line) < 400)
    paths = sorted({str(PurePosixPath(path)) for path in re.findall(_PATH, short)})[:12]
    facts = [line for line in lines if not line.startswith("[")][-4:]
    if "Original Request" in asked and "Critical Context" not in asked:
        return _sections(
            ("Original Request", requests[-1:]),
            ("Early Progress", [f"Looked at {path}" for path in paths]),
            ("Context for Suffix", facts),
        )
    kept = [line for line in before.splitlines() if line.startswith("- ")][:10]
    return _sections(
        ("Goal", requests[:1]),
        ("Constraints & Preferences", constraints[:4]),
        ("Progress", [*kept, *(f"Done: looked at {path}" for path in paths)]),
        ("Key Decisions", ["Work through the requests in order"]),
        ("Next Steps", requests[-1:]),
        ("Critical Context", facts),
    )


def _sections(*sections: tuple[str, list[str]]) -> str:
    return "\n\n".join(
        f"## {title}\n" + "\n".join(f"- {line.removeprefix('- ')[:160]}" for line in lines or ["(none)"])
        for title, lines in sections
    )


def _between(text: str, tag: str) -> str:
    found = re.search(rf"<{tag}>(.*)</{tag}>", text, re.DOTALL)
    return found[1] if found else ""
