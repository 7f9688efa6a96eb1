"""What the setup screen shows and what may be chosen there, without a screen."""

from dataclasses import replace

import pytest

from foldline.llm.listing import ListedModel
from foldline.tui.blocks.cells import width_of
from foldline.tui.screens.setup import SetupScreen
from foldline.tui.screens.setup_state import OFFLINE, Choice, Secret, SetupState, Source, Trouble, begin
from foldline.tui.screens.setup_view import no_models
from support.setup_screen import ANTHROPIC, KEY, OLLAMA, OPENAI, SOURCES, MadeUp, offers


def models(*ids: str, query: str = "", source: Source = OPENAI) -> SetupState:
    """The last step with these models."""
    return begin(SOURCES).to_key(source).to_model(offers(*ids)).filtered(query)


def screen_of(state: SetupState, now: float = 0.0) -> SetupScreen:
    screen = SetupScreen(begin(SOURCES), MadeUp(), clock=lambda: now)
    screen.state, screen.rows, screen.at = state, state.listed_rows, state.mark
    return screen


def hints(state: SetupState) -> list[tuple[str, str]]:
    """The keys that work and what they do, as the screen says them."""
    return screen_of(state).hints()


def names(state: SetupState) -> list[str]:
    return [row.model for row in state.rows]


def text(state: SetupState, width: int = 100, height: int = 24, now: float = 0.0) -> str:
    lines = screen_of(state, now).draw(width, height)
    return "\n".join("".join(words for words, _ in line).rstrip() for line in lines)


def test_the_mark_is_where_a_key_was_found_else_at_the_built_in_model() -> None:
    assert begin(SOURCES).pointed == ANTHROPIC
    assert begin([OFFLINE, OPENAI, OLLAMA]).pointed == OFFLINE


def test_in_a_session_the_mark_is_at_the_source_in_use() -> None:
    assert begin(SOURCES, current=("ollama", "qwen3")).pointed == OLLAMA


def test_a_server_seen_running_moves_nothing() -> None:
    before = begin(SOURCES)
    after = replace(before, running=frozenset({"ollama"}))
    assert (after.at, after.sources) == (before.at, before.sources)
    assert "running" in text(after) and "running" not in text(before)


def test_the_usual_model_is_marked_and_any_other_can_be_found() -> None:
    state = models("o3", "gpt-5", "GPT-4.1", "gpt-5-mini")
    assert names(state) == ["GPT-4.1", "gpt-5", "gpt-5-mini", "o3"]
    assert state.row is not None and state.row.model == "gpt-5-mini"
    assert names(state.filtered("5 gpt")) == ["gpt-5", "gpt-5-mini"]
    assert names(state.filtered("MINI")) == ["gpt-5-mini", "MINI"]


def test_a_part_of_a_name_marks_a_model_that_holds_it_and_not_the_words_themselves() -> None:
    state = models("gpt-5", "gpt-5-mini", query="5-m")
    assert state.row is not None and state.row.model == "gpt-5-mini"
    assert [row.typed for row in state.rows] == [False, True]


def test_of_a_server_that_was_not_asked_nothing_is_claimed() -> None:
    at = begin(SOURCES).to_key(OLLAMA)
    assert "says of no model" in no_models(at.to_model(()))
    assert "could not be asked" in no_models(at.to_model(listed=False))


def test_the_model_in_use_is_marked_before_the_usual_one() -> None:
    state = replace(models(), current=("openai", "o3")).to_model(offers("gpt-5-mini", "o3"))
    assert state.row is not None and state.row.model == "o3"
    elsewhere = replace(models(), current=("groq", "o3")).to_model(offers("gpt-5-mini", "o3"))
    assert elsewhere.row is not None and elsewhere.row.model == "gpt-5-mini"


def test_a_name_on_no_list_can_be_taken_as_it_is_typed() -> None:
    state = models("gpt-5-mini", query="  my/own:model@7 ")
    assert state.choice() == Choice(OPENAI, "my/own:model@7")
    assert "use “my/own:model@7”" in text(state)


def test_a_name_typed_in_full_is_marked_although_longer_ones_come_before() -> None:
    state = models("a-gpt-5", "gpt-5", "gpt-5-mini", query="gpt-5")
    assert state.row is not None and (state.row.model, state.row.typed) == ("gpt-5", False)


def test_without_a_list_the_usual_model_is_offered() -> None:
    state = begin(SOURCES).to_key(OPENAI).to_model(listed=False)
    assert state.choice() == Choice(OPENAI, "gpt-5-mini")
    assert begin(SOURCES).to_key(OLLAMA).to_model(listed=False).choice() is None


def test_nothing_of_one_server_is_left_for_the_next() -> None:
    asked = (
        begin(SOURCES)
        .to_key(OPENAI)
        .checking(1.0, Secret(KEY))
        .to_model(offers("gpt-5"), compacting=["gpt-5"])
    )
    state = asked.filtered("gpt").to_provider().to_key(OLLAMA)
    assert (state.key, state.key_length, state.offers, state.query, state.rows) == (None, 0, (), "", ())
    assert not state.compacting and not state.listed


