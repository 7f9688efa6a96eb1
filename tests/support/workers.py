"""What a worker process of `foldline eval --jobs` does in a test: processes import it by name."""

import os
import signal
from typing import Any

from foldline.cli.eval_corpus import Task


def dies_for_a_bad_one(task: Task) -> dict[str, Any]:
    """Measures nothing; a session called bad takes the process down."""
    if "bad" in task.source:
        os.kill(os.getpid(), signal.SIGKILL)
    return {"key": task.key, "source": task.source, "rows": [], "error": None}
