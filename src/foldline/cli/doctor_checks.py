"""The checks that `foldline doctor` makes of the installation.

They cover the program, terminal, settings, model and data.
"""

import asyncio
import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from contextlib import aclosing, suppress
from difflib import get_close_matches
from importlib.metadata import version
from importlib.util import find_spec
from itertools import groupby
from pathlib import Path

from foldline.agent import Agent
from foldline.agent.extensions.catalogue import catalogue_of
from foldline.agent.extensions.hooks import hooks_of
from foldline.agent.extensions.mcp import ToolServers
from foldline.agent.extensions.mcp.servers import MISSING
from foldline.agent.permissions.sandbox_engine import engine_here
from foldline.agent.project.trust import (
    INSTRUCTION_FILES,
    PROJECT_FILE,
    folder_files,
    project_file,
)
from foldline.agent.session.instructions import read_preamble
from foldline.agent.session.trust_question import does
from foldline.agent.settings.api_keys import secret_variables
from foldline.agent.settings.layers import config_file
from foldline.agent.settings.model_choice import provider_source
from foldline.agent.settings.settings import Settings, connect_llm, load_settings
from foldline.data import archive_dir, config_dir
from foldline.files import is_file, is_there
from foldline.formats.session_list import found_sessions
from foldline.frontend.commands import BY_SLASH
from foldline.history import (
    Session,
    SessionInfo,
    data_home,
    list_sessions,
    sessions_dir,
    short_id,
    utc_now,
)
from foldline.history.archive import LEAVING
from foldline.history.doctor import Finding, Findings, drafts_in
from foldline.history.lock import holder_of
from foldline.history.paths import HOLDER, with_tilde
from foldline.history.repair import tidy_up
from foldline.llm import LLM, Request, RetryChunk
from foldline.llm.base import OFFLINE
from foldline.programs import find_program, why_missing
from foldline.protocol import FoldlineError, UserMessage, system_words, text_parts
from foldline.text.numbers import many, some
from foldline.version import __version__
from foldline.view.tokens import message_tokens

from .agents import tool_servers
from .config import HOW_TO_APPROVE
from .screens import check_chosen_keys

_LIBRARIES = ("textual", "openai", "pydantic", "aiofiles", "filelock")
_VARIABLES = ("OPENAI_BASE_URL", "OPENAI_MODEL", "FOLDLINE_MODEL", "FOLDLINE_PROVIDER")
_OURS = frozenset(
    f"FOLDLINE_{name}"
    for name in ("HOME", "MODEL", "PROVIDER", "THEME", "CONTEXT_WINDOW", "CALL")
)
"""All `FOLDLINE_` variables except those for settings.

The names of the latter contain `__`.
"""
_VERSION_TIMEOUT = 5.0
"""Timeout for `PROGRAM --version`, in seconds.

After this, the version counts as unknown.
"""
NOT_USED = "not used"
UNKNOWN_VARIABLE = "is not a Foldline variable"
CANNOT_OPEN = "cannot be opened"
TRY_SERVERS = "use `--network` to connect to them"
TRY_MODEL = "use `--network` to send a test request"
NO_TOOLS = "its chat template does not support tools: choose another model"
NO_TERMINAL = "none: the chat and the inspector need one"
NO_CURSOR = "the chat needs a terminal that can move the cursor: set TERM"
NOT_UTF8 = "symbols may be garbled: set LANG to a UTF-8 locale, such as C.UTF-8"
SETTINGS_PAGE = "docs/settings.md lists all settings"
_ADVICE = {"keys": "docs/commands.md lists all keys"}
"""What to do if a check fails, by the check's name."""
REPAIRABLE = "run `foldline doctor --repair` to fix this"
STALE_LOCK = "lock file of a process that has ended"
UNFINISHED = "unfinished"
PARTLY_DELETED = "partly deleted sessions"
READABLE = "readable by other users"


def examine_here(network: bool) -> list[Finding]:
    """Check the installation.

    With `network`, this also sends the model a short request.
    """
    findings = [*_program(), *_terminal(), *_tools()]
    try:
        settings = load_settings(Path.cwd(), os.environ)
        settings.check_strategy()
    except FoldlineError as error:
        findings.append(_failure("settings", error, SETTINGS_PAGE))
        checks: dict[str, Findings] = {}
    else:
        checks = {
            "settings": _settings(settings),
            "keys": _keys(),
            "MCP": _servers(settings, network),
            "model": _model(settings, network),
        }
    checks |= {
        "folder": _folder(),
        "variables": _variables(),
        "sessions": _data(data_home()),
    }
    for name, results in checks.items():
        try:
            findings += results
        except FoldlineError as error:
            findings.append(_failure(name, error, _ADVICE.get(name, "")))
    return findings


