"""The truth on disk: the event file of a session, the session and its search index, the catalogue of all."""

from .ages import age
from .archiving import archive, bring_back
from .catalog import SessionInfo, find_session, info_of, latest, list_sessions, read_header
from .contents import CONTENTS, Contents, content_id
from .deleting import Deleted, delete
from .folders import Folder, Place, Tie
from .lock import SessionHeld
from .log import Damage, LoadedLog, Log, WriteFailed, is_our_header, parse_log, read_log
from .meta import Meta, clip_cells
from .naming import title_entry
from .parent import Parent, parent_of
from .paths import (
    EVENTS,
    archive_dir,
    data_home,
    events_file,
    new_session_id,
    session_dir,
    sessions_dir,
    short_id,
    typed_path,
    workdir_key,
)
from .search import Found, Hit, MessageKind, SearchIndex
from .session import Clock, Session, utc_now

__all__ = [
    "CONTENTS",
    "EVENTS",
    "Clock",
    "Contents",
    "Damage",
    "Deleted",
    "Folder",
    "Found",
    "Hit",
    "LoadedLog",
    "Log",
    "MessageKind",
    "Meta",
    "Parent",
    "Place",
    "SearchIndex",
    "Session",
    "SessionHeld",
    "SessionInfo",
    "Tie",
    "WriteFailed",
    "age",
    "archive",
    "archive_dir",
    "bring_back",
    "clip_cells",
    "content_id",
    "data_home",
    "delete",
    "events_file",
    "find_session",
    "info_of",
    "is_our_header",
    "latest",
    "list_sessions",
    "new_session_id",
    "parent_of",
    "parse_log",
    "read_header",
    "read_log",
    "session_dir",
    "sessions_dir",
    "short_id",
    "title_entry",
    "typed_path",
    "utc_now",
    "workdir_key",
]
