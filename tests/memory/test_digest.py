"""The digest: quotes within a budget, continuing an earlier summary."""

import json
import re
from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foldline.memory.digest import SMALLEST, digest
from foldline.memory.language import NONE, SECTIONS, parse_summary
from foldline.protocol import (
    AssistantMessage,
    BaseMessage,
    SystemMessage,
    TextPart,
    ToolCallPart,
    ToolResultMessage,
    text_parts,
)
from foldline.view.tokens import estimate_tokens
from support.messages import assistant, user
from support.pi_messages import pi_messages
from support.recordings import needs_recorded, recordings

HEADINGS = [
    "## Goal",
    "## Constraints & Preferences",
    "## Progress",
    "### Done",
    "### In Progress",
    "### Blocked",
    "## Key Decisions",
    "## Next Steps",
    "## Critical Context",
]


def group(
    name: str, result: str, *, failed: bool = False, text: str = "", **arguments: str
):
    """Build a call with one result; its id is derived from both."""
    call_id = f"{name} {arguments} {result}"
    call = ToolCallPart(call_id=call_id, name=name, arguments=json.dumps(arguments))
    parts = (TextPart(text=text), call) if text else (call,)
    return [
        AssistantMessage(parts=parts),
        ToolResultMessage(
            call_id=call_id, name=name, is_error=failed, parts=text_parts(result)
        ),
    ]


def work() -> list[BaseMessage]:
    return [
        user(
            "The retry from the mobile app still makes two orders. Find out why. "
            "Never touch the payments table."
        ),
        *group("grep", "src/orders.py:4: idempotency_key", pattern="idempotency_key"),
        *group("read", "def create():\n    pass\n", path="src/shop/orders.py"),
        *group(
            "bash",
            "1 failed\nValueError: duplicate key\n[exit 1]",
            failed=True,
            command="pytest -k retry",
        ),
        assistant(
            "The root cause is that the lookup and the insert are in different transactions."
        ),
        user("Yes, use a unique index. Port 5433 is the test database."),
        *group(
            "edit",
            "Edited src/shop/orders.py: 1 replacement.",
            path="src/shop/orders.py",
            old="a",
            new="b",
        ),
        *group("bash", "31 passed in 9.3s", command="pytest -q"),
        assistant(
            "Done. A retry now gets the first order back.\n\n- [ ] update the changelog"
        ),
        user("Now the same for cancel, please."),
        *group(
            "read",
            "def cancel():\n",
            path="src/shop/cancel.py",
            text="I look at cancel first.",
        ),
    ]


def section(summary: str, name: str) -> list[str]:
    return [line for found, line in parse_summary(summary) if found.name == name]


def make(
    messages: Sequence[BaseMessage],
    tokens: int = 1500,
    previous: str | None = None,
    focus: str | None = None,
):
    return digest(messages, previous=previous, focus=focus, max_tokens=tokens)


def test_a_digest_has_the_summary_sections_in_order_and_none_empty():
    lines = make(work()).splitlines()
    found = [line for line in lines if line.startswith("#")]
    assert found == [heading for heading in HEADINGS if heading in found]
    assert all(line.startswith(("#", "- ")) for line in lines)
    assert not [
        line
        for line, after in pairwise([*lines, "#"])
        if after.startswith("#") and not line.startswith("- ") and line != "## Progress"
    ]
    assert make([user("Look around."), assistant("Nothing there.")]).splitlines() == [
        "## Goal",
        "- Look around.",
        "## Progress",
        "### Done",
        "- Look around. → Nothing there.",
    ]


def test_requests_are_the_goal_and_constraints_are_verbatim():
    summary = make(work())
    assert section(summary, "Goal")[0].startswith(
        "The retry from the mobile app still makes two orders."
    )
    assert "Now the same for cancel, please." in section(summary, "Goal")
    assert "Never touch the payments table." in section(
        summary, "Constraints & Preferences"
    )


def test_completed_work_is_listed_with_its_outcome():
    done = section(
        make([*work(), *group("read", "x = 1\n" * 200, path="src/shop/cancel.py")]),
        "Done",
    )
    assert "edit · src/shop/orders.py" in done
    assert "bash · pytest -q → 31 passed in 9.3s" in done
    assert any(
        line.startswith("Yes, use a unique index.") and "A retry now gets" in line
        for line in done
    )


