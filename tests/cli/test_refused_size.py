"""What a server refused once as too long is not sent to it again by a later process."""

from itertools import pairwise

import pytest

from support.command_line import CommandLine
from support.server_process import running_server


def test_the_size_that_a_server_refused_is_remembered_across_run_c(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its listing does not say the window, so that more is believed until it refuses."""
    script = [
        {"answer": {"text": "word after word after word, and no end of it.\n" * 80}}
    ] * 20
    flags = ("--bare-listing",)
    with running_server(
        window=8_192, script=script, strict=True, flags=flags
    ) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
        for nth in range(14):
            again = ("-c",) if nth else ()
            said = cli("run", *again, "--yes", "--model", server.model, f"and {nth}?")
            assert said.code == 0, said.err
        seen = server.requests()
    refused = [request.rejected for request in seen if request.rejected]
    assert refused == ["too long"]
    sizes = [request.prompt_tokens for request in seen]
    assert min(later - earlier for earlier, later in pairwise(sizes)) < 0, (
        "compacted before it was refused again"
    )
