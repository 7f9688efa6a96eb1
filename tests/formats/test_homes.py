"""Where other agents' sessions are looked for, and which files there are sessions."""

from pathlib import Path

import pytest

from foldline.formats.homes import AGENT_FOLDERS, folders_of
from support.agent_homes import AgentHomes
from support.codex_rows import META


@pytest.fixture
def homes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AgentHomes:
    return AgentHomes(tmp_path, monkeypatch)


def _files(agent: str) -> set[Path]:
    place = folders_of(agent)
    assert place is not None
    return set(place.files())


def test_a_home_without_agents_has_no_sessions_and_no_errors(homes: AgentHomes) -> None:
    assert [path for place in AGENT_FOLDERS for path in place.files()] == []


def test_claude_code_is_found_in_its_old_and_its_new_folder(homes: AgentHomes) -> None:
    old = homes.put(".claude/projects/-x/a.jsonl")
    new = homes.put(".config/claude/projects/-x/b.jsonl")
    assert _files("claude-code") == {old, new}


@pytest.mark.parametrize(
    ("variable", "agent", "place"),
    [
        ("CLAUDE_CONFIG_DIR", "claude-code", "projects/-x/a.jsonl"),
        ("CODEX_HOME", "codex", "sessions/2026/01/02/rollout-a.jsonl"),
        ("PI_CODING_AGENT_DIR", "pi", "sessions/--x--/a.jsonl"),
        ("PI_CODING_AGENT_SESSION_DIR", "pi", "a.jsonl"),
        ("KIMI_SHARE_DIR", "kimi-cli", "sessions/0/k1/context.jsonl"),
        ("KIMI_CODE_HOME", "kimi-cli", "sessions/wd_x/k1/agents/main/wire.jsonl"),
        (
            "GEMINI_CLI_HOME",
            "gemini-cli",
            ".gemini/tmp/p/chats/session-2026-01-02T03-04-abcdef01.jsonl",
        ),
        ("QWEN_HOME", "qwen-code", "projects/-x/chats/q1.jsonl"),
        ("COPILOT_HOME", "copilot", "session-state/c1/events.jsonl"),
        ("VIBE_HOME", "mistral-vibe", "logs/session/unified/v1/CURRENT"),
        ("QWEN_RUNTIME_DIR", "qwen-code", "projects/-x/chats/q1.jsonl"),
    ],
)
def test_a_variable_of_the_environment_names_another_folder(
    homes: AgentHomes,
    monkeypatch: pytest.MonkeyPatch,
    variable: str,
    agent: str,
    place: str,
) -> None:
    path = homes.put(f"elsewhere/{place}")
    assert _files(agent) == set()
    monkeypatch.setenv(variable, "~/elsewhere")
    assert _files(agent) == {path}


def test_a_session_that_gemini_went_on_with_in_its_new_form_is_one(
    homes: AgentHomes,
) -> None:
    old = homes.put(".gemini/tmp/p/chats/session-a.json")
    homes.put(".gemini/tmp/p/chats/session-b.json")
    new = homes.put(".gemini/tmp/p/chats/session-b.jsonl")
    homes.put(".gemini/tmp/p/chats/a1b2/sub-agent.jsonl")
    assert _files("gemini-cli") == {old, new}


def test_archived_sessions_of_codex_are_found(homes: AgentHomes) -> None:
    kept = homes.put(".codex/sessions/2026/01/02/rollout-a.jsonl", META)
    archived = homes.put(".codex/archived_sessions/rollout-b.jsonl", META)
    assert _files("codex") == {kept, archived}


def test_oh_my_pi_is_found_with_pi(homes: AgentHomes) -> None:
    path = homes.put(".omp/agent/sessions/-x/1_a.jsonl")
    assert _files("pi") == {path}


def test_files_of_sub_agents_are_no_sessions(homes: AgentHomes) -> None:
    homes.put(".claude/projects/-x/agent-1.jsonl")
    homes.put(".claude/projects/-x/a/subagents/agent-2.jsonl")
    homes.put(".kimi/sessions/0/k1/subagents/s/context.jsonl")
    homes.put(".kimi-code/sessions/wd_x/k1/agents/agent-0/wire.jsonl")
    homes.put(".omp/agent/sessions/-x/1_a/task.jsonl")
    assert [path for place in AGENT_FOLDERS for path in place.files()] == []


def test_a_folder_of_kimi_is_one_session(homes: AgentHomes) -> None:
    context = homes.put(".kimi/sessions/0/k1/context.jsonl")
    for piece in ("context_1", "context_2", "context_sub_1", "wire"):
        homes.put(f".kimi/sessions/0/k1/{piece}.jsonl")
    wire = homes.put(".kimi/sessions/0/k2/wire.jsonl")
    assert _files("kimi-cli") == {context, wire}


def test_an_old_session_of_kimi_is_a_file_until_it_was_moved_into_a_folder(
    homes: AgentHomes,
) -> None:
    old = homes.put(".kimi/sessions/0/aa.jsonl")
    homes.put(".kimi/sessions/0/aa_1.jsonl")
    homes.put(".kimi/sessions/0/bb.jsonl")
    moved = homes.put(".kimi/sessions/0/bb/context.jsonl")
    assert _files("kimi-cli") == {old, moved}


@pytest.mark.parametrize(
    ("agent", "path", "name"),
    [
        ("claude-code", "/h/projects/-x/0a1b.jsonl", "0a1b"),
        (
            "codex",
            "/h/rollout-2026-01-02T03-04-05-0a1b2c3d-1111-4222-8333-444455556666.jsonl",
            "0a1b2c3d-1111-4222-8333-444455556666",
        ),
        ("codex", "/h/rollout-odd.jsonl", "rollout-odd"),
        ("pi", "/h/--x--/2026-01-02T03-04-05-678Z_0a1b.jsonl", "0a1b"),
        ("kimi-cli", "/h/sessions/0/k1/context.jsonl", "k1"),
        ("kimi-cli", "/h/sessions/0/k1.jsonl", "k1"),
        ("kimi-cli", "/h/sessions/wd_x/session_1/agents/main/wire.jsonl", "session_1"),
        ("klaude-code", "/h/projects/-x/sessions/abc/events.jsonl", "abc"),
    ],
)
def test_an_id_is_told_by_the_path(agent: str, path: str, name: str) -> None:
    place = folders_of(agent)
    assert place is not None
    assert place.id_of(Path(path)) == name
