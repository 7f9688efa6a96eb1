"""What lies beside a history and belongs to it: a fork shares it with the session it comes from."""

import os
from contextlib import suppress
from pathlib import Path

from foldline.files import make_private, read_regular, write_new

from ..contents import CONTENTS

OUTPUTS = "outputs"


def share_files(source: Path, target: Path) -> None:
    """Give the session folder `target` the kept contents and whole outputs of `source`.

    These files are written once and never changed, so that hard links do; where there are none, copies.

    Raises:
        OSError: the disk refused.
    """
    for name in (CONTENTS, OUTPUTS):
        with suppress(FileNotFoundError, NotADirectoryError):
            _share(source / name, target / name)


def _share(source: Path, target: Path) -> None:
    if source.is_symlink():
        return  # it leads to files that nobody kept here
    with os.scandir(source) as found:
        files = [item.name for item in found if item.name[0] != "." and item.is_file(follow_symlinks=False)]
    if not files:
        return
    make_private(target)
    for name in files:
        with suppress(FileNotFoundError):  # it went meanwhile: nothing here depends on it alone
            _link(source / name, target / name)


def _link(source: Path, target: Path) -> None:
    try:
        target.hardlink_to(source)
    except FileExistsError:
        return
    except OSError:
        write_new(target, read_regular(source), durable=False)
