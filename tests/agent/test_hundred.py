"""A hundred paths, commands and numbers, ten compactions: each is found again, and read as it was."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from foldline.agent import Agent
from foldline.agent.tools import Tool, ToolContext
from foldline.history import Session
from foldline.protocol import Compaction
from foldline.view.budget import BudgetSettings
from support.agents import PlayedLLM, agent_in, tool_reply

TURNS = 25
FILLER = {
    "en": "The rest of this is of no importance. ",
    "zh": "其余的内容并不重要，可以略过。",
}


class Plant(NamedTuple):
    needle: str
    """What is searched for."""
    sentence: str
    """What must be read back."""


def plants(turn: int) -> list[Plant]:
    """Four for a turn: in the prompt, in a command, in a file that is read, in the answer."""
    english = turn % 2 == 0
    path = (
        f"services/billing_{turn}/retry-policy.v{turn}.toml"
        if english
        else f"文档/第{turn}章/退款流程.md"
    )
    flag = f'--label="tier={turn}"' if english else f'--label="层级={turn}"'
    command = f"make -C build/{turn} deploy {flag} REGION='eu-{turn}' | tee \"out $(( {turn} * 3 )).log\""
    number, port = 7_000_003 + turn * 9_173, 20_011 + turn * 37
    if english:
        return [
            Plant(path, f"Mind {path} when you change the timeout."),
            Plant(command, command),
            Plant(str(number), f"the customer has {number} rows"),
            Plant(f"port {port}", f"The relay of group {turn} listens on port {port}."),
        ]
    return [
        Plant(path, f"改超时的时候注意 {path} 里的说明。"),
        Plant(command, command),
        Plant(str(number), f"客户一共有 {number} 行数据"),
        Plant(f"端口 {port}", f"第 {turn} 组的中继使用端口 {port}。"),
    ]


def script(turn: int, folder: Path) -> Iterator[object]:
    """What the model does in a turn: a command that does nothing, a file, an answer."""
    _, command, row, answer = plants(turn)
    filler = FILLER["zh" if turn % 2 else "en"]
    lines = [f"{filler}{n}\n" for n in range(40)]
    lines.insert(20, f"- {row.sentence}\n")
    (folder / f"notes_{turn}.txt").write_text("".join(lines), encoding="utf-8")
    yield tool_reply(
        ("bash", {"command": f"true # {command.sentence}"}), stem=f"b{turn}-"
    )
    yield tool_reply(("read", {"path": f"notes_{turn}.txt"}), stem=f"r{turn}-")
    yield f"{filler * 5}{answer.sentence}{filler * 5}"


async def work(folder: Path) -> Agent:
    """A session of many turns, compacted ten times; at its end nothing that was planted is in view."""
    llm = PlayedLLM(*(step for turn in range(TURNS) for step in script(turn, folder)))  # type: ignore[arg-type]
    agent, _ = agent_in(
        folder, llm, mode="off", budget=BudgetSettings(keep_recent_tokens=1_000)
    )
    for turn in range(TURNS):
        prompt = plants(turn)[0]
        await agent.prompt(f"{prompt.sentence} {FILLER['en'] * 20}")
        if turn % 3 == 2:
            await agent.compact()
            await assert_found(agent, folder, plants(turn))
    for _ in range(2):
        await agent.prompt(FILLER["en"] * 200)
        await agent.compact()
    return agent


async def assert_found(agent: Agent, folder: Path, wanted: list[Plant]) -> set[int]:
    """Each is found by the agent's own tools, and read back exactly; the entries they are in."""
    tools = {tool.spec.name: tool for tool in agent.state.tools.all}
    return {await found_in(tools, folder, plant) for plant in wanted}


async def found_in(tools: dict[str, Tool], folder: Path, plant: Plant) -> int:
    context = ToolContext(
        folder, lambda _: None, max_tokens=3_000, spill_dir=folder / "outputs"
    )
    found = await tools["history_search"].run({"query": plant.needle}, context)
    assert found.brief == "1 match", (plant, found.text)
    index = int(found.text.partition(" (")[0])
    read = await tools["history_read"].run({"index": index}, context)
    assert plant.sentence in read.text, (plant, read.text)
    return index


async def test_a_hundred_planted_things_are_found_after_ten_compactions_and_after_reopening(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    hundred = [plant for turn in range(TURNS) for plant in plants(turn)]
    assert len({plant.needle for plant in hundred}) == 100
    agent = await work(folder)
    session = agent.session
    assert sum(isinstance(entry, Compaction) for entry in session.entries) == 10
    places = await assert_found(agent, folder, hundred)
    assert len(places) == 100
    assert {session.projection.fate(index).kind for index in places} == {"summarised"}
    await agent.aclose()
    assert session.path is not None
    again = Agent(Session.open(session.path), llm=PlayedLLM())
    assert await assert_found(again, folder, hundred) == places
    await again.aclose()
