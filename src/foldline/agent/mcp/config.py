"""What is set for one tool server: how it is reached, and what of that must not be shown."""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

from foldline.protocol import FoldlineError

CALL_SECONDS = 120.0
"""How long a call may take where nothing is set: as long as a command of `bash`."""

_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_SHORTEST_SECRET = 6
"""Characters; what is shorter, such as `1` or `true`, would black out half of a log."""


@dataclass(frozen=True, slots=True)
class ServerConfig:
    """One server: a program that is started, or an address that is asked. Exactly one of the two is set."""

    name: str
    command: str = ""
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    """What its environment has beside a few harmless variables of ours, such as PATH and HOME."""
    cwd: str = ""
    """Where it runs; empty is the working directory of the session."""
    url: str = ""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    timeout: float = CALL_SECONDS
    """Seconds a call may take."""

    def filled_in(self, environ: Mapping[str, str]) -> "Filled":
        """With the variables it refers to as `${NAME}` in their places.

        Raises:
            FoldlineError: it names neither a program nor an address, or both; or a variable is not set.
        """
        if bool(self.command) == bool(self.url):
            raise FoldlineError(
                f"The MCP server {self.name} needs either a command or a url: set one of them in "
                f"[mcp.{self.name}]."
            )
        used: set[str] = set()

        def filled(text: str) -> str:
            def value(match: re.Match[str]) -> str:
                if match[1] not in environ:
                    raise FoldlineError(
                        f"The MCP server {self.name} needs the environment variable {match[1]}, which is not "
                        f"set: set it, or take it out of [mcp.{self.name}]."
                    )
                used.add(environ[match[1]])
                return environ[match[1]]

            return _VARIABLE.sub(value, text)

        config = replace(
            self,
            command=filled(self.command),
            args=tuple(map(filled, self.args)),
            env={name: filled(value) for name, value in self.env.items()},
            cwd=filled(self.cwd),
            url=filled(self.url),
            headers={name: filled(value) for name, value in self.headers.items()},
        )
        return Filled(config, _masking([*used, *config.env.values(), *config.headers.values()]))


@dataclass(frozen=True, slots=True)
class Filled:
    """A configuration ready to be used."""

    config: ServerConfig
    masked: Callable[[str], str]
    """A text with `***` for every value that came from `env`, `headers` or a variable."""


def _masking(values: Iterable[str]) -> Callable[[str], str]:
    # "Bearer abc" is secret as a whole, and so is what stands after the blank.
    parts = {part for value in values for part in (value, *value.split())}
    secret = sorted((part for part in parts if len(part) >= _SHORTEST_SECRET), key=len, reverse=True)

    def masked(text: str) -> str:
        for value in secret:
            text = text.replace(value, "***")
        return text

    return masked
