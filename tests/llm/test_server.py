"""The test server itself: its validator, tokens, cache, window and default model."""

import copy
import json
import os
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.server import RunningServer, running_server
from support.server_checks import (
    CACHE_STEP,
    PrefixCache,
    count,
    request_tokens,
    validate,
)

CALLS = [
    {
        "id": call_id,
        "type": "function",
        "function": {"name": "read", "arguments": '{"path": "a"}'},
    }
    for call_id in ("c1", "c2")
]
VALID: list[dict[str, Any]] = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "Look."},
    {"role": "assistant", "content": None, "tool_calls": CALLS},
    {"role": "tool", "tool_call_id": "c2", "content": "two"},
    {"role": "tool", "tool_call_id": "c1", "content": ""},
    {"role": "assistant", "content": "Done."},
    {"role": "user", "content": "Thanks."},
]
READ = {
    "type": "function",
    "function": {"name": "read", "parameters": {"properties": {"path": {}}}},
}


def post(server: RunningServer, body: Any) -> tuple[int, Any]:
    """Send a request without any client library."""
    request = urllib.request.Request(
        f"{server.base_url}/chat/completions",
        data=json.dumps(body).encode(),
        headers={"content-type": "application/json"},
    )
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=30) as response:
            return response.status, json.load(response)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def ask(
    server: RunningServer, messages: list[dict[str, Any]], **fields: Any
) -> tuple[int, Any]:
    return post(server, {"model": server.model, "messages": messages, **fields})


def _set(at: int, **fields: Any) -> Callable[[list[dict[str, Any]]], None]:
    return lambda messages: messages[at].update(fields)


def _drop(at: int) -> Callable[[list[dict[str, Any]]], None]:
    return lambda messages: messages.__delitem__(at)


def _call(**fields: Any) -> Callable[[list[dict[str, Any]]], None]:
    return lambda messages: messages[2]["tool_calls"][1].update(fields)


MUTATIONS: list[tuple[str, str, Callable[[list[dict[str, Any]]], None]]] = [
    ("a result is missing", "P1", _drop(3)),
    (
        "a user speaks inside a group",
        "P1",
        lambda m: m.insert(4, {"role": "user", "content": "wait"}),
    ),
    ("all results are missing", "P1", lambda m: m.__delitem__(slice(3, 5))),
    ("the last group is open", "P1", lambda m: m.__delitem__(slice(4, 7))),
    ("a result nobody asked for", "P2", lambda m: m.insert(2, dict(VALID[3]))),
    ("a result given twice", "P2", lambda m: m.insert(5, dict(VALID[3]))),
    ("a result with another id", "P2", _set(3, tool_call_id="c9")),
    ("a torn group's tail", "P2", _drop(2)),
    ("ids given twice", "P3", _call(id="c1")),
    ("an empty id", "P3", _call(id="")),
    (
        "arguments cut short",
        "P4",
        _call(function={"name": "read", "arguments": '{"path": '}),
    ),
    ("arguments missing", "P4", _call(function={"name": "read"})),
    ("no calls in tool_calls", "P5", _set(5, tool_calls=[])),
    ("an assistant says nothing", "P6", _set(5, content=None)),
    ("an assistant says an empty text", "P6", _set(5, content="")),
    (
        "nobody asks",
        "P7",
        lambda m: [
            message.update(role="developer")
            for message in m
            if message["role"] == "user"
        ],
    ),
    ("a role nobody knows", "role", _set(1, role="human")),
    ("a user says nothing", "content", _set(6, content="")),
    ("a bad function name", "name", _call(function={"name": "a.b", "arguments": "{}"})),
]


@pytest.fixture(scope="module")
def server() -> Any:
    with running_server(window=4_000) as running:
        yield running


def test_a_valid_request_is_accepted() -> None:
    assert validate({"messages": VALID}, strict=True) == []


@pytest.mark.parametrize(
    ("rule", "mutate"),
    [row[1:] for row in MUTATIONS],
    ids=[row[0] for row in MUTATIONS],
)
def test_each_mutation_of_a_valid_request_is_rejected(
    rule: str, mutate: Callable[[list[dict[str, Any]]], None]
) -> None:
    messages = copy.deepcopy(VALID)
    mutate(messages)
    assert rule in {violation.rule for violation in validate({"messages": messages})}


