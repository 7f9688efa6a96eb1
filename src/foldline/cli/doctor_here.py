"""What `foldline doctor` looks at where no session is named: program, terminal, settings, model."""

import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, suppress
from difflib import get_close_matches
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING

from foldline.agent.api_keys import secret_variables
from foldline.agent.layers import config_file, project_file
from foldline.agent.model_choice import asked_now
from foldline.agent.settings import Settings, connect_llm, load_settings
from foldline.history import data_home
from foldline.history.doctor import Finding
from foldline.llm.offline import OFFLINE
from foldline.protocol import FoldlineError, UserMessage, text_parts
from foldline.version import __version__

from .doctor_data import examine_data
from .doctor_servers import examine_servers
from .keys import examine_keys

if TYPE_CHECKING:
    from foldline.llm import LLM

_OLDEST = (3, 11)
_LIBRARIES = ("textual", "openai", "pydantic", "aiofiles", "filelock")
_VARIABLES = ("OPENAI_BASE_URL", "OPENAI_MODEL", "FOLDLINE_MODEL", "FOLDLINE_PROVIDER")
_OURS = frozenset(
    f"FOLDLINE_{name}" for name in ("HOME", "MODEL", "PROVIDER", "THEME", "CONTEXT_WINDOW", "CALL")
)
"""All that begin like this and have no `__`: those with one are settings, and held against their table."""
_PATIENCE = 5.0
"""Seconds another program has to tell its version."""


def examine_here(network: bool) -> list[Finding]:
    """Every check of the installation. Only with `network` a short request goes to the model."""
    settings, problems = _settings()
    return [
        *_program(),
        *_terminal(),
        *_tools(),
        *problems,
        *(examine_keys() if settings is not None else ()),
        *_model(settings, network),
        *(examine_servers(settings, network) if settings is not None else ()),
        *examine_data(data_home()),
    ]


# --- the program and what it needs ---------------------------------------------------------------------


def _program() -> Iterator[Finding]:
    python = ".".join(map(str, sys.version_info[:3]))
    if sys.version_info >= _OLDEST:
        yield Finding("ok", "foldline", f"{__version__} on Python {python}, {sys.platform}")
    else:
        needed = ".".join(map(str, _OLDEST))
        yield Finding("bad", "foldline", f"{__version__} on Python {python}", f"use Python {needed} or newer")
    found, missing = [], []
    for name in _LIBRARIES:
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            missing.append(name)
    if missing:
        yield Finding("bad", "libraries", f"not installed: {', '.join(missing)}", "install foldline again")
    else:
        yield Finding("ok", "libraries", ", ".join(found))
    yield _sqlite()


def _sqlite() -> Finding:
    name = f"sqlite {sqlite3.sqlite_version}"
    if _tokenizes_by("trigram"):
        return Finding("ok", "search", f"{name} with FTS5 and trigrams")
    lacks = "trigrams" if _tokenizes_by("unicode61") else "FTS5"
    return Finding("warn", "search", f"{name} without {lacks}", "searching works, but slower")


def _tokenizes_by(tokenizer: str) -> bool:
    with closing(sqlite3.connect(":memory:")) as database, suppress(sqlite3.OperationalError):
        database.execute(f"CREATE VIRTUAL TABLE said USING fts5(text, tokenize = '{tokenizer}')")
        return True
    return False


def _terminal() -> Iterator[Finding]:
    term = os.environ.get("TERM", "")
    encoding = sys.stdout.encoding or "unknown"
    locale = next((os.environ[name] for name in ("LC_ALL", "LC_CTYPE", "LANG") if os.environ.get(name)), "")
    if not sys.stdout.isatty():
        yield Finding("ok", "terminal", "none: the chat needs one, all other commands do not")
        return
    size = shutil.get_terminal_size()
    found = f"{size.columns} × {size.lines}, TERM={term or '(empty)'}, {_colours(term)}, {encoding}"
    if term in ("", "dumb"):
        yield Finding("bad", "terminal", found, "the chat needs a terminal that moves the cursor: set TERM")
    elif (locale and "utf" not in locale.lower()) or not locale:
        advice = "signs may come out wrong: set LANG to a UTF-8 locale, such as C.UTF-8"
        yield Finding("warn", "terminal", f"{found}, locale {locale or 'not set'}", advice)
    elif size.columns < 60 or size.lines < 16:
        yield Finding("warn", "terminal", found, "small: panels need about 60 × 16")
    else:
        yield Finding("ok", "terminal", f"{found}, {locale}")


