"""What a reader and the model are told when a job in the background has ended."""

from foldline.agent.tools.jobs import Job, Jobs
from foldline.agent.tools.text import one_line
from foldline.protocol import BaseMessage, DeveloperMessage, text_parts

_SHOWN = 60
"""Characters of the command."""


def ended_sentence(job: Job) -> str:
    """For the reader, at once."""
    command = one_line(job.command)
    short = command if len(command) <= _SHOWN else command[: _SHOWN - 1] + "…"
    return f"Job {job.number} {job.state}: {short}"


def ended_notice(jobs: Jobs) -> list[BaseMessage]:
    """For the model, before the next prompt: what has ended without a result that told of it."""
    ended = jobs.news()
    if not ended:
        return []
    for job in ended:
        job.told = True
    body = "\n".join(f"{ended_sentence(job)}. The tool `jobs` shows its output." for job in ended)
    return [DeveloperMessage(parts=text_parts(body))]
