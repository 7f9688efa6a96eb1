"""`foldline serve`: the same screens in a browser on this machine."""

import ipaddress
import secrets
from importlib.util import find_spec

from foldline.cli.arguments import UsageError
from foldline.cli.output import note
from foldline.protocol import FoldlineError
from foldline.termination import run_async

MISSING = "`foldline serve` needs textual-serve: `pip install 'foldline[serve]'` brings it."


def serve(
    host: str,
    port: int,
    expose: bool,
    continues: bool,
    model: str | None,
    window: int | None,
    strategy: str | None,
    theme: str | None,
) -> int:
    if not is_loopback(host) and not expose:
        raise UsageError(
            f"{host} can be reached from other machines, and whoever reaches it with the address that is "
            "printed can run commands as you: --expose says that this is meant."
        )
    if find_spec("textual_serve") is None:
        raise FoldlineError(MISSING)
    from .server import FoldlineServer  # imports textual-serve

    if not is_loopback(host):
        note("other machines can reach this, unencrypted: whoever has the address runs commands as you.")
    given = {"-m": model, "--window": window, "--strategy": strategy, "--theme": theme}
    options = [part for name, value in given.items() if value is not None for part in (name, str(value))]
    options += ["-c"] if continues else []
    token = secrets.token_urlsafe(24)
    server = FoldlineServer(host, port, token, options, has_other_names=not is_loopback(host))
    return run_async(server.run())


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches what listens there."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
