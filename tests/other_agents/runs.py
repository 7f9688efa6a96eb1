"""Runs one agent: the job, its compactions, a rewind, a handoff; what came of each is compared at once."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from .catalogue.base import Agent
from .comparison import Compared, compare, items_sent, last_request, viewed
from .handover import HandedOver, hand_over
from .install import InstallError, installed, root
from .known import explained
from .script import PROMPTS
from .workspace import RunError, Workspace


@dataclass
class Outcome:
    """What one agent did. `stopped` says at which stage it failed, and why."""

    name: str
    job: Compared | None = None
    compacted: Compared | None = None
    rewound: Compared | None = None
    handed: HandedOver | None = None
    stopped: str = ""
    known: list[str] = field(default_factory=list)
    unknown: bool = False

    def take(self, stage: str, compared: Compared) -> None:
        """Print what a comparison found, and sort its differences."""
        _say(f"  {stage}: {compared} equal")
        sentences, unknown = explained(self.name, compared.differences)
        self.known += [sentence for sentence in sentences if sentence not in self.known]
        for sentence in sentences:
            _say(f"    known: {sentence}")
        for difference in unknown:
            self.unknown = True
            _say(f"    unknown:\n{difference}")


def run(agent: type[Agent]) -> Outcome:
    """Install and run an agent; what fails ends its run, and is said in the outcome."""
    outcome = Outcome(agent.name)
    _say(f"{agent.title} {agent.version}")
    try:
        folder = installed(f"{agent.name}-{agent.version}", agent.packages)
        programs = agent.packages.programs(folder)
    except InstallError as error:
        outcome.stopped = f"not installed: {error}"
        _say(f"  {outcome.stopped}")
        return outcome
    stages = [("run", _work)] + ([("handoff", _go_on)] if agent.handoff else [])
    for stage, work in stages:
        place = Workspace(
            root() / "runs" / f"{agent.name}-{stage}", programs, agent.window
        )
        try:
            with place, _running(agent, place) as running:
                work(running, place, outcome)
        except (
            RunError,
            OSError,
            LookupError,
            ValueError,
        ) as error:  # an answer may have another form, too
            said = str(error) if isinstance(error, RunError) else repr(error)
            outcome.stopped = f"{stage}: {said}".replace("\n", " ")
            _say(f"  {outcome.stopped}")
    return outcome


@contextmanager
def _running(agent: type[Agent], place: Workspace) -> Iterator[Agent]:
    running = agent(place)
    try:
        yield running
    finally:
        running.close()


def _work(agent: Agent, place: Workspace, outcome: Outcome) -> None:
    """Two jobs, then a compaction before each of two more, then a rewind."""

    def compared(stage: str) -> Compared:
        found = compare(
            items_sent(last_request(place.requests())),
            *viewed(agent.file(), place.home),
        )
        outcome.take(stage, found)
        return found

    agent.begin()
    agent.job(1)
    agent.job(2)
    outcome.job = compared("job")
    for number in (3, 4):
        before = place.summaries()
        agent.compact()
        agent.job(number)
        if place.summaries() == before:
            raise RunError("it asked for no summary")
    outcome.compacted = compared("compacted twice")
    if agent.can_rewind:
        agent.rewind()
        agent.job(5)
        if any(
            item.text.endswith(PROMPTS[4])
            for item in items_sent(last_request(place.requests()))
        ):
            raise RunError("its rewind took nothing back")
        outcome.rewound = compared("rewound")


def _go_on(agent: Agent, place: Workspace, outcome: Outcome) -> None:
    """Go on with a session of Foldline."""
    outcome.handed = hand_over(agent, place)
    _say(f"  handed over: {outcome.handed.kept}")
    outcome.take("handed over and compacted", outcome.handed.compacted)


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()
