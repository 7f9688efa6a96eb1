"""The registry, and what is made of it."""

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from foldline.frontend.commands import (
    BY_ID,
    COMMANDS,
    COMMON,
    check_handlers,
    ids,
)
from foldline.frontend.inputs import (
    DID_YOU_MEAN,
    NO_COMMAND,
    BlankInput,
    PromptText,
    SlashCall,
    TypedWord,
    UnknownSlash,
    parse_input,
    typed_word,
)
from foldline.frontend.interrupt import interrupt_step
from foldline.frontend.key_names import key_name
from foldline.frontend.keymap import hint_words
from foldline.frontend.state import ChatState, Compacting, Stepping
from foldline.tui.chat.screen import ChatScreen
from foldline.tui.prompting.completion import commands, slash_matches
from support.chat_app import running_state

IDLE = ChatState()
PAGE = (Path(__file__).parents[2] / "docs" / "commands.md").read_text(encoding="utf-8")


def test_no_two_commands_share_an_id_a_key_or_a_slash_name() -> None:
    assert not [
        name for name, times in Counter(c.id for c in COMMANDS).items() if times > 1
    ]
    assert not [
        key
        for key, times in Counter(k for c in COMMANDS for k in c.keys).items()
        if times > 1
    ]
    assert not [
        name
        for name, times in Counter(s for c in COMMANDS for s in c.slashes).items()
        if times > 1
    ]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.id)
def test_every_command_says_what_it_does_and_can_be_reached(command) -> None:
    assert command.title and command.help.endswith(".")
    assert command.keys or command.slash
    assert not command.argument or command.slash


def test_what_works_anywhere_is_no_letter() -> None:
    for command in COMMANDS:
        if command.place == "anywhere":
            assert all("+" in key or len(key) > 1 for key in command.keys)


def test_the_chat_screen_has_a_handler_for_every_command_of_its_own() -> None:
    ChatScreen()  # raises LookupError where one is missing
    with pytest.raises(LookupError, match="compact"):
        check_handlers(ids("app") - {"compact"}, "app")
    with pytest.raises(LookupError, match="nonsense"):
        check_handlers(ids("app") | {"nonsense"}, "app")


def test_every_key_that_the_prompt_does_not_take_is_bound_on_the_screen() -> None:
    bound = set(ChatScreen()._bindings.key_to_bindings)
    assert {key for c in COMMANDS if c.place != "prompt" for key in c.keys} <= bound


def test_the_docs_table_names_every_key_and_slash_command() -> None:
    table = PAGE
    for command in COMMANDS:
        assert all(f"`{key_name(key)}`" in table for key in command.keys)
        assert not command.slash or f"`/{command.slash}" in table


def test_hints_merge_pairs_and_list_only_what_works_now() -> None:
    shown = list(hint_words(COMMANDS, IDLE))
    assert ("Alt+↑↓", "prompts") in shown
    assert ("PgUp", "scroll") in shown
    assert shown[-1] == ("Ctrl+P", "everything")


def test_slash_matches_begin_with_what_was_typed_first_the_common_ones_before_others() -> (
    None
):
    assert names("c", IDLE)[:3] == ["compact", "context", "clear"]
    assert names("cpt", IDLE)[0] == "compact", "letters in order"
    assert names("switch", IDLE)[0] in ("model", "strategy"), "a word of its title"
    assert names("clipboard", IDLE) == ["copy"], "a word of what it does"
    assert "undo" not in names("", running_state())
    compacting = replace(IDLE, compacting=Compacting(0.0, "manual", 10))
    assert "compact" not in names("", compacting)


def names(typed: str, state: ChatState) -> list[str]:
    return [name for name, _ in slash_matches(typed, state)]


THEIRS = {
    "Claude Code": "clear compact config context continue copy cost diff effort exit export help init login "
    "mcp model permissions plan resume rename reset rewind settings stats status tasks theme usage",
    "Codex": "approvals compact copy diff exit fork init login mcp model new permissions plan quit rename "
    "resume status theme undo",
    "opencode": "clear compact continue exit export help init new quit resume sessions undo",
    "kimi": "clear compact config context exit export fork help init login mcp model new plan quit reset "
    "resume sessions settings status tasks theme undo usage",
    "gemini-cli": "clear copy exit help init mcp model permissions plan quit resume rewind settings stats "
    "theme",
}
"""What at least two agents call their commands, as far as there is a counterpart here."""


