"""Foldline with its bytecode, as users have it.

Without bytecode files, benchmarks would measure Python's compiler.
"""

import os
import subprocess
import sys
from functools import cache
from tempfile import TemporaryDirectory

_KEPT = TemporaryDirectory(prefix="foldline-bytecode-")
"""Removed when this process ends."""


@cache
def compiled(source: str = "") -> dict[str, str]:
    """Return environment variables for our processes.

    `source` is the folder `src` of another tree.
    """
    env = {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": _KEPT.name}
    env |= {"PYTHONPATH": source} if source else {}
    code = "import compileall as c, foldline, openai, textual; c.compile_dir(foldline.__path__[0], quiet=2)"
    subprocess.run([sys.executable, "-c", code], check=True, env={**os.environ, **env})
    return env
