"""Who speaks in a Claude Code session: what is the user's, and what only stands in their name."""

import pytest

from foldline.protocol import (
    DeveloperMessage,
    Title,
    Unknown,
    UserMessage,
)
from foldline.view.projection import project
from support.claude_code_rows import (
    PICTURE,
    Record,
    attachment,
    outside_tree,
    read,
    text,
    texts,
    user,
)


@pytest.mark.parametrize(
    ("record", "voice"),
    [
        (user("please"), "typed"),
        (user("<div> is centred, why?"), "typed"),
        (user("please", origin={"kind": "human"}), "typed"),
        (user("<bash-input>make</bash-input>"), "shell"),
        (user("<bash-stdout>ok</bash-stdout><bash-stderr></bash-stderr>"), "shell"),
        (
            user(
                "<command-name>/review</command-name>\n<command-args>all</command-args>"
            ),
            "machine",
        ),
        (user("<command-message>review</command-message>"), "machine"),
        (user("Implement the following plan: …", planContent="…"), "machine"),
        (user("Base directory for this skill: /s", isMeta=True), "notice"),
        (user("a report", origin={"kind": "task-notification"}), "notice"),
        (user("<local-command-stdout>Set model</local-command-stdout>"), "notice"),
        (user("<system-reminder>mind</system-reminder>"), "notice"),
        (
            user("<task-notification>\n<status>completed</status></task-notification>"),
            "notice",
        ),
        (user([text("<ide_opened_file>a.py is open</ide_opened_file>")]), "notice"),
        (user([text("[Request interrupted by user for tool use]")]), "notice"),
        (user("Operation stopped by hook: no"), "notice"),
        (user([PICTURE], isMeta=True), "machine"),
        (
            {
                "type": "system",
                "subtype": "local_command",
                "content": "<command-name>/x</command-name>",
            },
            "machine",
        ),
        (
            {
                "type": "system",
                "subtype": "local_command",
                "content": "<local-command-stdout>x",
            },
            "notice",
        ),
        (
            attachment("queued_command", prompt="also this", commandMode="prompt"),
            "typed",
        ),
        (attachment("queued_command", prompt=[text("and"), PICTURE]), "typed"),
        (
            attachment(
                "queued_command", prompt="it ended", commandMode="task-notification"
            ),
            "notice",
        ),
        (attachment("queued_command", prompt="it ended", isMeta=True), "notice"),
    ],
)
def test_only_what_the_user_typed_is_theirs(record: Record, voice: str) -> None:
    [message] = read(record).entries
    assert isinstance(message, DeveloperMessage if voice == "notice" else UserMessage)
    assert message.origin == voice


@pytest.mark.parametrize(
    ("record", "said"),
    [
        (attachment("hook_additional_context", content=["one", "two"]), "one\ntwo"),
        (
            attachment(
                "hook_success",
                hookEvent="SessionStart",
                content="lessons",
                stdout="raw",
            ),
            "lessons",
        ),
        (
            attachment(
                "nested_memory", path="/x/AGENTS.md", content={"content": "be kind"}
            ),
            "be kind",
        ),
        (attachment("mcp_instructions_delta", addedBlocks=["## wiki"]), "## wiki"),
        (
            attachment("total_tokens_reminder", text="<total_tokens>5</total_tokens>"),
            "<total_tokens>5</total_tokens>",
        ),
        (attachment("edited_text_file", filename="/x/a.py", snippet="1→a"), "1→a"),
        (
            attachment(
                "file",
                filename="/x/a.py",
                content={"type": "text", "file": {"content": "a = 1"}},
            ),
            "a = 1",
        ),
    ],
)
def test_attachments_for_the_model_are_machine_text(record: Record, said: str) -> None:
    [message] = read(record).entries
    assert isinstance(message, DeveloperMessage)
    assert (message.origin, message.text) == ("notice", said)


@pytest.mark.parametrize(
    "record",
    [
        attachment("hook_system_message", content="for people"),
        attachment("hook_success", hookEvent="PreToolUse", content="fine"),
        attachment("hook_success", hookEvent="SessionStart", content="", stdout="{}"),
        {"type": "progress", "data": {"type": "bash_progress", "output": "…"}},
        {"type": "system", "subtype": "turn_duration", "durationMs": 5},
        outside_tree("file-history-snapshot", messageId="m", snapshot={}),
    ],
)
def test_what_the_model_never_saw_is_kept_as_it_is(record: Record) -> None:
    session = read(user("hi"), record)
    assert texts(session) == ["hi"]
    kept = session.entries[1]
    assert isinstance(kept, Unknown)
    assert kept.type.startswith("claude-code.")
    assert session.notes == ()


def test_titles_are_those_of_this_session_and_a_given_one_wins() -> None:
    of_another = outside_tree(
        "summary", summary="Another session", leafUuid="elsewhere"
    )
    made = outside_tree("ai-title", aiTitle="Made")
    session = read(
        user("hi"),
        outside_tree("summary", summary="This one", leafUuid="u0"),
        of_another,
        made,
    )
    assert [entry.title for entry in session.entries if isinstance(entry, Title)] == [
        "This one",
        "Made",
    ]
    session = read(user("hi"), outside_tree("custom-title", customTitle="Given"), made)
    assert project(session.entries).title == "Given"