def test_an_unanswered_request_is_in_progress():
    progress = section(make(work()), "In Progress")
    assert progress == [
        "Now the same for cancel, please.",
        "I look at cancel first.",
        "read · src/shop/cancel.py",
    ]


def test_decisions_todos_and_values_appear_in_their_sections():
    summary = make(
        [*work(), *group("read", "x = 1\n" * 200, path="src/shop/cancel.py")]
    )
    assert any("root cause" in line for line in section(summary, "Key Decisions"))
    assert "update the changelog" in section(summary, "Next Steps")
    assert any("duplicate key" in line for line in section(summary, "Critical Context"))


def test_a_command_failing_at_the_end_is_a_blocker():
    messages = [
        user("Make the tests pass."),
        *group("bash", "E   assert 1 == 2\nValueError: no\n", command="pytest"),
    ]
    assert section(make(messages), "Blocked") == ["bash · pytest → ValueError: no"]


def test_a_command_that_passed_later_is_not_a_blocker():
    messages = [
        user("Make the tests pass."),
        *group("bash", "ValueError: no\n", command="pytest"),
        *group("bash", "2 passed\n", command="pytest"),
    ]
    assert section(make(messages), "Blocked") == []


def test_an_error_is_listed_with_its_follow_up():
    messages = [
        *work()[:7],
        *group("bash", "ok", command="true", text="The key has to be unique."),
        assistant("Done."),
    ]
    (told,) = [
        line
        for line in section(make(messages), "Critical Context")
        + section(make(messages), "Blocked")
        if "duplicate key" in line
    ]
    assert (
        told
        == "bash · pytest -k retry → ValueError: duplicate key → The key has to be unique."
    )


def test_a_resolved_error_is_listed_with_its_fix_and_is_not_a_blocker():
    messages = [
        user("Make the tests pass."),
        *group("bash", "ValueError: no such key\n", command="pytest"),
        *group("read", "x = 1\n" * 200, path="src/a.py"),
        *group("edit", "Edited src/a.py.", path="src/a.py"),
        *group("bash", "2 passed\n", command="pytest"),
    ]
    told = "bash · pytest → ValueError: no such key → edit · src/a.py → 2 passed"
    assert told in section(make(messages), "Critical Context")
    assert section(make(messages), "Blocked") == []


def test_an_earlier_blocker_is_resolved_when_the_same_command_passes():
    first = make(
        [
            user("Make the tests pass."),
            *group("bash", "ValueError: no\n", command="pytest"),
        ]
    )
    assert section(first, "Blocked") == ["bash · pytest → ValueError: no"]
    second = make(
        [
            *group("bash", "2 passed\n", command="pytest"),
            assistant("All of them pass."),
        ],
        previous=first,
    )
    assert "ValueError" not in second


@pytest.mark.parametrize(
    ("before", "after", "outcome"),
    [
        ("It is read.", "I could not follow.", "It is read."),
        ("Shall I split it?", "Then I leave it.", "Then I leave it."),
    ],
)
def test_an_assent_without_work_has_no_outcome_unless_it_was_requested(
    before: str, after: str, outcome: str
) -> None:
    said = [
        user("Read a.py."),
        *group("read", "text", path="a.py"),
        assistant(before),
        user("ok"),
        assistant(after),
    ]
    assert (
        section(make([*said, user("Read b.py."), assistant("Read.")]), "Done")[0]
        == f"Read a.py. → {outcome}"
    )


def test_an_assent_followed_by_work_is_listed_with_the_outcome() -> None:
    said = [
        user("Read a.py."),
        assistant("It is read."),
        user("go on"),
        *group("read", "text", path="b.py"),
    ]
    text = make(
        [*said, assistant("b.py is read, too."), user("Read c.py."), assistant("Read.")]
    )
    assert section(text, "Done")[0] == "Read a.py. → b.py is read, too."


