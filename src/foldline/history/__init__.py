"""The truth on disk: the event file of a session, the session and its search index, the catalogue of all."""

from .catalog import SessionInfo, find_session, latest, list_sessions
from .lock import SessionHeld
from .log import Damage, LoadedLog, Log, WriteFailed, is_our_header, parse_log, read_log
from .meta import Meta, clip_cells
from .paths import (
    EVENTS,
    data_home,
    events_file,
    new_session_id,
    session_dir,
    sessions_dir,
    short_id,
    workdir_key,
)
from .search import Found, Hit, MessageKind, SearchIndex
from .session import Clock, Session, utc_now

__all__ = [
    "EVENTS",
    "Clock",
    "Damage",
    "Found",
    "Hit",
    "LoadedLog",
    "Log",
    "MessageKind",
    "Meta",
    "SearchIndex",
    "Session",
    "SessionHeld",
    "SessionInfo",
    "WriteFailed",
    "clip_cells",
    "data_home",
    "events_file",
    "find_session",
    "is_our_header",
    "latest",
    "list_sessions",
    "new_session_id",
    "parse_log",
    "read_log",
    "session_dir",
    "sessions_dir",
    "short_id",
    "utc_now",
    "workdir_key",
]
