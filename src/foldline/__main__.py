"""`python -m foldline`."""

import sys

from foldline.cli import main

sys.exit(main())