@pytest.mark.parametrize(
    "assent",
    [
        "ok",
        "- ok",
        "Yes, please!",
        "go on",
        "/compact",
        "好的，继续。",
        "👍 thanks",
        "是的",
    ],
)
def test_an_assent_is_neither_a_request_nor_a_goal(assent: str):
    messages = [
        user(assent),
        assistant("What shall I do?"),
        user("Rename the module shop to store."),
        assistant("I would touch four files. Shall I?"),
        user(assent),
        *group("bash", "4 files changed", command="git mv shop store"),
        assistant("The module is called store now."),
    ]
    summary = make(messages)
    assert section(summary, "Goal") == ["Rename the module shop to store."]
    assert (
        "Rename the module shop to store. → The module is called store now."
        in section(summary, "Done")
    )
    assert section(summary, "In Progress") == []
    assert (
        section(
            make(
                [user("Next part."), assistant("Fine.")],
                previous=f"## Goal\n- {assent}\n- x",
            ),
            "Goal",
        )[0]
        == "x"
    )


@pytest.mark.parametrize(
    ("asked", "said", "answered"),
    [
        (
            "Add a retry to the client.",
            "I look at the client.",
            "The client tries three times now.",
        ),
        ("给客户端加上重试。", "我先看一下客户端的代码。", "客户端现在会重试三次。"),
    ],
)
def test_work_in_progress_is_done_once_it_is_answered(
    asked: str, said: str, answered: str
):
    open_ = make(
        [user(asked), *group("read", "class Client:\n", text=said, path="client.py")]
    )
    assert section(open_, "In Progress") == [asked, said, "read · client.py"]
    middle = make(group("edit", "Edited client.py.", path="client.py"), previous=open_)
    assert section(middle, "In Progress") == [asked, "edit · client.py"]
    done = make([assistant(answered)], previous=middle)
    assert section(done, "In Progress") == []
    assert f"{asked} → {answered}" in section(done, "Done")
    assert section(done, "Goal") == [asked]


def test_decisions_are_neither_plans_nor_tables_nor_questions_nor_offers():
    decided = [
        "We go with a unique index instead of a lock.",
        "决定采用唯一索引。",
        "The root cause is a missing transaction.",
    ]
    noise = [
        "Let me use a different approach instead of this one.",
        "I'll run the tests because they are quick.",
        "Which approach do you prefer instead of that?",
        "| Approach | instead of | effort |",
        "**Approach 3: instead of a lock**",
        "To talk to a real model, choose one with /model in the chat.",
        "要使用真正的模型，请在聊天中用 /model 选择。",
    ]
    messages = [
        user("Look around."),
        assistant("\n\n".join([*noise, *decided])),
        *group("read", "x\n" * 900, path="a"),
    ]
    assert section(make(messages), "Key Decisions") == decided


def test_a_tools_todo_list_gives_the_done_and_next_items():
    todos = [
        {"content": "find the cause", "status": "completed"},
        {"content": "write the fix", "status": "in_progress"},
        {"content": "update the docs", "status": "pending"},
        {"content": "rename all", "status": "cancelled"},
    ]
    call = ToolCallPart(
        call_id="t", name="todo", arguments=json.dumps({"todos": todos})
    )
    messages: list[BaseMessage] = [
        user("Fix the retry."),
        AssistantMessage(parts=(call,)),
        ToolResultMessage(call_id="t", name="todo", parts=text_parts("Kept.")),
    ]
    summary = make(messages)
    assert "find the cause" in section(summary, "Done")
    assert "write the fix" in section(summary, "In Progress")
    assert section(summary, "Next Steps") == ["update the docs"]
    assert "rename all" not in summary


def test_information_from_the_user_is_context_and_not_a_goal():
    told = [
        "FACT: The staging host is demo.internal.",
        "RULE: Report all times in UTC.",
        "TASK: Move to OAuth.",
    ]
    messages = [
        message for text in told for message in (user(text), assistant("Noted."))
    ]
    summary = make(
        [*messages, user("The webhook tries three times."), assistant("Noted.")]
    )
    assert section(summary, "Goal") == ["TASK: Move to OAuth."]
    assert section(summary, "Constraints & Preferences") == [
        "RULE: Report all times in UTC."
    ]
    assert section(summary, "Critical Context") == [
        told[0],
        "The webhook tries three times.",
    ]
    assert section(summary, "Done") == []
    assert summary.count("UTC") == summary.count("OAuth") == 1


def test_newer_constraints_displace_older_ones_when_room_runs_out():
    summary = None
    for round_ in range(12):
        rule = user(
            f"Never touch the table number {round_} of the payments database again."
        )
        summary = make(
            [rule, assistant(f"I leave table {round_} alone.")],
            tokens=260,
            previous=summary,
        )
    rules = section(summary, "Constraints & Preferences")
    assert "number 11" in rules[-1]
    assert "number 0" not in "".join(rules)


