"""What servers ask the user: a field after another, a page; declined, left, and where nobody is there."""

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial

import pytest
from mcp.types import ElicitRequestFormParams, ElicitRequestURLParams

from foldline.agent.extensions.mcp.elicitation import (
    ASKS,
    DECLINE,
    INVALID,
    ONE_OF,
    SKIP,
    elicited,
)
from foldline.agent.permissions.approvals import ANSWER_FREELY
from foldline.protocol import events
from foldline.protocol.events import Event
from support.agents import PATIENCE
from support.mcp_server import stdio_server

from .conftest import FakeUser, ServerHarness

pytestmark = pytest.mark.quick_cases(1)

OLD_AND_NEW = pytest.mark.parametrize("old", [(), ("--old",)])


async def answered(
    harness: ServerHarness, person: FakeUser, old: Sequence[str] = (), tool: str = "ask"
) -> str:
    servers = harness.servers(stdio_server("one", harness.diary, "--asks", *old))
    servers.ask = partial(elicited, person.choices)
    servers.start()
    await servers.settled(PATIENCE)
    return (await harness.call(servers, f"one:{tool}")).text


@OLD_AND_NEW
async def test_a_form_is_asked_field_by_field(
    harness: ServerHarness, old: tuple[str]
) -> None:
    person = FakeUser("oAda", "o36", "b", "c")
    text = await answered(harness, person, old)
    assert text == 'accept {"age": 36, "name": "Ada", "size": "large"}'
    titles = [question.title for question in person.questions]
    assert titles == [ASKS.format(server="one")] * 4
    assert person.questions[0].detail.startswith("Who are you?\nYour name")
    labels = [
        [option.label for option in question.options] for question in person.questions
    ]
    assert labels == [
        [DECLINE, ANSWER_FREELY],
        ["40", DECLINE, ANSWER_FREELY],
        ["small", "large", DECLINE, ANSWER_FREELY],
        ["yes", "no", SKIP, DECLINE, ANSWER_FREELY],
    ]


async def test_what_is_no_such_value_is_asked_for_again(harness: ServerHarness) -> None:
    person = FakeUser("oAda", "osoon", "o18", "a", "a")
    assert (
        await answered(harness, person)
        == 'accept {"age": 18, "name": "Ada", "news": true, "size": "small"}'
    )
    assert INVALID.format(text="'soon'") in person.questions[2].detail


async def value_of(field: Mapping[str, object], *typed: str) -> tuple[object, FakeUser]:
    """What a form of this one field gets of somebody who types that."""
    person = FakeUser(*(f"o{text}" for text in typed))
    schema = {"type": "object", "properties": {"it": field}, "required": ["it"]}
    result = await elicited(
        person.choices,
        "one",
        ElicitRequestFormParams(message="Well?", requested_schema=schema),
    )
    assert result.content is not None
    return result.content["it"], person


async def test_where_there_are_many_values_one_is_typed() -> None:
    cities = {f"City {n}": f"c{n}" for n in range(9)}
    field = {"oneOf": [{"const": at, "title": name} for name, at in cities.items()]}
    value, person = await value_of(field, "City 12", "City 3")
    assert value == "c3"
    assert ONE_OF.format(names=", ".join(cities)) in person.questions[0].detail


async def test_a_value_may_be_called_like_a_way_out() -> None:
    field = {"type": "string", "enum": ["Accept", DECLINE]}
    assert (await value_of(field, DECLINE))[0] == DECLINE


async def test_a_value_with_a_comma_in_its_name_can_be_typed() -> None:
    names = ["Paris, France", *(f"town {nth}" for nth in range(9))]
    assert (await value_of({"type": "string", "enum": names}, "Paris, France"))[
        0
    ] == "Paris, France"
    several = {"type": "array", "items": {"type": "string", "enum": ["a", "b", "c"]}}
    assert (await value_of(several, "a, c"))[0] == ["a", "c"]


