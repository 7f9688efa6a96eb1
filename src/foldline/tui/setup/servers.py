"""What the setup screen asks of the world outside."""

from collections.abc import Sequence
from typing import Protocol

from foldline.llm.offers import Offer
from foldline.tui.setup.secret import Secret
from foldline.tui.setup.state import Choice, Source


class Servers(Protocol):
    """Providers, the servers behind them, and where a choice is kept."""

    async def answers(self, source: Source) -> bool:
        """Whether a local server is there right now; asked for a moment only, never an error."""
        ...

    async def models(self, source: Source, key: Secret | None) -> Sequence[Offer]:
        """What a server has to offer; also the cheap call that checks a key.

        Raises:
            LLMError: it refused the key, did not answer, or has no such list.
        """
        ...

    def known(self, source: Source, names: Sequence[str]) -> Sequence[Offer]:
        """What is known of these models of a server, and of those set for it, before it is asked."""
        ...

    @property
    def summariser(self) -> str:
        """The model that writes the summaries, as settings name it; empty: the session's own."""
        ...

    async def summarise_with(self, choice: Choice | None) -> str:
        """Let this model write the summaries, or, without one, the session's own again; what became of it.

        Raises:
            FoldlineError: it was not kept, and nothing has changed.
        """
        ...

    def other(self, address: str) -> Source:
        """The server at an address somebody typed.

        Raises:
            FoldlineError: no server can be there.
        """
        ...

    def folds(self, offer: Offer) -> bool:
        """Whether the conversation has to be folded before this model can go on with it."""
        ...

    async def keep(self, choice: Choice) -> None:
        """Write down the key that was typed, and the choice.

        Raises:
            FoldlineError: the disk refused.
        """
        ...