@pytest.mark.parametrize("agent", THEIRS)
def test_what_people_of_other_agents_type_is_understood(agent: str) -> None:
    assert not [
        word
        for word in THEIRS[agent].split()
        if not isinstance(parse_input(f"/{word}"), SlashCall)
    ]


@pytest.mark.parametrize(
    ("typed", "ours"),
    [
        ("exit", "quit"),
        ("resume", "sessions"),
        ("config", "settings"),
        ("permissions", "approvals"),
        ("login", "provider"),
        ("usage", "status"),
    ],
)
def test_what_other_agents_call_a_command_completes_as_it_was_typed(
    typed: str, ours: str
) -> None:
    call = parse_input(f"/{typed}")
    assert isinstance(call, SlashCall) and call.command.id == ours
    assert typed in names(typed[:-1], IDLE)[:2]
    assert [name for name in names("", IDLE) if name in (typed, ours)] == [ours], (
        "once, by our name"
    )
    assert f" /{typed}" in PAGE


def test_nothing_typed_the_common_ones_are_first() -> None:
    assert names("", IDLE)[: len(COMMON)] == list(COMMON)


@pytest.mark.parametrize(
    ("typed", "meant"),
    [("compct", "compact"), ("modle", "model"), ("Exits", "exit"), ("xyzzy", "")],
)
def test_a_command_that_is_not_there_names_the_one_that_was_meant(
    typed: str, meant: str
) -> None:
    said = str(parse_input(f"/{typed}"))
    hint = f" {DID_YOU_MEAN.format(name=meant)}" if meant else ""
    assert said == NO_COMMAND.format(name=typed) + hint


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("  \n ", BlankInput()),
        ("hello\n", PromptText("hello")),
        ("/etc/hosts is wrong", PromptText("/etc/hosts is wrong")),
        ("/usr", UnknownSlash("usr")),
        ("/nope now", UnknownSlash("nope")),
        ("look at /compact", PromptText("look at /compact")),
    ],
)
def test_input_is_one_of_a_few_things(text: str, what: object) -> None:
    assert parse_input(text) == what


def test_a_slash_command_takes_the_rest_as_its_argument() -> None:
    call = parse_input(" /compact the  migration\nand tests ")
    assert isinstance(call, SlashCall)
    assert (call.command.id, call.argument) == ("compact", "the  migration\nand tests")


@pytest.mark.parametrize(
    ("line", "column", "first", "found"),
    [
        ("/co", 3, True, TypedWord("command", "co", 0)),
        ("/co", 3, False, None),
        ("see /co", 7, True, None),
        ("read @src/a", 11, True, TypedWord("file", "src/a", 5)),
        ("me@example.org", 14, True, None),
        ("读 @src", 6, False, TypedWord("file", "src", 2)),
        ("(@x", 3, True, TypedWord("file", "x", 1)),
        ("@a b", 4, True, None),
    ],
)
def test_what_is_being_completed(
    line: str, column: int, first: bool, found: object
) -> None:
    assert typed_word(line, column, first) == found


def test_while_a_request_runs_idle_commands_are_off() -> None:
    busy = replace(IDLE, activity=Stepping(0.0))
    assert {c.id for c in COMMANDS if c.works(IDLE)} - {
        c.id for c in COMMANDS if c.works(busy)
    } == {
        "undo",
        "clear",
        "model",
        "strategy",
        "fork",
        "init",
        "provider",
    }


@pytest.mark.parametrize(
    ("selection", "running", "cancelling", "since_last", "action"),
    [
        (True, True, False, None, "copy"),
        (False, True, False, None, "cancel"),
        (False, True, True, None, "warn"),
        (False, True, True, 0.5, "quit"),
        (False, False, False, None, "warn"),
        (False, False, False, 1.9, "quit"),
        (False, False, False, 2.1, "warn"),
    ],
)
def test_ctrl_c_copies_cancels_warns_quits(
    selection: bool,
    running: bool,
    cancelling: bool,
    since_last: float | None,
    action: str,
) -> None:
    step = interrupt_step(
        selection=selection,
        running=running,
        cancelling=cancelling,
        since_last=since_last,
    )
    assert step == action


def test_a_name_that_is_not_its_own_is_explained_by_the_commands_title() -> None:
    notes = {each.label.split()[0]: each.note for each in commands("con", ChatState())}
    assert notes["/config"] == f"Settings. {BY_ID['settings'].help_text}"
    assert notes["/context"] == BY_ID["context"].help_text
    assert notes["/continue"].startswith("Sessions")
