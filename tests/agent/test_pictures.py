"""Pictures and a model that takes none: left out, said, and shown to another model."""

from base64 import b64encode
from pathlib import Path
from typing import Any

from foldline.agent import Agent
from foldline.agent.session.commands import take_over
from foldline.past.proof import prove
from foldline.protocol import ImagePart, Part, events, operations, text_parts
from foldline.view.rules import broken
from support.agents import Watch, agent_in, reload_session
from support.clients import chat_at
from support.images import image
from support.server import RunningServer, running_server

PNG = image("png", 20, 20)
SENT = ImagePart(
    media_type="image/png", data=b64encode(PNG).decode(), width=20, height=20
)
LOOK = {"tool_calls": [{"name": "read", "arguments": {"path": "p.png"}}]}
NO_IMAGES = "No endpoints found that support image input"
REFUSED = {"fault": {"status": 404, "body": {"error": {"message": NO_IMAGES}}}}


def server_with(*answers: dict[str, Any], **options: Any) -> Any:
    """A server that gives these answers, one each; then the last one for ever."""
    rules: list[dict[str, Any]] = [{"times": 1, "answer": answer} for answer in answers]
    return running_server(script=[*rules[:-1], {"answer": answers[-1]}], **options)


def shown(server: RunningServer) -> list[bool]:
    """Whether each request showed the picture."""
    return ["image_url" in str(seen.messages) for seen in server.requests()]


async def ask(agent: Agent, text: str, *pictures: Part) -> None:
    run = operations.RunAgent(parts=(*text_parts(text), *pictures))
    finished = await agent.executor.wait_for(agent.executor.submit(run))
    assert finished.outcome == "done", finished.error


def warnings(watch: Watch) -> list[str]:
    return [
        notice.text
        for notice in watch.of(events.Notice)
        if "does not accept images" in notice.text
    ]


async def test_a_picture_that_a_tool_read_is_left_out_and_shown_to_a_model_that_takes_it(
    tmp_path: Path,
) -> None:
    (tmp_path / "p.png").write_bytes(PNG)
    with (
        server_with(LOOK, REFUSED, {"text": "done"}) as blind,
        server_with({"text": "seen"}) as seeing,
    ):
        agent, watch = agent_in(tmp_path, chat_at(blind.base_url, model=blind.model))
        assert (await agent.prompt("look at p.png")).text == "done"
        assert (await agent.prompt("and now?")).text == "done"
        assert shown(blind) == [False, True, False, False]
        [warning] = warnings(watch)
        assert "1 left out" in warning
        assert "F2" not in warning, "no picture of the user's"
        projection = agent.session.projection
        assert broken(projection) == []
        assert all(proof.holds for proof in prove(reload_session(agent).entries))
        await take_over(agent.state, chat_at(seeing.base_url, model=seeing.model))
        assert (await agent.prompt("what is in it?")).text == "seen"
        assert shown(seeing) == [True]
        await agent.aclose()


async def test_a_picture_of_the_users_is_named_with_the_key_that_drops_it(
    tmp_path: Path,
) -> None:
    with server_with(REFUSED, {"text": "I cannot see it."}) as server:
        agent, watch = agent_in(tmp_path, chat_at(server.base_url, model=server.model))
        await ask(agent, "what is this?", SENT)
        [item] = [
            item
            for item in agent.session.projection.view
            if item.message.parts[-1:] == (SENT,)
        ]
        [warning] = warnings(watch)
        assert f"Entry {item.index} " in warning and "F2" in warning
        await agent.prompt("go on")
        assert len(warnings(watch)) == 1
        await ask(agent, "and this?", SENT)
        assert len(warnings(watch)) == 2
        assert shown(server) == [True, False, False, False]
        await agent.aclose()


async def test_pictures_that_are_left_out_do_not_make_the_server_suspected_of_cutting(
    tmp_path: Path,
) -> None:
    with server_with(REFUSED, {"text": "ok"}) as server:
        agent, watch = agent_in(tmp_path, chat_at(server.base_url, model=server.model))
        large = SENT.model_copy(update={"width": 2_000, "height": 2_000})
        await ask(agent, "what are these?", *[large] * 12)
        assert not [
            notice for notice in watch.of(events.Notice) if "cut it" in notice.text
        ]
        request = agent.session.projection.meter.requests[-1]
        assert request.estimated < 12_000, "what was sent is what is learnt from"
        await agent.aclose()
