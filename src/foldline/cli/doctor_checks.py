"""What `foldline doctor` checks where no session is named: program, terminal, settings, model, data."""

import asyncio
import json
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections import Counter
from collections.abc import Iterator
from contextlib import aclosing, suppress
from difflib import get_close_matches
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from itertools import groupby
from pathlib import Path
from typing import Any

from foldline.agent import Agent
from foldline.agent.api_keys import secret_variables
from foldline.agent.catalogue import catalogue_of, shown_path
from foldline.agent.discovery import up_to_top
from foldline.agent.hooks import hooks_of
from foldline.agent.instructions import read_preamble
from foldline.agent.layers import config_file, keys_given, project_file
from foldline.agent.mcp import ToolServers
from foldline.agent.mcp.servers import MISSING
from foldline.agent.model_choice import asked_now
from foldline.agent.sandbox import engine_here
from foldline.agent.settings import Settings, connect_llm, load_settings
from foldline.agent.trust import INSTRUCTION_FILES, PROJECT_FILE, brought
from foldline.agent.trust_question import does
from foldline.context.numbers import many, some
from foldline.context.tokens import message_tokens
from foldline.data import archive_dir, config_dir, typed_path
from foldline.files import is_file, is_there, read_regular
from foldline.formats.session_list import found_sessions
from foldline.history import Session, SessionInfo, data_home, list_sessions, sessions_dir, short_id, utc_now
from foldline.history.archive import LEAVING
from foldline.history.doctor import Finding, Findings, Mark, drafts_in
from foldline.history.lock import holder_of
from foldline.history.paths import HOLDER, with_tilde
from foldline.history.repair import tidy_up
from foldline.llm import LLM, Request, RetryChunk
from foldline.llm.base import OFFLINE
from foldline.programs import find_program, why_missing
from foldline.protocol import FoldlineError, UserMessage, system_words, text_parts
from foldline.tui.keys.commands import BY_SLASH
from foldline.version import __version__

from .agents import tool_servers
from .screens import check_chosen_keys

_LIBRARIES = ("textual", "openai", "pydantic", "aiofiles", "filelock")
_VARIABLES = ("OPENAI_BASE_URL", "OPENAI_MODEL", "FOLDLINE_MODEL", "FOLDLINE_PROVIDER")
_OURS = frozenset(
    f"FOLDLINE_{name}" for name in ("HOME", "MODEL", "PROVIDER", "THEME", "CONTEXT_WINDOW", "CALL")
)
"""All that begin like this and have no `__`: those with one are settings, and held against their table."""
_VERSION_PATIENCE = 5.0
"""Seconds another program has to tell its version."""
_MOST_OF_OTHERS = 20_000_000
"""Bytes of another agent's file: Claude Code keeps all it knows of every project in one."""


def examine_here(network: bool) -> list[Finding]:
    """Every check of the installation. Only with `network` a short request goes to the model."""
    settings, problems = _settings()
    return [
        *_program(),
        *_terminal(),
        *_tools(),
        *problems,
        *(_keys() if settings is not None else ()),
        *_folder(),
        *_model(settings, network),
        *(_servers(settings, network) if settings is not None else ()),
        *_data(data_home()),
    ]


# --- the program and what it needs ---------------------------------------------------------------------


def _program() -> Findings:
    python = ".".join(map(str, sys.version_info[:3]))
    yield Finding("ok", "foldline", f"{__version__} on Python {python}, {sys.platform}")
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


def _terminal() -> Findings:
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
        yield Finding(
            "warn",
            "terminal",
            f"{found}, locale {locale or 'not set'}",
            "signs may come out wrong: set LANG to a UTF-8 locale, such as C.UTF-8",
        )
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


def _tools() -> Findings:
    for name, program, without in (
        ("ripgrep", "rg", "searching files works without it, but slower"),
        ("git", "git", "the chat shows no branch, and respects no .gitignore"),
    ):
        where = find_program(program)
        if where is None:
            yield Finding("warn", name, why_missing(program), without)
        else:
            yield Finding("ok", name, f"{_version_of(where) or 'does not tell its version'} ({where})")
    yield _sandbox()


def _sandbox() -> Finding:
    """What confines commands in the modes that want it."""
    engine = engine_here()
    if engine.holds:
        return Finding(
            "ok", "sandbox", f"{engine.name}: commands are held in the modes sandboxed and read-only"
        )
    return Finding("warn", "sandbox", engine.name or "none", engine.why)


def _version_of(program: str) -> str:
    with suppress(OSError, subprocess.SubprocessError, IndexError):
        asked = subprocess.run(
            [program, "--version"], capture_output=True, text=True, timeout=_VERSION_PATIENCE, check=False
        )
        return asked.stdout.splitlines()[0].strip()
    return ""