def _failure(name: str, error: FoldlineError, advice: str = "") -> Finding:
    return Finding("bad", name, str(error).removesuffix("."), advice)


# --- program, terminal and tools -----------------------------------------------------------------------


def _program() -> Findings:
    python = ".".join(map(str, sys.version_info[:3]))
    yield Finding("ok", "foldline", f"{__version__} on Python {python}, {sys.platform}")
    libraries = ", ".join(f"{name} {version(name)}" for name in _LIBRARIES)
    yield Finding("ok", "libraries", libraries)


def _terminal() -> Findings:
    term = os.environ.get("TERM", "")
    encoding = sys.stdout.encoding or "unknown"
    variables = map(os.environ.get, ("LC_ALL", "LC_CTYPE", "LANG"))
    locale = next(filter(None, variables), "")
    if not sys.stdout.isatty():
        yield Finding("ok", "terminal", NO_TERMINAL)
        return
    size = shutil.get_terminal_size()
    details = f"{size.columns} × {size.lines}, TERM={term or '(empty)'}, {_colours(term)}, {encoding}"
    if "utf" not in locale.lower():
        details += f", locale {locale or 'not set'}"
    if term in ("", "dumb"):
        yield Finding("bad", "terminal", details, NO_CURSOR)
    elif "utf" not in locale.lower():
        yield Finding("warn", "terminal", details, NOT_UTF8)
    elif size.columns < 60 or size.lines < 16:
        yield Finding("warn", "terminal", details, "small: panels need about 60 × 16")
    else:
        yield Finding("ok", "terminal", details)


def _colours(term: str) -> str:
    if os.environ.get("NO_COLOR"):
        return "no colours (NO_COLOR)"
    if os.environ.get("COLORTERM") in ("truecolor", "24bit"):
        return "16 million colours"
    return "256 colours" if "256" in term else "16 colours"


def _tools() -> Findings:
    for name, program, advice in (
        ("ripgrep", "rg", "file search is slower without it"),
        ("git", "git", "without it, no branch is shown and .gitignore is ignored"),
    ):
        path = find_program(program)
        if path is None:
            yield Finding("warn", name, why_missing(program), advice)
        else:
            yield Finding(
                "ok", name, f"{_version_of(path) or 'unknown version'} ({path})"
            )
    yield _sandbox()


def _sandbox() -> Finding:
    engine = engine_here()
    if engine.holds:
        return Finding(
            "ok", "sandbox", f"{engine.name}: sandboxed and read-only modes available"
        )
    return Finding("warn", "sandbox", engine.name or "none", engine.why)


def _version_of(program: str) -> str:
    with suppress(OSError, subprocess.SubprocessError, IndexError):
        result = subprocess.run(
            [program, "--version"],
            capture_output=True,
            text=True,
            timeout=_VERSION_TIMEOUT,
            check=False,
        )
        return result.stdout.splitlines()[0].strip()
    return ""


def _keys() -> Findings:
    """Check the user's key settings.

    A generator like the other checks, so that `examine_here` catches its error.
    """
    check_chosen_keys()
    yield from ()


# --- settings and model ---------------------------------------------------------------------------------


def _settings(settings: Settings) -> Findings:
    files = [config_file(os.environ), project_file(Path.cwd())]
    existing = [str(file) for file in files if file is not None and file.is_file()]
    sources = ", ".join(existing) or f"defaults: {files[0]} does not exist"
    yield Finding("ok", "settings", sources)
    for warning in settings.warnings:
        yield Finding("warn", "settings", warning.removesuffix("."))


def _folder() -> Findings:
    """List everything that is configured for this folder, and the files that are not used."""
    cwd = Path.cwd()
    user_instructions = config_dir(os.environ) / INSTRUCTION_FILES[0]
    if is_file(user_instructions):
        yield Finding(
            "ok", "instructions", f"your own, {with_tilde(str(user_instructions))}"
        )
    yield from _project_files(cwd)
    catalogue = catalogue_of(cwd, BY_SLASH)
    for item in (*catalogue.by_name.values(), *catalogue.agents.values()):
        if item.is_trusted:
            yield Finding(
                "ok", item.kind.removesuffix("s"), f"{item.name}, {item.shown}"
            )
    hooks, faults = hooks_of(cwd)
    for file, events in groupby(hooks, key=lambda hook: hook.shown):
        yield Finding(
            "ok", "hooks", f"{file}: {', '.join(hook.event for hook in events)}"
        )
    for reason in (*catalogue.left_aside, *faults, *read_preamble(cwd).left_out):
        yield Finding("warn", NOT_USED, reason.removesuffix("."))
    for agent, count in Counter(
        session.agent for session in found_sessions(cwd=cwd)
    ).items():
        advice = f"use `foldline sessions --from {agent}` to list them"
        yield Finding(
            "ok",
            "sessions",
            f"{many(count, 'session')} of {agent} in this folder: {advice}",
        )


