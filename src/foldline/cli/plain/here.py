"""The commands of a plain chat that are about sessions: they run in the person's own thread."""

from collections.abc import Callable, Coroutine
from typing import Any

from foldline.agent import Agent
from foldline.history import title_entry
from foldline.protocol import FoldlineError

Handler = Callable[[str], None]


def session_commands(
    agent: Agent, say: Callable[[str], None], do: Callable[[Coroutine[Any, Any, Any]], Any]
) -> dict[str, Handler]:
    """A handler for each, by its id. `do` runs a coroutine beside the agent, and waits for it."""

    def sessions(_: str) -> None:
        from foldline.cli import sessions as listing

        listing.run(everywhere=False, archived=False, limit=20, agent=None, as_json=False)
        say("`foldline --plain -r ID` goes on with one of them.")

    def search(query: str) -> None:
        from foldline.cli import search as searching

        if query:
            searching.run(words=query.split(), here=False, kind=None, limit=None, as_json=False)
        else:
            say("/search takes the words that are to be found.")

    def rename(title: str) -> None:
        entry = title_entry(title)
        if entry is None:
            say(f"It is called “{agent.session.meta().title}”. /rename TITLE gives it another title.")
        else:
            do(agent.session.append(entry, durable=True))
            agent.session.save_meta()

    def safely(handler: Handler) -> Handler:
        def handle(argument: str) -> None:
            try:
                handler(argument)
            except FoldlineError as failure:
                say(str(failure))

        return handle

    return {
        "sessions": safely(sessions),
        "search": safely(search),
        "rename": safely(rename),
    }