def test_moving_stays_within_the_list() -> None:
    screen = SetupScreen(begin(SOURCES), MadeUp())
    screen.move(-99)
    assert screen.state.at == 0
    screen.move(99)
    assert screen.state.pointed == SOURCES[-1]
    screen = SetupScreen(models("a", "b"), MadeUp())
    screen.move(99)
    assert screen.state.marked == 1
    screen = SetupScreen(models(query="two words"), MadeUp())
    screen.move(1)
    assert screen.state.row is None


@pytest.mark.parametrize(
    ("state", "words"),
    [
        (begin(SOURCES), ["continue", "skip"]),
        (begin(SOURCES, current=("openai", "x")), ["continue", "cancel"]),
        (begin(SOURCES).to_key(OPENAI), ["check the key", "back"]),
        (begin(SOURCES).to_key(OPENAI).checking(0.0), ["stop"]),
        (
            begin(SOURCES).to_key(OPENAI).failed(Trouble("unreachable", "It is not there.")),
            ["ask again", "back", "continue anyway"],
        ),
        (begin(SOURCES).to_key(OPENAI).failed(Trouble("refused", "No.")), ["check the key", "back"]),
        (models("a"), ["select", "back", "other providers"]),
        (
            begin(SOURCES, current=("anthropic", "x"), step="model"),
            ["select", "cancel", "other providers", "summaries"],
        ),
    ],
)
def test_the_hints_say_what_works_and_what_it_does(state: SetupState, words: list[str]) -> None:
    assert [word for _, word in hints(state)] == [*words, "keys"]


@pytest.mark.parametrize("size", [(40, 10), (52, 14), (80, 24), (100, 30)])
@pytest.mark.parametrize("step", ["provider", "address", "key", "checking", "trouble", "model"])
def test_every_step_fills_any_terminal_exactly(step: str, size: tuple[int, int]) -> None:
    width, height = size
    chinese = replace(OPENAI, title="月之暗面的模型服务 👩‍💻 [/nope]")
    state = begin([OFFLINE, chinese, *SOURCES], current=("openai", "x"), size=90_000)
    state = {
        "provider": state,
        "address": state.to_address(),
        "key": state.to_key(chinese),
        "checking": state.to_key(chinese).checking(0.0),
        "trouble": state.to_key(chinese).failed(Trouble("unreachable", "It does not answer. " * 20)),
        "model": state.to_key(chinese).to_model(
            [ListedModel("深度求索/模型-8b" * 9, 8_192), *offers("gpt-5")], compacting=["gpt-5"]
        ),
    }[step]
    lines = screen_of(state, 3.0).draw(width, height)
    assert len(lines) == height
    assert {width_of(line) for line in lines} == {width}


def test_a_window_that_cannot_hold_the_conversation_says_so() -> None:
    state = begin(SOURCES, current=("openai", "gpt-5"), size=116_200).to_key(OPENAI)
    state = state.to_model(
        [ListedModel("small", 32_768), ListedModel("gpt-5", 400_000)], compacting=["small"]
    )
    assert "small  compacts first" in text(state) and "gpt-5  in use" in text(state)
    assert "Its window of 32.8k" in text(state.marking(state.marked + 1)) and "116.2k" in text(
        state.marking(state.marked + 1)
    )


def test_for_which_sessions_a_choice_holds_is_said() -> None:
    assert "In this session and in new ones; kept in config.toml." in text(models("a"))
    overruled = replace(models("a"), overruled_by="FOLDLINE_MODEL")
    assert "Kept in config.toml, before which FOLDLINE_MODEL goes in new sessions." in text(overruled)
    assert "the environment decides" in text(models("a", source=replace(OPENAI, named=False)))


KNOWN = (ListedModel("o3", 200_000), ListedModel("gpt-5-mini", 400_000))


def asked_in_session() -> SetupState:
    """The models of the provider in use, whose server has not answered."""
    state = begin(SOURCES, current=("openai", "o3"), step="model")
    return replace(state, known=KNOWN).filtered("").checking(0.0)


def test_while_its_server_is_asked_what_is_known_can_be_chosen() -> None:
    state = asked_in_session()
    assert [(row.model, row.offer and row.offer.window) for row in state.rows] == [
        ("o3", 200_000),
        ("gpt-5-mini", 400_000),
    ]
    assert "select" in [word for _, word in hints(state)]
    dead = state.failed(Trouble("unreachable", "api.openai.com cannot be reached."))
    assert [row.model for row in dead.rows] == ["o3", "gpt-5-mini"] and dead.choice() is not None


def test_the_mark_stays_on_the_model_it_was_moved_to_when_the_list_comes() -> None:
    state = asked_in_session().marking(1)
    assert state.row is not None and state.row.model == "gpt-5-mini"
    came = state.to_model([*(ListedModel(f"a-{number}") for number in range(2_000)), *KNOWN])
    assert came.row is not None and came.row.model == "gpt-5-mini" and len(came.rows) == 2_002


@pytest.mark.parametrize(("named", "writes"), [("o3", True), ("o3@openai", True), ("o3@other", False)])
def test_the_model_that_writes_the_summaries_says_so(named: str, writes: bool) -> None:
    state = replace(asked_in_session(), summariser=named)
    assert state.row is not None and state.writes_summaries(state.row) is writes
