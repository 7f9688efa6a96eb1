"""Entry point of `python -m foldline`."""

import sys

if not sys.flags.safe_path:
    del sys.path[0]  # `-m` puts the working folder before the standard library

from foldline.cli import main

sys.exit(main())
