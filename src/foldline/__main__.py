"""`python -m foldline`."""

import sys

if not sys.flags.safe_path:
    del sys.path[0]  # `-m` puts the working folder there, before Python's own modules

from foldline.cli import main

sys.exit(main())