def _keys() -> Findings:
    """The user's own keys: what cannot be, and what may not arrive in every terminal."""
    from foldline.tui.keys.registry import unsure_keys
    from foldline.tui.keys.table import keymap_of

    try:
        check_chosen_keys()
        unsure = list(unsure_keys(keymap_of(keys_given(os.environ))))
    except FoldlineError as error:
        yield Finding("bad", "keys", str(error).removesuffix("."), "docs/commands.md lists all of them")
        return
    for sentence in unsure:
        yield Finding("warn", "keys", sentence, "give it a second key, or find it in the palette")


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


def _folder() -> Findings:
    """What there is for this folder, from where; what is left aside, and why."""
    cwd, mine = Path.cwd(), config_dir(os.environ) / INSTRUCTION_FILES[0]
    there = catalogue_of(cwd, os.environ, BY_SLASH)
    if is_file(mine):
        yield Finding("ok", "instructions", f"your own, {with_tilde(str(mine))}")
    for each in brought(cwd):
        name = f"{os.path.relpath(each.path)}: {does(each)}"
        if not each.counts:
            yield Finding("warn", "left aside", name, "the chat asks; `run --trust` agrees")
        elif each.path.name in (PROJECT_FILE, *INSTRUCTION_FILES):
            what = "agreed to" if each.word == "agreed" else "your own"
            yield Finding("ok", "folder", f"{what} {name}")
    for own in (each for each in (*there.by_name.values(), *there.agents.values()) if each.counts):
        yield Finding("ok", own.kind.removesuffix("s"), f"{own.name}, {own.shown}")
    hooks, faults = hooks_of(cwd)
    for file, events in groupby(hooks, key=lambda hook: hook.shown):
        yield Finding("ok", "hooks", f"{file}: {', '.join(hook.event for hook in events)}")
    aside = (*there.left_aside, *faults, *read_preamble(cwd).left_out)
    yield from (Finding("warn", "left aside", each.removesuffix(".")) for each in aside)
    for agent, count in Counter(found.agent for found in found_sessions(cwd=cwd)).items():
        advice = f"`foldline sessions --from {agent}` lists them"
        yield Finding("ok", "sessions", f"{many(count, 'session')} of {agent} in this folder: {advice}")
    for file, names in _servers_of_others(cwd):
        servers, advice = many(len(names), "server"), "`[mcp.NAME]` in config.toml sets one up here"
        yield Finding("ok", "MCP", f"{servers} of other agents in {file}: {some(names)}; {advice}")


def _servers_of_others(cwd: Path) -> Iterator[tuple[str, list[str]]]:
    """The files in which Claude Code and Codex have tool servers for this folder, and the names of these."""
    top, home = up_to_top(cwd)[-1], typed_path("~")
    for path in (home / ".claude.json", top / ".mcp.json", home / ".codex/config.toml"):
        with suppress(OSError, ValueError, RecursionError, AttributeError, TypeError):  # it may be anything
            data = read_regular(path, _MOST_OF_OTHERS).decode()
            all_of: Any = tomllib.loads(data) if path.suffix == ".toml" else json.loads(data)
            here = all_of.get("projects", {}).get(str(top), {})
            tables = (all_of.get("mcpServers"), here.get("mcpServers"), all_of.get("mcp_servers"))
            if names := sorted({name for table in tables for name in table or ()}):
                yield shown_path(path, top if path.parent == top else None, cwd), names


def _model(settings: Settings | None, network: bool) -> Findings:
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
        yield _asked(llm, settings)
    else:
        named = " at ".join(filter(None, (llm.info.id or "the first of its server", llm.info.provider)))
        yield Finding("ok", "model", f"{named}; `--network` tries whether it answers")


def _asked(llm: LLM, settings: Settings) -> Finding:
    """Whether there is room to work in, as the first prompt would find it, and one short request gets an
    answer: nothing less shows that server, key and model are right."""

    async def ask() -> Finding:
        await llm.prepare()
        agent = Agent(Session.create(Path.cwd()), llm=llm, budget=settings.budget_settings)
        agent.state.check_window(sum(map(message_tokens, read_preamble(Path.cwd()).messages)))
        request = Request(messages=[UserMessage(parts=text_parts("Answer with the word: yes"))], tools=[])
        try:
            async with aclosing(llm.stream(request)) as chunks:
                async for chunk in chunks:
                    if isinstance(chunk, RetryChunk):
                        return Finding("bad", "model", chunk.sentence.removesuffix("."))
                    break
            answers = f"{llm.info.id} answers, window of {llm.info.window:,} tokens"
            if not llm.info.tools:
                return Finding(
                    "warn", "model", answers, "its chat template has no place for tools: choose another"
                )
            return Finding("ok", "model", answers)
        finally:
            await llm.aclose()

    try:
        return asyncio.run(ask())
    except FoldlineError as error:
        return Finding("bad", "model", str(error).removesuffix("."))


_SERVER_PATIENCE = 60.0
"""Seconds all servers together have to start."""