def test_recorded_real_conversations_are_accepted_and_truncated_ones_are_not() -> None:
    folder = (
        os.environ.get("FOLDLINE_SHARED_SESSIONS")
        or Path(__file__).parents[3] / "shared" / "sessions"
    )
    recorded = Path(folder) / "tau-bench" / "gpt-4o-airline-even.json"
    if not recorded.exists():
        pytest.skip(f"no recorded sessions at {recorded}")
    for run in json.loads(recorded.read_text(encoding="utf-8")):
        messages = run["traj"]
        assert validate({"messages": messages}) == []
        results = [
            at for at, message in enumerate(messages) if message["role"] == "tool"
        ]
        for at in results:
            torn = [*messages[:at], *messages[at + 1 :]]
            assert "P1" in {
                violation.rule for violation in validate({"messages": torn})
            }


@pytest.mark.parametrize(
    ("rule", "mutate"),
    [
        ("S1", lambda m: m.insert(1, {"role": "system", "content": "more"})),
        ("S2", lambda m: m.__delitem__(1)),
        ("S3", lambda m: m.insert(1, {"role": "user", "content": "more"})),
    ],
)
def test_strict_servers_reject_more(
    rule: str, mutate: Callable[[list[dict[str, Any]]], None]
) -> None:
    messages = copy.deepcopy(VALID)
    mutate(messages)
    assert validate({"messages": messages}) == []
    assert rule in {
        violation.rule for violation in validate({"messages": messages}, strict=True)
    }


def test_a_violation_is_a_400_with_openais_wording(server: RunningServer) -> None:
    status, answer = ask(server, [*VALID[:3], VALID[5]])
    assert status == 400
    assert answer["error"]["type"] == "invalid_request_error"
    assert (
        "must be followed by tool messages responding to each 'tool_call_id'"
        in answer["error"]["message"]
    )
    assert server.requests()[-1].rejected == "invalid"


def test_a_request_is_logged_byte_for_byte(server: RunningServer) -> None:
    body = {
        "model": server.model,
        "messages": [{"role": "user", "content": "你好\u2028 ok"}],
    }
    post(server, body)
    assert server.requests()[-1].raw == json.dumps(body).encode()


def test_words_cost_one_token_and_ideographs_one_each() -> None:
    assert count("hello world") == 2
    assert count("你好世界") == 4
    assert count("a" * 70) == 10
    assert count("") == 0


def test_every_character_belongs_to_exactly_one_token() -> None:
    text = "Für 你好 ナ 한글 x_y\t\n\n {'a': 1234567}  🙂é\u0301 \r\n"
    message = {"messages": [{"role": "user", "content": text}]}
    assert "".join(request_tokens(message)[2:-1]) == text


def test_an_identical_request_is_cached_up_to_the_last_whole_block() -> None:
    tokens = request_tokens(
        {"messages": [{"role": "user", "content": "one two three " * 200}]}
    )
    cache = PrefixCache()
    assert cache.cached(tokens) == 0
    cache.remember(tokens)
    assert cache.cached(tokens) == len(tokens) // CACHE_STEP * CACHE_STEP
    assert len(tokens) - cache.cached(tokens) < CACHE_STEP


def test_a_change_in_the_first_token_leaves_nothing_cached() -> None:
    cache = PrefixCache()
    tokens = request_tokens(
        {"messages": [{"role": "user", "content": "one two three " * 200}]}
    )
    cache.remember(tokens)
    assert cache.cached(["changed", *tokens[1:]]) == 0
    assert (
        cache.cached(
            request_tokens(
                {
                    "messages": [
                        {"role": "user", "content": "x" + "one two three " * 200}
                    ]
                }
            )
        )
        == 0
    )


def test_an_extended_request_has_the_earlier_one_as_its_prefix() -> None:
    for end in range(2, len(VALID)):
        shorter = request_tokens({"tools": [READ], "messages": VALID[:end]})
        assert (
            request_tokens({"tools": [READ], "messages": VALID})[: len(shorter)]
            == shorter
        )


def test_a_change_in_the_tools_leaves_nothing_cached() -> None:
    cache = PrefixCache()
    messages = [{"role": "user", "content": "one two three " * 200}]
    cache.remember(request_tokens({"tools": [READ], "messages": messages}))
    assert cache.cached(request_tokens({"messages": messages})) == 0