def _colours(term: str) -> str:
    if os.environ.get("NO_COLOR"):
        return "no colours (NO_COLOR)"
    if os.environ.get("COLORTERM") in ("truecolor", "24bit"):
        return "16 million colours"
    return "256 colours" if "256" in term else "16 colours"


def _tools() -> Iterator[Finding]:
    for name, program, without in (
        ("ripgrep", "rg", "searching files works without it, but slower"),
        ("git", "git", "the chat shows no branch, and respects no .gitignore"),
    ):
        where = shutil.which(program)
        if where is None:
            yield Finding("warn", name, "not found", without)
        else:
            yield Finding("ok", name, f"{_version_of(where) or 'does not tell its version'} ({where})")


def _version_of(program: str) -> str:
    with suppress(OSError, subprocess.SubprocessError, IndexError):
        asked = subprocess.run(
            [program, "--version"], capture_output=True, text=True, timeout=_PATIENCE, check=False
        )
        return asked.stdout.splitlines()[0].strip()
    return ""


# --- settings and model ---------------------------------------------------------------------------------


def _settings() -> tuple[Settings | None, list[Finding]]:
    files = [config_file(os.environ), project_file(Path.cwd())]
    there = ", ".join(str(file) for file in files if file is not None and file.is_file())
    try:
        settings = load_settings(Path.cwd(), os.environ)
        settings.check_strategy()
    except FoldlineError as error:
        return None, [
            Finding("bad", "settings", str(error).removesuffix("."), "`foldline config` lists them")
        ]
    return settings, [Finding("ok", "settings", there or f"all by default: there is no {files[0]}")]


def _model(settings: Settings | None, network: bool) -> Iterator[Finding]:
    known = [*sorted(secret_variables()), *_VARIABLES]
    given = [name for name in known if os.environ.get(name, "").strip()]
    yield Finding(
        "ok", "variables", f"set in the environment: {', '.join(given)}" if given else "none is set"
    )
    for name in sorted(os.environ):
        if name.startswith("FOLDLINE_") and "__" not in name and name not in {*known, *_OURS}:
            close = get_close_matches(name, _OURS, n=1)
            advice = f"did you mean {close[0]}?" if close else "FOLDLINE_SECTION__KEY sets any setting"
            yield Finding("warn", "variables", f"{name} means nothing to Foldline", advice)
    if settings is None:
        return
    try:
        asked = asked_now(settings, os.environ)
        if asked is not None:
            yield Finding("ok", "provider", asked.sentence)
        llm = connect_llm(settings, os.environ)
    except FoldlineError as error:
        yield Finding("bad", "model", str(error).removesuffix("."))
        return
    if llm.info.id == OFFLINE:
        yield Finding(
            "ok", "model", "offline, built in: for another, name a provider, as in -m MODEL@PROVIDER"
        )
    elif network:
        yield _asked(llm)
    else:
        named = " at ".join(filter(None, (llm.info.id or "the first of its server", llm.info.provider)))
        yield Finding("ok", "model", f"{named}; `--network` tries whether it answers")


def _asked(llm: "LLM") -> Finding:
    """Whether one short request gets an answer: nothing less shows that server, key and model are right."""
    import asyncio
    from contextlib import aclosing

    from foldline.llm import Request, RetryChunk

    async def ask() -> Finding:
        request = Request(messages=[UserMessage(parts=text_parts("Answer with the word: yes"))], tools=[])
        try:
            async with aclosing(llm.stream(request)) as chunks:
                async for chunk in chunks:
                    if isinstance(chunk, RetryChunk):
                        return Finding("bad", "model", chunk.sentence.removesuffix("."))
                    break
            return Finding("ok", "model", f"{llm.info.id} answers, window of {llm.info.window:,} tokens")
        finally:
            await llm.aclose()

    try:
        return asyncio.run(ask())
    except FoldlineError as error:
        return Finding("bad", "model", str(error).removesuffix("."))