def _project_files(cwd: Path) -> Findings:
    for file in folder_files(cwd):
        description = f"{os.path.relpath(file.path)}: {does(file)}"
        if not file.is_trusted:
            yield Finding("warn", NOT_USED, description, HOW_TO_APPROVE)
        elif file.path.name in (PROJECT_FILE, *INSTRUCTION_FILES):
            approval = "approved" if file.word == "agreed" else "your own"
            yield Finding("ok", "folder", f"{approval} {description}")


def _variables() -> Findings:
    """List the environment variables that are set, and those that are misspelt."""
    variables = [*sorted(secret_variables()), *_VARIABLES]
    present = ", ".join(name for name in variables if os.environ.get(name, "").strip())
    result = f"set in the environment: {present}" if present else "none set"
    yield Finding("ok", "variables", result)
    for name in sorted(os.environ.keys() - {*variables, *_OURS}):
        if name.startswith("FOLDLINE_") and "__" not in name:
            advice = "use FOLDLINE_SECTION__KEY for a setting"
            for match in get_close_matches(name, _OURS, n=1):
                advice = f"did you mean {match}?"
            yield Finding("warn", "variables", f"{name} {UNKNOWN_VARIABLE}", advice)


def _model(settings: Settings, network: bool) -> Findings:
    provider = provider_source(settings, os.environ)
    if provider is not None:
        yield Finding("ok", "provider", provider.sentence)
    llm = connect_llm(settings, os.environ)
    if llm.info.id == OFFLINE:
        yield Finding(
            "ok", "model", "offline (built in); choose another with -m MODEL@PROVIDER"
        )
    elif network:
        yield asyncio.run(_test_request(llm, settings))
    else:
        name = " at ".join(
            filter(None, (llm.info.id or "the first model", llm.info.provider))
        )
        yield Finding("ok", "model", f"{name}; {TRY_MODEL}")


async def _test_request(llm: LLM, settings: Settings) -> Finding:
    """Check the window, and send a short request to test the server, key and model."""
    preamble = read_preamble(Path.cwd()).messages
    question = UserMessage(parts=text_parts("Answer with the word: yes"))
    try:
        await llm.prepare()
        session = Session.create(Path.cwd())
        agent = Agent(session, llm=llm, budget=settings.budget_settings)
        agent.state.budget.check_window(sum(map(message_tokens, preamble)))
        request = Request(messages=[question], tools=[])
        async with aclosing(llm.stream(request)) as chunks:
            async for chunk in chunks:
                if isinstance(chunk, RetryChunk):
                    return Finding("bad", "model", chunk.sentence.removesuffix("."))
                break
    finally:
        await llm.aclose()
    result = f"{llm.info.id} answers, with a window of {llm.info.window:,} tokens"
    if not llm.info.tools:
        return Finding("warn", "model", result, NO_TOOLS)
    return Finding("ok", "model", result)


_SERVER_TIMEOUT = 60.0
"""Timeout for starting all tool servers, in seconds.

Servers that are slower are reported as problems.
"""


def _servers(settings: Settings, network: bool) -> Findings:
    servers = tool_servers(settings, Path.cwd())
    if servers is None:
        return
    if find_spec("mcp") is None:
        problem, _, advice = MISSING.removesuffix(".").partition(": ")
        yield Finding("bad", "MCP", problem, advice)
    elif not network:
        names = ", ".join(state.name for state in servers.states)
        count = many(len(servers.states), "server")
        yield Finding("ok", "MCP", f"{count} set up: {names}; {TRY_SERVERS}")
    else:
        yield from asyncio.run(_connect(servers))


async def _connect(servers: ToolServers) -> list[Finding]:
    servers.start()
    await servers.settled(_SERVER_TIMEOUT)
    findings = [
        Finding("ok", f"MCP {server.name}", str(server))
        if server.state == "connected"
        else Finding(
            "bad", f"MCP {server.name}", str(server), f"see its log: {server.log}"
        )
        for server in servers.states
    ]
    await servers.aclose()
    return findings


