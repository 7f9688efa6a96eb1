"""Reads the recording that travels with the program: a session Foldline kept of work on itself."""

from pathlib import Path

from foldline.agent import Agent
from foldline.agent.tools import default_tools
from foldline.agent.tools.recall import recall_tools
from foldline.agent.tools.replay import replayed
from foldline.history import Session, read_log
from foldline.llm.offline import OfflineLLM
from foldline.llm.replay import ReplayLLM
from foldline.protocol import AssistantMessage, ToolResultMessage, UserMessage

RECORDING = Path(__file__).parent / "recording.jsonl"
WINDOW = 10_240
"""Tokens: the window the session was recorded in. It fills more than once."""


def recorded_prompts() -> list[str]:
    """What the user typed, in order."""
    entries = read_log(RECORDING).entries
    return [entry.text for entry in entries if isinstance(entry, UserMessage)]


def replaying_agent(root: Path, home: Path, pace: float) -> Agent:
    """An agent that will live the recording through once more, in a session kept below `home`."""
    entries = read_log(RECORDING).entries
    answers = [entry for entry in entries if isinstance(entry, AssistantMessage)]
    results = [entry for entry in entries if isinstance(entry, ToolResultMessage)]
    session = Session.create(root, home=home)
    return Agent(
        session,
        llm=ReplayLLM(answers, OfflineLLM(WINDOW, pace=pace), pace=pace),
        tools=(*replayed(default_tools(), results), *recall_tools(session)),
        approvals="all",
        interactive=True,
        draft_ahead=False,  # the folds fall where they were recorded, however fast it is played
    )
