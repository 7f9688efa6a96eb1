"""Sessions on disk: their event files, the list of all of them, and search."""

from foldline.data import EVENTS, archive_dir, data_home, sessions_dir, typed_path

from .archive import Deleted, archive, delete, unarchive
from .catalog import SessionInfo, age, find_session, info_of, latest, list_sessions, read_header, title_entry
from .children import CHILDREN, child_events, children_of, tree_of
from .contents import CONTENTS, Contents, content_id
from .lock import SessionHeld
from .log import Damage, LoadedLog, Log, WriteFailed, is_our_header, parse_log, read_log
from .meta import Meta, clip_cells
from .origin import Folder, Parent, SessionPlace, Spawned, Tie, parent_of, spawned_of
from .paths import events_file, new_session_id, session_dir, short_id, workdir_key
from .search import EntrySearch, Found, Hit, MessageKind
from .session import Clock, Session, Unsent, keep_unsent, take_unsent, utc_now

__all__ = [
    "CHILDREN",
    "CONTENTS",
    "EVENTS",
    "Clock",
    "Contents",
    "Damage",
    "Deleted",
    "EntrySearch",
    "Folder",
    "Found",
    "Hit",
    "LoadedLog",
    "Log",
    "MessageKind",
    "Meta",
    "Parent",
    "Session",
    "SessionHeld",
    "SessionInfo",
    "SessionPlace",
    "Spawned",
    "Tie",
    "Unsent",
    "WriteFailed",
    "age",
    "archive",
    "archive_dir",
    "child_events",
    "children_of",
    "clip_cells",
    "content_id",
    "data_home",
    "delete",
    "events_file",
    "find_session",
    "info_of",
    "is_our_header",
    "keep_unsent",
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
    "spawned_of",
    "take_unsent",
    "title_entry",
    "tree_of",
    "typed_path",
    "unarchive",
    "utc_now",
    "workdir_key",
]
