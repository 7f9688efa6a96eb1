"""What a list says of other agents' sessions, and that it reads little of them."""

import json
import random
import shutil
from hashlib import sha256
from pathlib import Path

import pytest

from foldline.formats import read_foreign
from foldline.formats.homes import AMBIGUOUS, NO_SUCH_SESSION, find_in_homes
from foldline.formats.session_list import found_sessions
from foldline.history.meta import describe
from foldline.protocol import FoldlineError
from support.agent_homes import AgentHomes, claude_prompt, only_session
from support.claude_code_rows import outside_tree, piece, result, text
from support.codex_rows import event, message_row, prompt, row
from support.foreign import DAMAGERS, Damager
from support.recordings import SHARED, needs_recorded
from support.vibe_store import VibeStore
from support.vibe_store import prompt as asked


@pytest.fixture
def homes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AgentHomes:
    return AgentHomes(tmp_path, monkeypatch)


# --- each agent -------------------------------------------------------------------------------------


def test_claude_code_is_listed_by_the_first_prompt_behind_what_the_program_says(
    homes: AgentHomes,
) -> None:
    path = homes.claude_code(
        claude_prompt("<command-name>/clear</command-name>"),
        claude_prompt("<local-command-stdout></local-command-stdout>"),
        {**claude_prompt("Caveat: the messages below"), "isMeta": True},
        claude_prompt("mend the clock"),
        piece("m1", text("Done."), model="claude-x"),
    )
    found = only_session("claude-code")
    assert (found.title, found.first_prompt, found.cwd, found.model, found.note) == (
        "mend the clock", "mend the clock", "/x", "claude-x", ""
    )  # fmt: skip
    assert (found.id, found.path, found.size) == (path.stem, path, path.stat().st_size)
    assert found.updated_at.timestamp() == path.stat().st_mtime


def test_the_title_of_claude_code_is_found_at_the_end_of_a_long_file(
    homes: AgentHomes,
) -> None:
    work = [result(f"c{turn}", "x" * 4000) for turn in range(400)]
    homes.claude_code(
        claude_prompt("mend the clock"),
        *work,
        outside_tree("ai-title", aiTitle="The clock"),
    )
    assert (
        only_session("claude-code").title,
        only_session("claude-code").first_prompt,
    ) == (
        "The clock",
        "mend the clock",
    )


def test_a_fork_of_codex_is_listed_by_its_own_prompt_and_its_base_is_not_read(
    homes: AgentHomes,
) -> None:
    pieces = [{"type": "text", "text": "go on"}]
    typed = event("item_completed", item={"type": "UserMessage", "content": pieces})
    before = homes.codex(*prompt("the beginning"))
    end = before.stat().st_size
    base = {
        "thread_id": before.stem[-36:],
        "end_byte_offset": end,
        "end_ordinal_exclusive": 9,
    }
    path = homes.codex(
        message_row("user", "not typed"),
        message_row("user", "go on"),
        typed,
        meta=row("session_meta", id="cx-2", cwd="/x", history_base=base),
    )
    found = [each for each in found_sessions(["codex"]) if each.path == path]
    assert [(each.title, each.note) for each in found] == [("go on", "")]
    assert "the beginning" in [
        getattr(entry, "text", "") for entry in read_foreign(path).entries
    ]


GEMINI = [
    {
        "sessionId": "s1",
        "projectHash": "p",
        "startTime": "2026-04-29T21:39:22Z",
        "kind": "main",
    },
    {
        "id": "1",
        "type": "user",
        "timestamp": "2026-04-29T21:39:33Z",
        "content": [{"text": "mend the clock"}],
    },
    {
        "id": "2",
        "type": "gemini",
        "timestamp": "2026-04-29T21:39:35Z",
        "content": "Done.",
        "model": "gemini-3",
    },
]