def _servers(settings: Settings, network: bool) -> Findings:
    servers = tool_servers(settings, Path.cwd())
    if servers is None:
        return
    if find_spec("mcp") is None:
        found, _, advice = MISSING.removesuffix(".").partition(": ")
        yield Finding("bad", "MCP", found, advice)
    elif not network:
        names = ", ".join(state.name for state in servers.states)
        count = many(len(servers.states), "server")
        yield Finding("ok", "MCP", f"{count} set up: {names}; `--network` tries whether they answer")
    else:
        yield from asyncio.run(_tried(servers))


async def _tried(servers: ToolServers) -> list[Finding]:
    servers.start()
    await servers.settled(_SERVER_PATIENCE)
    states = servers.states
    await servers.aclose()
    return [
        Finding("ok", f"MCP {state.name}", str(state))
        if state.state == "connected"
        else Finding("bad", f"MCP {state.name}", str(state), f"its log is {state.log}")
        for state in states
    ]


_LITTLE, _TOO_LITTLE = 500_000_000, 20_000_000
"""Bytes of free space: worth a warning, and too few to work."""


def _data(home: Path) -> Findings:
    """Every check of the folder that everything is kept in."""
    yield _place(home)
    try:
        infos = list(_all_sessions(home))
    except FoldlineError as error:
        yield Finding("bad", "sessions", str(error).removesuffix("."))
        return
    yield from _sessions(infos)
    yield from _left_over(infos, _half_deleted(home))


def tidy(home: Path) -> tuple[str, ...]:
    """Take away what processes that died left behind; what was done."""
    done = []
    for info in _all_sessions(home):
        with suppress(FoldlineError):
            done += [f"{short_id(info.id)}: {step}" for step in tidy_up(info.path, utc_now())]
    for left in _half_deleted(home):
        shutil.rmtree(left)
        done.append(f"{left.name}: the rest of a deleted session is gone, too")
    return tuple(done)


def _place(home: Path) -> Finding:
    nearest = next(folder for folder in (home, *home.parents) if is_there(folder))
    try:
        free = shutil.disk_usage(nearest).free
        _try_to_write(nearest)
    except OSError as error:
        why = system_words(error)
        return Finding(
            "bad",
            "data",
            f"{nearest} cannot be written to ({why})",
            "nothing can be kept there: FOLDLINE_HOME names another folder",
        )
    found = f"{home}, {free / 1e9:,.1f} GB free" + ("" if is_there(home) else ", not made yet")
    if free < _TOO_LITTLE:
        return Finding("bad", "data", found, "make room: sessions cannot be kept")
    if free < _LITTLE:
        return Finding("warn", "data", found, "make room soon")
    return Finding("ok", "data", found)


def _try_to_write(folder: Path) -> None:
    """Only trying shows it: a medium may be read-only, or full, whatever the modes say."""
    with tempfile.TemporaryFile(dir=folder) as file:
        file.write(b"foldline doctor")
        file.flush()


def _all_sessions(home: Path) -> list[SessionInfo]:
    return [*list_sessions(home), *list_sessions(home, archived=True)]


def _sessions(infos: list[SessionInfo]) -> Findings:
    lost = [info for info in infos if not info.readable]
    hurt = [info for info in infos if info.readable and info.meta.note]
    counted = many(len(infos), "session")
    if not (lost or hurt):
        yield Finding("ok", "sessions", f"{counted}, all can be opened")
    groups: list[tuple[Mark, list[SessionInfo], str, str]] = [
        ("bad", lost, "not to be opened", "` says more"),
        ("warn", hurt, "with damage", " --repair` leaves it out"),
    ]
    for mark, sessions, what, advice in groups:
        if names := tuple(short_id(info.id) for info in sessions):
            found = f"of {counted}, {what}: {some(names)}"
            yield Finding(mark, "sessions", found, f"`foldline doctor {names[0]}{advice}", names)


def _half_deleted(home: Path) -> list[Path]:
    """What is left of sessions whose deletion was cut short."""
    roots = (sessions_dir(home), archive_dir(home))
    return [left for root in roots for left in sorted(root.glob(f"*/.*{LEAVING}"))]


def _left_over(infos: list[SessionInfo], deleted: list[Path]) -> Findings:
    held, notes, drafts, open_ones = [], [], [], []
    for info in infos:
        folder, name = info.path.parent, short_id(info.id)
        holder = holder_of(folder)
        if holder is not None:
            held.append(f"{name} by {holder}")
            continue
        notes += [name] if is_there(folder / HOLDER) else []
        drafts += [name] if any(drafts_in(folder)) else []
        open_ones += [name] if folder.stat().st_mode & 0o077 else []
    if held:
        yield Finding("ok", "writers", some(held), "", tuple(held))
    for name, what, of in (
        ("writers", "a note of a writer that is gone", notes),
        ("left over", "files that were never finished", drafts),
        ("left over", "deleted in part", [path.name.strip(".").removesuffix(LEAVING) for path in deleted]),
        ("modes", "others may look into the folder", open_ones),
    ):
        if of:
            yield Finding(
                "warn", name, f"{what}: {some(of)}", "`foldline doctor --repair` sets it right", tuple(of)
            )
    if not (notes or drafts or open_ones or deleted):
        yield Finding("ok", "left over", "nothing")
