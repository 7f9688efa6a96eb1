"""A session of Foldline, compacted twice, that another agent continues and compacts once more."""

import json
from dataclasses import dataclass

from .catalogue.base import Agent
from .comparison import (
    Compared,
    compare,
    foldline,
    held,
    items_sent,
    last_request,
    viewed,
)
from .script import PROMPTS
from .workspace import Workspace

BY_FOLDLINE = (1, 2, 3)
"""The jobs that Foldline does; it compacts after the first and the second."""
BY_AGENT = (4, 5)
"""The jobs of the agent, which compacts between them."""


@dataclass(frozen=True)
class HandedOver:
    """How many of the items handed over the agent sent and we read back, and a comparison at the end."""

    items: int
    in_request: int
    in_view: int
    compacted: Compared

    @property
    def kept(self) -> str:
        return f"{self.in_request} of {self.items} sent, {self.in_view} read back"

    def __str__(self) -> str:
        return f"{self.kept}; compacted: {self.compacted}"


def hand_over(agent: Agent, place: Workspace) -> HandedOver:
    """Make the session, hand it over, go on with it, and compare before and after the agent's compaction."""
    session = _foldline_session(place)
    said, _ = foldline(
        place.home,
        "handoff",
        session,
        "--to",
        agent.handoff,
        "--json",
        folder=place.work,
    )
    handed = json.loads(said)
    items, _ = viewed(handed["path"], place.home)
    agent.resume(handed)
    before = len(place.requests())
    agent.job(BY_AGENT[0])
    request = items_sent(last_request(place.requests()[before:]))
    in_request = held(items, request)
    in_view = held(items, viewed(agent.file(), place.home)[0])
    agent.compact()
    agent.job(BY_AGENT[1])
    sent = items_sent(last_request(place.requests()[before:]))
    compacted = compare(sent, *viewed(agent.file(), place.home))
    return HandedOver(len(items), in_request, in_view, compacted)


def _foldline_session(place: Workspace) -> str:
    """The id of a new session of Foldline in this workspace."""
    variables = {
        "OPENAI_BASE_URL": f"{place.address}/v1",
        "OPENAI_API_KEY": "dummy",
        "FOLDLINE_MODEL": "scripted",
    }

    def run(*arguments: str) -> str:
        return foldline(place.home, *arguments, folder=place.work, **variables)[0]

    session = ""
    for number in BY_FOLDLINE:
        go_on = ("--continue",) if session else ()
        run("run", "--yes", "--trust", *go_on, PROMPTS[number])
        session = json.loads(run("sessions", "--json"))[0]["id"]
        if number != BY_FOLDLINE[-1]:
            run("compact", session, "--keep", "600", "--model", "offline")
    return str(session)