@pytest.mark.parametrize("form", ["log", "document"])
def test_a_session_of_gemini_is_listed_with_the_folder_of_its_project(
    homes: AgentHomes, form: str
) -> None:
    chats = ".gemini/tmp/clock/chats/session-2026-04-29T21-39-abcdef01"
    homes.write(".gemini/tmp/clock/.project_root", b"/work/clock")
    if form == "log":
        homes.put(f"{chats}.jsonl", *GEMINI, {"$set": {"summary": "The clock"}})
    else:
        document = {**GEMINI[0], "summary": "The clock", "messages": GEMINI[1:]}
        homes.write(f"{chats}.json", json.dumps(document, indent=2).encode())
    (found,) = found_sessions(["gemini-cli"], Path("/work/clock"))
    assert (found.id, found.title, found.first_prompt, found.cwd, found.model, found.note) == (
        "abcdef01", "The clock", "mend the clock", "/work/clock", "gemini-3", ""
    )  # fmt: skip


def test_a_folder_that_gemini_calls_by_a_digest_is_known_where_it_is_this_one(
    homes: AgentHomes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    digest = sha256(str(tmp_path).encode()).hexdigest()
    homes.put(f".gemini/tmp/{digest}/chats/session-a-1.jsonl", *GEMINI)
    homes.put(f".gemini/tmp/{'0' * 64}/chats/session-b-2.jsonl", *GEMINI)
    assert [found.id for found in found_sessions(["gemini-cli"], tmp_path)] == ["1"]
    assert {found.id for found in found_sessions(["gemini-cli"])} == {"1", "2"}


def test_a_session_of_qwen_code_is_listed_by_its_title(homes: AgentHomes) -> None:
    head = {"sessionId": "q1", "cwd": "/x", "timestamp": "2026-08-17T12:00:00Z"}
    user = {"role": "user", "parts": [{"text": "mend the clock"}]}
    answer = {"role": "model", "parts": [{"text": "Done."}]}
    homes.put(
        ".qwen/projects/-x/chats/q1.jsonl",
        {**head, "uuid": "1", "parentUuid": None, "type": "user", "message": user},
        {**head, "uuid": "2", "parentUuid": "1", "type": "assistant", "model": "qwen3", "message": answer},
        {**head, "uuid": "3", "parentUuid": "2", "type": "system", "subtype": "custom_title",
         "systemPayload": {"customTitle": "The clock"}},
    )  # fmt: skip
    (found,) = found_sessions(["qwen-code"], Path("/x"))
    assert (found.id, found.title, found.first_prompt, found.model, found.note) == (
        "q1", "The clock", "mend the clock", "qwen3", ""
    )  # fmt: skip


def test_the_first_prompt_may_stand_behind_many_commands(homes: AgentHomes) -> None:
    commands = [
        claude_prompt(f"<command-name>/{name}</command-name>") for name in "abcdefgh"
    ]
    homes.claude_code(*commands, claude_prompt("mend the clock"))
    assert only_session("claude-code").first_prompt == "mend the clock"


def test_the_first_prompt_may_stand_behind_long_results(homes: AgentHomes) -> None:
    homes.claude_code(
        claude_prompt("<command-name>/a</command-name>"),
        result("c", "x" * 500_000),
        claude_prompt("at last"),
    )
    assert only_session("claude-code").first_prompt == "at last"


def test_codex_is_listed_by_what_was_typed_and_not_by_what_is_injected(
    homes: AgentHomes,
) -> None:
    context = message_row(
        "user", "<environment_context>\n<cwd>/x</cwd>\n</environment_context>"
    )
    machine = message_row("user", "Some text of the machine")
    homes.codex(message_row("user", "# AGENTS.md instructions for /x\n\n" + "y" * 60_000), context, machine,
                row("turn_context", model="gpt-x", cwd="/x"), *prompt("mend the clock"))  # fmt: skip
    found = only_session("codex")
    assert (found.title, found.cwd, found.model) == ("mend the clock", "/x", "gpt-x")


def test_the_name_of_a_codex_session_is_taken_from_its_index(homes: AgentHomes) -> None:
    path = homes.codex(*prompt("mend the clock"))
    name = path.stem[-36:]
    homes.put(
        ".codex/session_index.jsonl",
        {"id": name, "thread_name": "Old"},
        {"id": name, "thread_name": "Clock"},
    )
    assert (only_session("codex").title, only_session("codex").first_prompt) == (
        "Clock",
        "mend the clock",
    )


def test_the_name_of_a_codex_session_is_taken_from_its_events(
    homes: AgentHomes,
) -> None:
    homes.codex(
        *prompt("mend the clock"), event("thread_name_updated", thread_name="Clock")
    )
    assert only_session("codex").title == "Clock"


def test_sub_agents_of_codex_are_left_out(homes: AgentHomes) -> None:
    payload = '{"id":"a","cwd":"/x","source":{"subagent":"review"}}'
    line = f'{{"timestamp":"2026-01-02T03:04:05Z","type":"session_meta","payload":{payload}}}'
    homes.codex(*prompt("review it"), meta=line.encode())
    assert found_sessions(["codex"]) == []


def test_pi_is_listed_with_its_name(homes: AgentHomes) -> None:
    homes.pi(
        {"type": "model_change", "id": "a", "parentId": None, "provider": "p", "modelId": "m"},
        {"type": "message", "id": "b", "parentId": "a",
         "message": {"role": "user", "content": [{"type": "text", "text": "mend the clock"}]}},
        {"type": "session_info", "id": "c", "parentId": "b", "name": "Clock"},
    )  # fmt: skip
    found = only_session("pi")
    assert (found.title, found.first_prompt, found.cwd, found.model) == (
        "Clock",
        "mend the clock",
        "/x",
        "m",
    )


def test_kimi_begins_in_its_oldest_state_and_has_its_folder_from_the_file_of_folders(
    homes: AgentHomes,
) -> None:
    system = {"role": "_system_prompt", "content": "be good"}
    homes.kimi(system, {"role": "user", "content": "the very first"}, file="context_1")
    homes.kimi(system, {"role": "user", "content": "a later one"})
    found = only_session("kimi-cli")
    assert (found.id, found.first_prompt, found.cwd) == ("k1", "the very first", "/x")


def test_kimi_has_its_title_from_its_state(homes: AgentHomes) -> None:
    path = homes.kimi(
        {"role": "_checkpoint", "id": 0}, {"role": "user", "content": "mend it"}
    )
    path.with_name("state.json").write_text('{"custom_title": "Clock"}')
    assert only_session("kimi-cli").title == "Clock"


def test_kimi_code_has_folder_and_title_beside_its_wire(homes: AgentHomes) -> None:
    message = {
        "role": "user",
        "content": [{"type": "text", "text": "mend it"}],
        "origin": {"kind": "user"},
    }
    homes.put(
        ".kimi-code/sessions/wd_x/session_1/agents/main/wire.jsonl",
        {"type": "config.update", "modelAlias": "p/kimi-x", "time": 1},
        {"type": "context.append_message", "message": message, "time": 2},
    )
    homes.put(".kimi-code/sessions/wd_x/session_1/state.json", {"title": "Clock"})
    homes.put(
        ".kimi-code/session_index.jsonl", {"sessionId": "session_1", "workDir": "/x"}
    )
    found = only_session("kimi-cli")
    assert (found.id, found.title, found.first_prompt, found.cwd) == (
        "session_1",
        "Clock",
        "mend it",
        "/x",
    )
    assert found.model == "kimi-x"


def test_klaude_has_title_and_folder_beside_it_and_no_sub_agents(
    homes: AgentHomes,
) -> None:
    words = {"parts": [{"type": "text", "text": "mend the clock"}], "source": "user"}
    homes.klaude({"type": "UserMessage", "data": words}, title="Clock")
    homes.klaude(
        {"type": "UserMessage", "data": words}, session="sub", parent_session_id="abc"
    )
    found = only_session("klaude-code")
    assert (found.id, found.title, found.first_prompt, found.cwd) == (
        "abc",
        "Clock",
        "mend the clock",
        "/x",
    )


def test_copilot_names_its_folder_in_its_events(homes: AgentHomes) -> None:
    about = {"sessionId": "c1", "context": {"cwd": "/x"}}
    homes.put(
        ".copilot/session-state/c1/events.jsonl",
        {"type": "session.start", "data": about, "id": "e1", "parentId": None},
        {
            "type": "user.message",
            "data": {"content": "mend the clock"},
            "id": "e2",
            "parentId": "e1",
        },
    )
    found = only_session("copilot")
    assert (found.id, found.first_prompt, found.cwd) == ("c1", "mend the clock", "/x")


def test_mistral_vibe_has_title_and_folder_beside_it(homes: AgentHomes) -> None:
    store = homes.home / ".vibe/logs/session/unified/v1"
    VibeStore(store, [asked("mend the clock")], []).write()
    found = only_session("mistral-vibe")
    assert (found.id, found.title, found.first_prompt, found.cwd) == (
        "v1",
        "Look",
        "mend the clock",
        "/w",
    )
    assert found.model == "devstral"


@pytest.mark.quick_cases(1)
@needs_recorded
@pytest.mark.parametrize(
    ("agent", "folder", "place"),
    [
        ("claude-code", "claude-code", ".claude/projects/-x"),
        ("codex", "codex", ".codex/sessions/2026/01/02"),
        ("pi", "pi", ".pi/agent/sessions/--x--"),
        ("kimi-cli", "kimi", ".kimi/sessions/0"),
    ],
)
def test_recorded_sessions_are_listed_as_their_readers_describe_them(
    homes: AgentHomes, agent: str, folder: str, place: str
) -> None:
    shutil.copytree(SHARED / folder, homes.home / place)
    found = found_sessions([agent])
    assert found
    for session in found:
        whole = read_foreign(session.path)
        meta = describe(whole.header, whole.entries)
        assert (session.first_prompt, session.cwd, session.model) == (
            meta.first_prompt,
            meta.cwd,
            meta.model,
        )
        assert session.title in (meta.title, meta.first_prompt)
        assert session.note == ""


# --- the list ---------------------------------------------------------------------------------------


def test_the_newest_comes_first_and_a_limit_leaves_out_the_oldest(
    homes: AgentHomes,
) -> None:
    for name in ("one", "two", "three"):
        homes.claude_code(claude_prompt(name))
    homes.codex(*prompt("four"))
    assert [found.title for found in found_sessions()] == [
        "four",
        "three",
        "two",
        "one",
    ]
    assert [found.title for found in found_sessions(limit=2)] == ["four", "three"]
    assert [found.title for found in found_sessions(["claude-code"], limit=1)] == [
        "three"
    ]


def test_the_sessions_of_a_folder_are_those_recorded_in_it_also_over_a_link(
    homes: AgentHomes, tmp_path: Path
) -> None:
    real, link = tmp_path / "real", tmp_path / "link"
    real.mkdir()
    link.symlink_to(real)
    homes.claude_code({**claude_prompt("here"), "cwd": str(real)})
    homes.claude_code({**claude_prompt("over the link"), "cwd": str(link)})
    homes.claude_code({**claude_prompt("elsewhere"), "cwd": "/x"})
    for folder in (real, link):
        assert {found.title for found in found_sessions(cwd=folder)} == {
            "here",
            "over the link",
        }


@pytest.mark.parametrize(
    ("data", "note"),
    [
        (b"", "is empty"),
        (
            b"\x89PNG\r\n\x1a\n\x00\x00" + bytes(range(256)) * 9,
            "no Claude Code records",
        ),
        (b"hello\n", "no Claude Code records"),
        (b"[" * 50_000, "no Claude Code records"),
    ],
)
def test_what_is_no_session_is_listed_with_a_note(
    homes: AgentHomes, data: bytes, note: str
) -> None:
    path = homes.write(".claude/projects/-x/odd.jsonl", data)
    found = only_session("claude-code")
    assert (found.id, found.path, found.size) == ("odd", path, len(data))
    assert note in found.note


def test_a_torn_session_is_listed_with_title_and_note(homes: AgentHomes) -> None:
    path = homes.claude_code(claude_prompt("mend the clock"))
    with path.open("ab") as file:
        file.write(b'{"type":"user","uu')
    found = only_session("claude-code")
    assert found.title == "mend the clock"
    assert "amaged" in found.note


@pytest.mark.parametrize("folder", ["\ud800", "/x\0y", "", 'C:\\x"y', "/" + "x" * 5000])
def test_a_folder_that_cannot_be_is_not_this_one(
    homes: AgentHomes, tmp_path: Path, folder: str
) -> None:
    homes.claude_code({**claude_prompt("one"), "cwd": folder})
    assert found_sessions(cwd=tmp_path) == []
    assert [found.title for found in found_sessions()] == ["one"]


@pytest.mark.parametrize("folder", ['the "quoted" one', "höher/下", "back\\slash"])
def test_a_folder_with_an_odd_name_is_known_again(
    homes: AgentHomes, tmp_path: Path, folder: str
) -> None:
    (tmp_path / folder).mkdir(parents=True)
    homes.claude_code({**claude_prompt("one"), "cwd": str(tmp_path / folder)})
    assert [found.title for found in found_sessions(cwd=tmp_path / folder)] == ["one"]


@pytest.mark.parametrize("damage", DAMAGERS)
def test_no_damage_ends_a_list(homes: AgentHomes, damage: Damager) -> None:
    files = [
        homes.claude_code(
            claude_prompt("one"),
            piece("m1", text("hi"), model="x"),
            outside_tree("ai-title", aiTitle="One"),
        ),
        homes.codex(row("turn_context", model="gpt-x"), *prompt("two")),
        homes.pi(
            {
                "type": "message",
                "id": "b",
                "parentId": None,
                "message": {"role": "user", "content": "hi"},
            }
        ),
        homes.kimi(
            {"role": "_checkpoint", "id": 0}, {"role": "user", "content": "mend it"}
        ),
    ]
    chance = random.Random(7)
    for _ in range(12):
        for path in files:
            whole = path.read_bytes()
            path.write_bytes(damage(whole, chance))
            assert path in [found.path for found in found_sessions()]
            path.write_bytes(whole)


def test_folders_and_dead_links_are_no_sessions(homes: AgentHomes) -> None:
    path = homes.claude_code(claude_prompt("mend the clock"))
    path.with_name("dir.jsonl").mkdir()
    path.with_name("dead.jsonl").symlink_to("/nowhere/at/all")
    assert only_session("claude-code").path == path


# --- by id ------------------------------------------------------------------------------------------


def test_a_session_is_found_by_either_end_of_its_id(homes: AgentHomes) -> None:
    one = homes.claude_code(claude_prompt("one"), name="aaaa-1111")
    homes.claude_code(claude_prompt("two"), name="aabb-2222")
    homes.codex(*prompt("three"))
    assert find_in_homes("claude-code:aaaa") == find_in_homes("claude-code:1111") == one


@pytest.mark.parametrize(
    ("ref", "sentence"),
    [
        (
            "claude-code:aa",
            AMBIGUOUS.format(ref="claude-code:aa", count=2, ids="aaaa-1111, aabb-2222"),
        ),
        (
            "claude-code:zz",
            NO_SUCH_SESSION.format(ref="claude-code:zz", agent="claude-code"),
        ),
        ("claude-code:", "There is no session"),
        ("cline:aa", "Unknown agent 'cline'"),
    ],
)
def test_an_id_that_names_no_one_session_says_so(
    homes: AgentHomes, ref: str, sentence: str
) -> None:
    homes.claude_code(claude_prompt("one"), name="aaaa-1111")
    homes.claude_code(claude_prompt("two"), name="aabb-2222")
    with pytest.raises(FoldlineError, match=sentence.replace("?", r"\?")):
        find_in_homes(ref)


def test_the_whole_id_wins_over_a_beginning(homes: AgentHomes) -> None:
    short = homes.claude_code(claude_prompt("one"), name="aaaa")
    homes.claude_code(claude_prompt("two"), name="aaaa-1111")
    assert find_in_homes("claude-code:aaaa") == short