_LITTLE_SPACE = 500_000_000
_TOO_LITTLE_SPACE = 20_000_000
"""Free space, in bytes, below which a problem is reported.

Below `_LITTLE_SPACE`, there is only a warning.
"""


def _data(home: Path) -> Findings:
    """Check the data folder and all sessions in it."""
    yield _disk(home)
    infos = _all_sessions(home)
    yield from _sessions(infos)
    yield from _left_over(infos, _half_deleted(home))


def tidy(home: Path) -> tuple[str, ...]:
    """Remove files left behind by crashed processes.

    Returns the steps as sentences.
    """
    steps = []
    for info in _all_sessions(home):
        with suppress(FoldlineError):
            steps += [
                f"{short_id(info.id)}: {step}" for step in tidy_up(info.path, utc_now())
            ]
    for folder in _half_deleted(home):
        shutil.rmtree(folder)
        steps.append(f"{folder.name}: removed the rest of a deleted session")
    return tuple(steps)


def _disk(home: Path) -> Finding:
    nearest = next(folder for folder in (home, *home.parents) if is_there(folder))
    try:
        free = shutil.disk_usage(nearest).free
        # File modes do not show whether a disk is read-only or full.
        with tempfile.TemporaryFile(dir=nearest) as file:
            file.write(b"foldline doctor")
            file.flush()
    except OSError as error:
        problem = f"{nearest} cannot be written to ({system_words(error)})"
        return Finding("bad", "data", problem, "set FOLDLINE_HOME to another folder")
    details = f"{home}, {free / 1e9:,.1f} GB free"
    if not is_there(home):
        details += ", not created yet"
    if free < _TOO_LITTLE_SPACE:
        return Finding(
            "bad", "data", details, "free up space: sessions cannot be stored"
        )
    if free < _LITTLE_SPACE:
        return Finding("warn", "data", details, "free up space soon")
    return Finding("ok", "data", details)


def _all_sessions(home: Path) -> list[SessionInfo]:
    return [*list_sessions(home), *list_sessions(home, archived=True)]


def _sessions(infos: list[SessionInfo]) -> Findings:
    unreadable = tuple(short_id(info.id) for info in infos if not info.readable)
    damaged = tuple(
        short_id(info.id) for info in infos if info.readable and info.meta.note
    )
    count = many(len(infos), "session")
    if unreadable:
        advice = f"run `foldline doctor {unreadable[0]}` for details"
        problem = f"{len(unreadable)} of {count} {CANNOT_OPEN}: {some(unreadable)}"
        yield Finding("bad", "sessions", problem, advice, unreadable)
    if damaged:
        advice = (
            f"run `foldline doctor {damaged[0]} --repair` to remove the damaged records"
        )
        problem = f"{len(damaged)} of {count} damaged: {some(damaged)}"
        yield Finding("warn", "sessions", problem, advice, damaged)
    if not (unreadable or damaged):
        yield Finding("ok", "sessions", f"{count}, all can be opened")


def _half_deleted(home: Path) -> list[Path]:
    """Return the folders that interrupted deletions left behind."""
    roots = (sessions_dir(home), archive_dir(home))
    return [folder for root in roots for folder in sorted(root.glob(f"*/.*{LEAVING}"))]


def _left_over(infos: list[SessionInfo], deleted: list[Path]) -> Findings:
    """Check for files that crashed processes left behind, and for folders that other users can read."""
    writers = []
    faults: dict[tuple[str, str], list[str]] = defaultdict(list)
    for info in infos:
        folder = info.path.parent
        name = short_id(info.id)
        holder = holder_of(folder)
        if holder is not None:
            writers.append(f"{name} by {holder}")
            continue
        if is_there(folder / HOLDER):
            faults["writers", STALE_LOCK].append(name)
        if any(drafts_in(folder)):
            faults["temporary files", UNFINISHED].append(name)
        if folder.stat().st_mode & 0o077:
            faults["modes", READABLE].append(name)
    if writers:
        yield Finding("ok", "writers", some(writers), "", tuple(writers))
    for path in deleted:
        name = path.name.strip(".").removesuffix(LEAVING)
        faults["temporary files", PARTLY_DELETED].append(name)
    for (subject, problem), names in faults.items():
        problem = f"{problem}: {some(names)}"
        yield Finding("warn", subject, problem, REPAIRABLE, tuple(names))
    if not faults:
        yield Finding("ok", "temporary files", "none")
