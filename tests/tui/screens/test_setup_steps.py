"""What the setup screen lists and marks, and what may be chosen there, without a terminal."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from foldline.llm.listing import ListedModel
from foldline.tui.blocks.cells import width_of
from foldline.tui.screens.setup import SetupScreen
from foldline.tui.screens.setup_servers import OFFLINE, Secret, Source
from support.setup_screen import ANTHROPIC, KEY, OLLAMA, OPENAI, SOURCES, MadeUp, offers


def opened(*sources: Source, servers: MadeUp | None = None, **options: Any) -> SetupScreen:
    made = servers or MadeUp()
    made.sources = sources or SOURCES
    return SetupScreen(made, **options)  # type: ignore[arg-type]


def models(*ids: str, query: str = "", source: Source = OPENAI, **options: Any) -> SetupScreen:
    """The last step with these models."""
    screen = opened(**options)
    screen.to_key(source)
    screen.to_model(offers(*ids))
    screen.filter(query)
    return screen


def names(screen: SetupScreen) -> list[str]:
    return [row.id for row in screen.rows if isinstance(row, ListedModel)]


def marked(screen: SetupScreen) -> str:
    return screen.row.id if isinstance(screen.row, ListedModel) else ""


def text(screen: SetupScreen, width: int = 100, height: int = 24) -> str:
    return "\n".join("".join(words for words, _ in line).rstrip() for line in screen.draw(width, height))


def test_the_mark_is_at_the_source_in_use_else_where_a_key_was_found() -> None:
    assert opened().pointed == ANTHROPIC
    assert opened(OFFLINE, OPENAI, OLLAMA).pointed == OFFLINE
    assert opened(current=("ollama", "qwen3")).pointed == OLLAMA


def test_the_usual_model_is_marked_and_any_other_can_be_found() -> None:
    screen = models("o3", "gpt-5", "GPT-4.1", "gpt-5-mini")
    assert names(screen) == ["GPT-4.1", "gpt-5", "gpt-5-mini", "o3"] and marked(screen) == "gpt-5-mini"
    screen.filter("5 gpt")
    assert names(screen) == ["gpt-5", "gpt-5-mini"]
    screen.filter("MINI")
    assert names(screen) == ["gpt-5-mini", "MINI"]


def test_a_part_of_a_name_marks_a_model_that_holds_it_and_not_the_words_themselves() -> None:
    screen = models("gpt-5", "gpt-5-mini", query="5-m")
    assert marked(screen) == "gpt-5-mini" and names(screen) == ["gpt-5-mini", "5-m"]


def test_a_server_without_models_says_so() -> None:
    assert "No model is listed: type a name" in text(models(source=OLLAMA))


def test_the_model_in_use_is_marked_before_the_usual_one() -> None:
    assert marked(models("gpt-5-mini", "o3", current=("openai", "o3"))) == "o3"
    assert marked(models("gpt-5-mini", "o3", current=("groq", "o3"))) == "gpt-5-mini"


def test_a_name_on_no_list_can_be_taken_as_it_is_typed() -> None:
    screen = models("gpt-5-mini", query="  my/own:model@7 ")
    assert marked(screen) == "my/own:model@7" and "my/own:model@7  as typed" in text(screen)


def test_a_name_typed_in_full_is_marked_although_longer_ones_come_before() -> None:
    screen = models("a-gpt-5", "gpt-5", "gpt-5-mini", query="gpt-5")
    assert marked(screen) == "gpt-5" and names(screen) == ["a-gpt-5", "gpt-5", "gpt-5-mini"]


def test_nothing_of_one_server_is_left_for_the_next() -> None:
    servers = MadeUp()
    servers.too_small = {"gpt-5"}
    screen = models("gpt-5", servers=servers)
    screen.key = Secret(KEY)
    assert screen.compacting and screen.offers
    screen.to_provider()
    screen.to_key(OLLAMA)
    screen.to_model(())
    assert not any((screen.key, screen.offers, screen._model.value, screen.rows, screen.compacting))


def test_moving_stays_within_the_list() -> None:
    for screen, last in ((opened(), len(SOURCES) - 1), (models("a", "b"), 1), (models(query="two words"), 0)):
        screen.move(-99)
        assert screen.at == 0
        screen.move(99)
        assert screen.at == last


def at_key(screen: SetupScreen, trouble: str = "") -> SetupScreen:
    screen.to_key(OPENAI)
    if trouble:
        screen.say(trouble)
    return screen


def asking(screen: SetupScreen) -> SetupScreen:
    screen.asking = True
    return screen


@pytest.mark.parametrize(
    ("screen", "words"),
    [
        (opened, ["continue", "skip"]),
        (lambda: opened(current=("openai", "x")), ["continue", "cancel"]),
        (lambda: at_key(opened()), ["check the key", "back"]),
        (lambda: asking(at_key(opened())), ["stop"]),
        (lambda: at_key(opened(), "✗ refused"), ["check the key", "back"]),
        (lambda: models("a"), ["select", "back", "other providers"]),
        (lambda: opened(current=("anthropic", "x"), step="model"), ["select", "cancel", "other providers"]),
    ],
)
def test_the_hints_say_what_works_and_what_it_does(
    screen: Callable[[], SetupScreen], words: list[str]
) -> None:
    assert [word for _, word in screen().hints()] == [*words, "keys"]


@pytest.mark.parametrize("size", [(40, 10), (52, 14), (80, 24), (100, 30)])
@pytest.mark.parametrize("step", ["provider", "address", "key", "checking", "trouble", "model"])
def test_every_step_fills_any_terminal_exactly(step: str, size: tuple[int, int]) -> None:
    width, height = size
    chinese = replace(OPENAI, title="月之暗面的模型服务 👩‍💻 [/nope]")
    screen = opened(OFFLINE, chinese, *SOURCES, current=("openai", "x"), clock=lambda: 3.0)
    if step == "address":
        screen._to("address")
    elif step != "provider":
        screen.to_key(chinese)
    if step == "checking":
        asking(screen)
    elif step == "trouble":
        screen.say("! It does not answer. " * 20, "altered")
    elif step == "model":
        screen.to_model([ListedModel("深度求索/模型-8b" * 9, 8_192), *offers("gpt-5")])
    lines = screen.draw(width, height)
    assert len(lines) == height
    assert {width_of(line) for line in lines} == {width}


def test_a_window_that_cannot_hold_the_conversation_says_so() -> None:
    servers = MadeUp()
    servers.too_small = {"small"}
    screen = opened(servers=servers, current=("openai", "gpt-5"))
    screen.to_key(OPENAI)
    screen.to_model([ListedModel("small", 32_768), ListedModel("gpt-5", 400_000)])
    assert "small  compacts first" in text(screen) and "gpt-5  in use" in text(screen)


def test_for_which_sessions_a_choice_holds_is_said() -> None:
    assert "In this session and in new ones; kept in config.toml." in text(models("a"))
    assert "the environment decides" in text(models("a", source=replace(OPENAI, named=False)))


KNOWN = (ListedModel("o3", 200_000), ListedModel("gpt-5-mini", 400_000))


def asked_in_session() -> SetupScreen:
    """The models of the provider in use, whose server has not answered."""
    servers = MadeUp()
    servers.known_offers = KNOWN
    return asking(opened(servers=servers, current=("openai", "o3"), step="model"))


def test_while_its_server_is_asked_what_is_known_can_be_chosen() -> None:
    screen = asked_in_session()
    assert names(screen) == ["gpt-5-mini", "o3"] and marked(screen) == "o3" and screen.works_now("on")
    screen.say("! api.openai.com cannot be reached.", "altered")
    assert names(screen) == ["gpt-5-mini", "o3"] and screen.works_now("on")


def test_the_mark_stays_on_the_model_it_was_moved_to_when_the_list_comes() -> None:
    screen = asked_in_session()
    screen.move(-1)
    assert marked(screen) == "gpt-5-mini"
    screen.to_model([*(ListedModel(f"a-{number}") for number in range(2_000)), *KNOWN])
    assert marked(screen) == "gpt-5-mini" and len(screen.rows) == 2_002
