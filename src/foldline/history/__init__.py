"""The truth on disk: the event file of a session, the session built on it, the catalogue of all sessions."""

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
from .session import Clock, Session, utc_now

__all__ = [
    "EVENTS",
    "Clock",
    "Damage",
    "LoadedLog",
    "Log",
    "Meta",
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
