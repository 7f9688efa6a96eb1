from pathlib import Path

import pytest

from foldline.agent.tools import ToolContext
from support.tools import tool_context


@pytest.fixture
def context(tmp_path: Path) -> ToolContext:
    cwd = tmp_path / "project"
    cwd.mkdir()
    return tool_context(cwd)
