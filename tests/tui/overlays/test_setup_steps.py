"""The rows of the lists of providers and models, without a terminal."""

from dataclasses import replace
from typing import Any

from foldline.llm.listing import ListedModel
from foldline.llm.models import Price
from foldline.tui.lists.rows import PickerItem
from foldline.tui.overlays.setup import (
    OTHER_PROVIDERS,
    PRICE,
    ModelDialog,
    ModelPicker,
)
from foldline.tui.overlays.setup_servers import OFFLINE, ModelServer
from support.setup_screen import OLLAMA, OPENAI, SOURCES, FakeServers, offers


def opened(
    *sources: ModelServer, servers: FakeServers | None = None, **options: Any
) -> ModelDialog:
    made = servers or FakeServers()
    made.sources = sources or SOURCES
    return ModelDialog(None, made, **options)  # type: ignore[arg-type]


def items(dialog: ModelDialog, *ids: str) -> list[PickerItem]:
    return [*dialog.model_items(OPENAI, offers(*ids))]


def test_the_mark_is_at_the_server_in_use_else_where_a_key_is_stored() -> None:
    assert opened()._first_marked() == "anthropic"
    assert opened(OFFLINE, OPENAI, OLLAMA)._first_marked() == "offline"
    assert opened(current=("ollama", "qwen3"))._first_marked() == "ollama"


def test_models_are_sorted_and_the_default_has_a_note() -> None:
    listed = items(opened(), "o3", "gpt-5", "GPT-4.1", "gpt-5-mini")
    assert [item.label for item in listed] == ["GPT-4.1", "gpt-5", "gpt-5-mini", "o3"]
    assert [item.note for item in listed] == ["", "", "default", ""]


def test_the_model_in_use_is_marked_before_the_default() -> None:
    for server, marked in (("openai", "o3"), ("groq", "gpt-5-mini")):
        dialog = opened(current=(server, "o3"))
        picker = ModelPicker(dialog, OPENAI, None)
        assert picker.marked == marked


def test_the_model_in_use_is_listed_even_if_the_server_does_not_list_it() -> None:
    *models, other = items(opened(current=("openai", "o3")), "gpt-5")
    assert [(item.id, item.note) for item in models] == [
        ("gpt-5", ""),
        ("o3", "in use"),
    ]
    assert other.label == OTHER_PROVIDERS


def test_a_window_that_cannot_hold_the_conversation_has_a_note() -> None:
    servers = FakeServers()
    servers.too_small = {"small"}
    dialog = opened(servers=servers)
    small, _ = dialog.model_items(OPENAI, [ListedModel("small", 32_768), *offers("x")])
    assert small.note == "compacts first" and small.right == "32.8k"


def test_prices_are_shown_if_they_are_known() -> None:
    priced = ListedModel("m", None, 1_000, Price(0.25, 0.025, 1, 2.0))
    (item,) = opened().model_items(OPENAI, [priced])
    assert item.detail == PRICE.format(input="$0.25", output="$2.00")
    assert item.right == "?"


def test_a_server_without_a_key_may_get_one() -> None:
    assert not replace(OLLAMA, key_in="").asks_key
    assert replace(OLLAMA, key="optional").asks_key