@pytest.mark.parametrize("typed", ["nan", "inf", "-infinity", "1e999"])
async def test_a_number_is_one_that_json_can_hold(typed: str) -> None:
    value, person = await value_of({"type": "number"}, typed, "0.5")
    assert value == 0.5
    assert INVALID.format(text=repr(typed)) in person.questions[1].detail


@OLD_AND_NEW
@pytest.mark.parametrize(
    ("answer", "said"), [("b", "decline null"), ("", "cancel null")]
)
async def test_it_can_be_declined_or_left(
    harness: ServerHarness, old: tuple[str], answer: str, said: str
) -> None:
    assert await answered(harness, FakeUser("oAda", answer), old) == said


@OLD_AND_NEW
async def test_where_nobody_is_there_it_cannot_be_asked(
    harness: ServerHarness, old: tuple[str]
) -> None:
    servers = await harness.start(stdio_server("one", harness.diary, "--asks", *old))
    assert (await harness.call(servers, "one:ask")).is_error
    assert (
        await harness.call(servers, "one:echo", text="still there")
    ).text == "still there"


@OLD_AND_NEW
async def test_a_page_is_shown_by_its_address_before_it_is_opened(
    harness: ServerHarness, old: tuple[str]
) -> None:
    person = FakeUser("d")
    assert await answered(harness, person, old, tool="page") == "decline null"
    assert person.questions[0].detail == "https://example.org/a?b=c\nPay here"


@pytest.mark.parametrize(
    ("message", "url", "first"),
    [
        (
            "https://bank.example\n" + "\n" * 500,
            "https://evil.example/",
            "https://evil.example/",
        ),
        (
            "x",
            "https://evil.example/\nhttps://bank.example/",
            "https://evil.example/⏎https://bank.example/",
        ),
        ("x", "\n\nhttps://evil.example/", "⏎⏎https://evil.example/"),
    ],
)
async def test_no_message_stands_before_the_address(
    message: str, url: str, first: str
) -> None:
    person = FakeUser("d")
    await elicited(
        person.choices,
        "one",
        ElicitRequestURLParams(message=message, url=url, elicitation_id="1"),
    )
    assert person.questions[0].detail.split("\n")[0] == first


@OLD_AND_NEW
async def test_a_page_is_opened_once_its_whole_question_was_shown(
    harness: ServerHarness, old: tuple[str]
) -> None:
    person = FakeUser("d")
    await answered(harness, person, old, tool="page")
    assert [option.key for option in person.questions[0].options if option.agrees] == [
        "y"
    ]


async def test_a_call_that_waits_for_the_user_is_not_too_slow(
    harness: ServerHarness,
) -> None:
    person = FakeUser()
    servers = harness.servers(
        stdio_server("one", harness.diary, "--asks", "--old", timeout=4.0)
    )
    servers.ask = partial(elicited, person.choices)
    servers.start()
    await servers.settled(PATIENCE)
    call = asyncio.create_task(harness.call(servers, "one:ask"))
    await harness.until(lambda: person.questions)
    await asyncio.wait({call}, timeout=4.8)
    assert not call.done()
    person.say("a")
    assert (await call).text == "decline null"


@OLD_AND_NEW
async def test_a_call_that_is_cancelled_withdraws_its_question(
    harness: ServerHarness, old: tuple[str]
) -> None:
    person = FakeUser()
    resolved: list[Event] = []
    hear = person.choices.emit
    person.choices.emit = lambda event: (hear(event), resolved.append(event))[0]  # type: ignore[func-returns-value]
    servers = harness.servers(stdio_server("one", harness.diary, "--asks", *old))
    servers.ask = partial(elicited, person.choices)
    servers.start()
    await servers.settled(PATIENCE)
    call = asyncio.create_task(harness.call(servers, "one:ask"))
    await harness.until(lambda: person.questions)
    call.cancel()
    await asyncio.wait({call})
    await harness.until(
        lambda: any(isinstance(event, events.ChoiceResolved) for event in resolved)
    )
    assert (
        await harness.call(servers, "one:echo", text="still there")
    ).text == "still there"