def test_an_earlier_summary_is_carried_over_section_by_section():
    first = make(work())
    second = make(
        [user("Write the docs."), assistant("The docs are written in docs/api.md.")],
        previous=first,
    )
    for name in ("Goal", "Constraints & Preferences", "Key Decisions"):
        assert set(section(first, name)) <= set(section(second, name)), name
    assert "Write the docs." in section(second, "Goal")


def test_a_summary_among_the_messages_is_an_earlier_summary():
    framed = f"This is a record.\n<summary>\n{make(work())}\n</summary>"
    summary = SystemMessage(origin="summary", parts=text_parts(framed))
    second = make([summary, user("Write the docs.")])
    assert "Never touch the payments table." in section(
        second, "Constraints & Preferences"
    )
    assert "This is a record." not in second


@pytest.mark.parametrize(
    "name", ["ledger", "kept-below", "last-user-messages", "read-files"]
)
def test_lists_appended_by_every_compaction_are_not_carried_over(name: str):
    earlier = "## Goal\n- Write the docs.\n\n<standing-constraints>\nNever push.\n</standing-constraints>\n\n"
    lines = list(
        parse_summary(
            f"{earlier}<{name}>\n[entry 4]: secret_name other_name\n</{name}>"
        )
    )
    assert [line for _, line in lines] == ["Write the docs.", "Never push."]


def test_an_outcome_quotes_the_beginning_of_the_answer():
    answer = (
        "## Result\n\nDone.\n\n1. The cache is gone.\n2. `make` passes.\n\n"
        "By the way: I am a small program."
    )
    done = section(
        make([user("Remove the cache, please, everywhere."), assistant(answer)]), "Done"
    )
    assert done == [
        "Remove the cache, please, everywhere. → The cache is gone. … `make` passes."
    ]


def test_ten_compactions_keep_goal_and_constraint():
    summary = None
    for round_ in range(10):
        messages = (
            work()
            if round_ == 0
            else [user(f"Task number {round_}."), assistant(f"Task {round_} is done.")]
        )
        summary = make(messages, tokens=600, previous=summary)
    assert section(summary, "Goal")[0].startswith("The retry from the mobile app")
    assert "Never touch the payments table." in section(
        summary, "Constraints & Preferences"
    )


def test_a_section_repeats_no_line():
    first = make(work())
    lines = make(work(), previous=first).splitlines()
    told = [line for line in lines if line.startswith("- ")]
    for found in SECTIONS:
        in_section = section("\n".join(lines), found.name)
        assert len(in_section) == len(set(in_section))
    assert told


def test_a_focus_adds_matching_lines():
    filler = [
        assistant(f"Remark {n} because of something quite unrelated to it.")
        for n in range(60)
    ]
    messages = [
        user("Look around."),
        *filler[:30],
        *group("read", "timeout_seconds = 17\nother = 2\n", path="settings.toml"),
        *filler[30:],
    ]
    assert "timeout_seconds = 17" not in make(messages, tokens=300)
    assert "timeout_seconds = 17" in make(messages, tokens=300, focus="the timeout")


def test_a_focus_adds_a_few_lines_and_not_a_whole_file():
    page = "\n".join(
        f"timeout_{n} = {n}  # the timeout of part {n}" for n in range(400)
    )
    messages = [
        user("Look around."),
        *group("read", page, path="settings.toml"),
        assistant("Nothing special."),
    ]
    summary = make(messages, tokens=3000, focus="the timeout")
    assert 1 <= summary.count("# the timeout of part") <= 2
    assert estimate_tokens(summary) < 150


def test_a_chinese_focus_matches_too():
    messages = [
        user("开始吧。"),
        *(assistant(f"第{n}步已经完成，因为需要。") for n in range(40)),
        assistant("端口号是五四三三。"),
        assistant("好。"),
    ]
    assert "端口号是五四三三" not in make(messages, tokens=200)
    assert "端口号是五四三三" in make(messages, tokens=200, focus="端口")


def test_an_empty_conversation_has_no_digest():
    assert make([]) == ""