def test_the_window_limit_includes_the_answer() -> None:
    with running_server(window=500) as server:
        messages = [{"role": "user", "content": "word " * 400}]
        status, answer = ask(server, messages)
        assert status == 200
        size = answer["usage"]["prompt_tokens"]
        assert size + answer["usage"]["completion_tokens"] <= 500
        assert ask(server, messages, max_tokens=500 - size)[0] == 200
        status, answer = ask(server, messages, max_tokens=501 - size)
        assert status == 400
        assert answer["error"]["code"] == "context_length_exceeded"
        status, answer = ask(server, [{"role": "user", "content": "word " * 600}])
        assert status == 400
        sentence = "This model's maximum context length is 500 tokens. However, your messages resulted in "
        assert answer["error"]["message"].startswith(sentence)
        assert [seen.rejected for seen in server.requests()] == [
            "",
            "",
            "too long",
            "too long",
        ]


def test_an_answer_that_does_not_fit_stops_with_length() -> None:
    with running_server(script=[{"answer": {"text": "word " * 50}}]) as server:
        _, answer = ask(server, [{"role": "user", "content": "go"}], max_tokens=10)
        assert answer["choices"][0]["finish_reason"] == "length"
        assert answer["usage"]["completion_tokens"] == 10


def test_the_default_model_reads_a_file_and_quotes_its_last_line(
    server: RunningServer,
) -> None:
    question = {
        "role": "user",
        "content": "Read notes/a.txt and tell me its last line.",
    }
    _, answer = ask(server, [question], tools=[READ])
    call = answer["choices"][0]["message"]["tool_calls"][0]
    assert json.loads(call["function"]["arguments"]) == {"path": "notes/a.txt"}
    said = {"role": "assistant", "content": None, "tool_calls": [call]}
    result = {"role": "tool", "tool_call_id": call["id"], "content": "first\nthe end\n"}
    _, answer = ask(server, [question, said, result], tools=[READ])
    assert answer["choices"][0]["message"]["content"].endswith("the end")


def test_the_default_model_reads_several_files_at_once_or_one_by_one(
    server: RunningServer,
) -> None:
    _, answer = ask(
        server, [{"role": "user", "content": "Read a.py, b.py and c.py."}], tools=[READ]
    )
    assert len(answer["choices"][0]["message"]["tool_calls"]) == 3
    messages = [{"role": "user", "content": "Read a.py, b.py and c.py one by one."}]
    paths = []
    for _ in range(3):
        _, answer = ask(server, messages, tools=[READ])
        (call,) = answer["choices"][0]["message"]["tool_calls"]
        paths.append(json.loads(call["function"]["arguments"])["path"])
        # As after a compaction: only the newest step is still in the request.
        messages = [
            messages[0],
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": call["id"], "content": "x"},
        ]
    assert paths == ["a.py", "b.py", "c.py"]
    _, answer = ask(server, messages, tools=[READ])
    assert answer["choices"][0]["message"]["content"]


def test_the_default_model_writes_summaries_with_the_requested_sections(
    server: RunningServer,
) -> None:
    said = "[User] Fix src/a.py, never touch b.py\n[Tool result] x\nline 42 fails"
    talk = f"<conversation>\n{said}\n</conversation>"
    _, answer = ask(
        server,
        [{"role": "user", "content": talk + "\nSummarise: Goal, Critical Context."}],
    )
    text = answer["choices"][0]["message"]["content"]
    for part in (
        "Goal",
        "Constraints & Preferences",
        "Progress",
        "Key Decisions",
        "Next Steps",
        "Critical Context",
    ):
        assert f"## {part}" in text
    assert "never touch b.py" in text
    assert "line 42 fails" in text
    _, answer = ask(
        server,
        [{"role": "user", "content": talk + "\nOriginal Request, Early Progress"}],
    )
    assert "## Original Request" in answer["choices"][0]["message"]["content"]


def test_a_script_fills_its_templates_and_counts_its_matches() -> None:
    script = [
        {
            "when": {"content": r"say (?P<word>\w+)"},
            "times": 1,
            "answer": {"text": "${word}!"},
        },
        {"when": {"nth": 3}, "answer": {"text": "third"}},
        {
            "when": {"role": "user", "tools": False},
            "answer": {"text": "else: ${last_line}"},
        },
    ]
    with running_server(script=script) as server:
        texts = []
        for _ in range(3):
            _, answer = ask(server, [{"role": "user", "content": "please\nsay yes"}])
            texts.append(answer["choices"][0]["message"]["content"])
        assert texts == ["yes!", "else: say yes", "third"]


def test_the_server_ends_when_its_parent_process_closes_the_pipe() -> None:
    with running_server() as server:
        server.close()
        assert server._process.returncode == 0
