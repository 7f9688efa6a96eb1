"""The SDK's HTTP client and its certificates."""

import ssl
from contextlib import aclosing

import pytest

from foldline.llm.http_client import Sdk
from foldline.llm.providers import Provider


@pytest.mark.parametrize(
    ("url", "trusts_some"),
    [
        ("http://127.0.0.1:11434/v1", False),
        ("https://127.0.0.1:11434/v1", True),
        ("http://api.example.com/v1", True),  # its proxy may be encrypted
        ("https://api.example.com/v1", True),
    ],
)
async def test_only_an_unencrypted_local_server_needs_no_certificates(
    url: str, trusts_some: bool
) -> None:
    provider = Provider("box", "Box", url)
    async with aclosing(Sdk(provider, "", idle_seconds=1, connect_seconds=1)) as client:
        context = client._client._client._transport._pool._ssl_context
    assert isinstance(context, ssl.SSLContext)
    assert context.verify_mode == ssl.CERT_REQUIRED
    assert bool(context.cert_store_stats()["x509_ca"]) == trusts_some