def test_a_history_without_text_still_has_a_digest():
    assert make(group("read", "", path="a.py"))
    assert make([assistant("👍")])


@pytest.mark.parametrize(
    "tokens", [1, 3, 10, 40, SMALLEST - 1, SMALLEST, 150, 400, 1000, 4000]
)
def test_the_digest_fits_its_budget_and_drops_the_goal_last(tokens: int):
    summary = make(work(), tokens=tokens, previous=make(work(), tokens=800))
    assert 0 < estimate_tokens(summary) <= tokens
    if tokens >= 40:
        assert "The retry" in summary


def test_the_same_history_gives_the_same_digest():
    assert make(work(), focus="cancel") == make(work(), focus="cancel")


def test_every_line_is_a_quote():
    assert not _invented(make(work(), tokens=3000), _all_text(work()))


@given(
    st.lists(st.tuples(st.sampled_from("uar"), st.text(max_size=300)), max_size=12),
    st.integers(1, 900),
)
def test_the_digest_of_any_text_is_quoted_and_within_the_budget(said, tokens):
    messages: list[BaseMessage] = []
    for kind, text in said:
        match kind:
            case "u":
                messages.append(user(text))
            case "a":
                messages.append(assistant(text))
            case _:
                messages += group("bash", text, command="x")
    summary = make(messages, tokens=tokens)
    assert estimate_tokens(summary) <= tokens
    assert not _invented(summary, _all_text(messages))


@pytest.mark.quick_cases(1)
@needs_recorded
@pytest.mark.parametrize("path", recordings("pi"), ids=lambda path: path.stem)
def test_repeated_digests_of_recorded_sessions_are_quotes_within_the_budget(path):
    messages = pi_messages(path)
    everything = _all_text(messages)
    summary: str | None = None
    step = max(len(messages) // 4, 1)
    for start in range(0, len(messages), step):
        summary = make(messages[start : start + step], tokens=1200, previous=summary)
        assert estimate_tokens(summary) <= 1200
    assert summary
    assert not _invented(summary, everything)
    assert not _invented(
        make(messages, tokens=6000, focus="error theme docs"), everything
    )


def _invented(summary: str, everything: str) -> list[str]:
    """Return parts of content lines not in the input, apart from list marks, arrows and ellipses."""
    lines = [line for line in summary.splitlines() if line not in (*HEADINGS, NONE)]
    pieces = [
        piece.strip()
        for line in lines
        for piece in re.split(r"…|→|·|, ", line.removeprefix("- "))
        if piece.strip()
    ]
    return [piece for piece in pieces if _flat(piece) not in everything]


def _all_text(messages: Sequence[BaseMessage]) -> str:
    found: list[str] = []
    for message in messages:
        found.append(message.text)
        if isinstance(message, AssistantMessage):
            for call in message.calls:
                found += [call.name, *_strings(call.parsed())]
    return _flat("\n".join(found))


def _strings(value: object) -> list[str]:
    match value:
        case str():
            return [value]
        case dict():
            return [text for inner in value.values() for text in _strings(inner)]
        case list():
            return [text for inner in value for text in _strings(inner)] + [
                " ".join(map(str, value))
            ]
    return []


def _flat(text: str) -> str:
    # The input may contain the digest's separators.
    return " ".join(re.sub(r"…|→|·", " ", text).split())


def test_claude_codes_headings_are_recognised_and_its_introduction_is_not_a_goal() -> (
    None
):
    earlier = (
        "This session is being continued from a previous conversation.\nAnalysis:\nI looked at all of it.\n\n"
        "Summary:\n1. Primary Request and Intent:\n   Scope the prompts to the checkpoint.\n\n"
        "2. Files and Code Sections:\n   - `explain.go`: has the helpers\n\n"
        "7. Pending Tasks:\n   - Review it\n\n"
        "8. Current Work:\n   All tests pass.\n"
    )
    lines = [(section.name, line) for section, line in parse_summary(earlier)]
    assert [line for name, line in lines if name == "Goal"] == [
        "Scope the prompts to the checkpoint."
    ]
    assert [line for name, line in lines if name == "Next Steps"] == ["Review it"]
    assert [line for name, line in lines if name == "In Progress"] == [
        "All tests pass."
    ]
    assert "`explain.go`: has the helpers" in [
        line for name, line in lines if name == "Critical Context"
    ]
