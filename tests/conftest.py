"""The same surroundings for every test: what is read once, at import, is set before."""

import os
import time

from support import quiet

for name in list(os.environ):
    if (
        name in ("NO_COLOR", "COLORTERM", "FORCE_COLOR", "OPENAI_BASE_URL", "OPENAI_MODEL")
        or name.startswith("GIT_")
        or name.endswith("_API_KEY")
    ):
        del os.environ[name]
os.environ["GIT_CONFIG_GLOBAL"] = os.devnull
for name in ("FOLDLINE_HOME", "FOLDLINE_MODEL", "FOLDLINE_PROVIDER", "COLUMNS", "LINES"):
    os.environ.pop(name, None)
os.environ["TEXTUAL_ANIMATIONS"] = "none"
os.environ["TZ"] = "UTC"
time.tzset()
quiet.install()
