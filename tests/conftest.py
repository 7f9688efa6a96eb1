"""The same surroundings for every test: what is read once, at import, is set before."""

import os
import time

for name in ("NO_COLOR", "COLORTERM", "OPENAI_API_KEY", "OPENAI_BASE_URL", "FOLDLINE_HOME", "FOLDLINE_MODEL"):
    os.environ.pop(name, None)
os.environ["TEXTUAL_ANIMATIONS"] = "none"
os.environ["TZ"] = "UTC"
time.tzset()
