"""`foldline serve`: the same screens in a browser on this machine."""

import ipaddress
import secrets
from argparse import ArgumentParser, ArgumentTypeError
from importlib.util import find_spec

from foldline.cli.arguments import (
    Handler,
    UsageError,
    add_continue,
    add_model,
    add_strategy,
    add_theme,
    add_window,
    number_of,
)

MISSING = "`foldline serve` needs textual-serve: `pip install 'foldline[serve]'` brings it."


def serve_command(parser: ArgumentParser) -> Handler:
    what = "where to listen; by default, on this machine"
    parser.add_argument("--host", default="127.0.0.1", metavar="ADDRESS", help=what)
    parser.add_argument("--port", type=_port, default=8000, metavar="N", help="8000; 0 is any that is free")
    what = "let other machines in: whoever has the address acts as you"
    parser.add_argument("--expose", action="store_true", help=what)
    add_continue(parser)
    add_model(parser)
    add_window(parser)
    add_strategy(parser)
    add_theme(parser)
    return serve


def _port(text: str) -> int:
    port = number_of(text)
    if not 0 <= port <= 65_535:
        raise ArgumentTypeError(f"{text!r} is no port: 0 to 65535")
    return port


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
    from foldline.protocol import FoldlineError

    if not is_loopback(host) and not expose:
        raise UsageError(
            f"{host} can be reached from other machines, and whoever reaches it with the address that is "
            "printed can run commands as you: --expose says that this is meant."
        )
    if find_spec("textual_serve") is None:
        raise FoldlineError(MISSING)
    from foldline.cli.output import note
    from foldline.termination import run_async

    from .server import FoldlineServer

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
