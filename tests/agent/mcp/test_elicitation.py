"""What servers ask the user: a form field by field, a page; declined, left, and where nobody is there."""

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial

import pytest
from mcp.types import ElicitRequestFormParams, ElicitRequestURLParams

from foldline.agent.mcp.elicitation import elicited
from foldline.protocol import events
from foldline.protocol.events import Event
from support.agents import PATIENCE
from support.mcp_server import stdio_server

from .conftest import House, Person

OLD_AND_NEW = pytest.mark.parametrize("old", [(), ("--old",)])


async def answered(house: House, person: Person, old: Sequence[str] = (), tool: str = "ask") -> str:
    servers = house.servers(stdio_server("one", house.diary, "--asks", *old))
    servers.ask_with(partial(elicited, person.choices))
    servers.start()
    await servers.settled(PATIENCE)
    return (await house.call(servers, f"one:{tool}")).text


@OLD_AND_NEW
async def test_a_form_is_asked_field_by_field(house: House, old: tuple[str]) -> None:
    person = Person("tAda", "t36", "2", "o")
    text = await answered(house, person, old)
    assert text == 'accept {"age": 36, "name": "Ada", "size": "large"}'
    titles = [question.title for question in person.asked]
    assert titles == [f"The MCP server one asks ({nth} of 4)." for nth in (1, 2, 3, 4)]
    assert person.asked[0].detail.startswith("Who are you?\nYour name")
    assert [option.label for option in person.asked[2].options] == ["small", "large", "decline"]
    assert [option.key for option in person.asked[2].options] == [
        "1",
        "2",
        "d",
    ]  # as a plain chat numbers them
    assert person.asked[1].options[-1].usual == "40"
    assert [option.label for option in person.asked[3].options] == ["yes", "no", "leave it out", "decline"]


async def test_what_is_no_such_value_is_asked_for_again(house: House) -> None:
    person = Person("tA", "tAda", "tsoon", "t17", "t18", "1", "1")
    assert await answered(house, person) == 'accept {"age": 18, "name": "Ada", "news": true, "size": "small"}'
    assert "at least 2 characters" in person.asked[1].detail
    assert "a whole number" in person.asked[3].detail
    assert "at least 18" in person.asked[4].detail


async def value_of(field: Mapping[str, object], *typed: str) -> tuple[object, Person]:
    """What a form of this one field gets of somebody who types that."""
    person = Person(*(f"t{text}" for text in typed))
    schema = {"type": "object", "properties": {"it": field}, "required": ["it"]}
    result = await elicited(
        person.choices, "one", ElicitRequestFormParams(message="Well?", requested_schema=schema)
    )
    assert result.content is not None
    return result.content["it"], person


async def test_a_value_with_a_comma_in_its_name_can_be_typed() -> None:
    names = ["Paris, France", *(f"town {nth}" for nth in range(9))]
    assert (await value_of({"type": "string", "enum": names}, "Paris, France"))[0] == "Paris, France"
    several = {"type": "array", "items": {"type": "string", "enum": ["a", "b", "c"]}}
    assert (await value_of(several, "a, c"))[0] == ["a", "c"]


@pytest.mark.parametrize("typed", ["nan", "inf", "-infinity", "1e999"])
async def test_a_number_is_one_that_json_can_hold(typed: str) -> None:
    value, person = await value_of({"type": "number"}, typed, "0.5")
    assert value == 0.5
    assert "it takes a number" in person.asked[1].detail


@OLD_AND_NEW
@pytest.mark.parametrize(("answer", "said"), [("d", "decline null"), ("", "cancel null")])
async def test_it_can_be_declined_or_left(house: House, old: tuple[str], answer: str, said: str) -> None:
    assert await answered(house, Person("tAda", answer), old) == said


@OLD_AND_NEW
async def test_where_nobody_is_there_it_cannot_be_asked(house: House, old: tuple[str]) -> None:
    servers = await house.started(stdio_server("one", house.diary, "--asks", *old))
    assert (await house.call(servers, "one:ask")).is_error
    assert (await house.call(servers, "one:echo", text="still there")).text == "still there"


@OLD_AND_NEW
async def test_a_page_is_shown_by_its_address_before_it_is_opened(house: House, old: tuple[str]) -> None:
    person = Person("d")
    assert await answered(house, person, old, tool="page") == "decline null"
    assert person.asked[0].detail == "https://example.org/a?b=c\nPay here"


@pytest.mark.parametrize(
    ("message", "url", "first"),
    [
        ("https://bank.example\n" + "\n" * 500, "https://evil.example/", "https://evil.example/"),
        ("x", "https://evil.example/\nhttps://bank.example/", "https://evil.example/⏎https://bank.example/"),
        ("x", "\n\nhttps://evil.example/", "⏎⏎https://evil.example/"),
    ],
)
async def test_no_message_stands_before_the_address(message: str, url: str, first: str) -> None:
    person = Person("d")
    await elicited(
        person.choices, "one", ElicitRequestURLParams(message=message, url=url, elicitation_id="1")
    )
    assert person.asked[0].detail.split("\n")[0] == first


@OLD_AND_NEW
async def test_a_page_is_opened_once_its_whole_question_was_shown(house: House, old: tuple[str]) -> None:
    person = Person("d")
    await answered(house, person, old, tool="page")
    assert [option.key for option in person.asked[0].options if option.agrees] == ["y"]


async def test_a_call_that_waits_for_the_user_is_not_too_slow(house: House) -> None:
    person = Person()
    servers = house.servers(stdio_server("one", house.diary, "--asks", "--old", timeout=4.0))
    servers.ask_with(partial(elicited, person.choices))
    servers.start()
    await servers.settled(PATIENCE)
    call = asyncio.create_task(house.call(servers, "one:ask"))
    await house.until(lambda: person.asked)
    await asyncio.wait({call}, timeout=4.8)
    assert not call.done()
    person.say("d")
    assert (await call).text == "decline null"


@OLD_AND_NEW
async def test_a_call_that_is_cancelled_withdraws_its_question(house: House, old: tuple[str]) -> None:
    person = Person()
    resolved: list[Event] = []
    hear = person.choices.emit
    person.choices.emit = lambda event: (hear(event), resolved.append(event))[0]  # type: ignore[func-returns-value]
    servers = house.servers(stdio_server("one", house.diary, "--asks", *old))
    servers.ask_with(partial(elicited, person.choices))
    servers.start()
    await servers.settled(PATIENCE)
    call = asyncio.create_task(house.call(servers, "one:ask"))
    await house.until(lambda: person.asked)
    call.cancel()
    await asyncio.wait({call})
    await house.until(lambda: any(isinstance(event, events.ChoiceResolved) for event in resolved))
    assert (await house.call(servers, "one:echo", text="still there")).text == "still there"
