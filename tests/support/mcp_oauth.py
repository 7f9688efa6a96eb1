"""A small authorisation server for tool servers; it approves every client."""

import secrets
import time
from typing import Any

from mcp.server.auth.provider import (
    AccessToken,
    AuthorizationCode,
    AuthorizationParams,
    ProviderTokenVerifier,
    RefreshToken,
    construct_redirect_uri,
)
from mcp.server.auth.settings import AuthSettings, ClientRegistrationOptions
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken
from pydantic import AnyHttpUrl


class Authority:
    """Keeps clients, codes and tokens in memory, and notes each request."""

    def __init__(self, seconds: int, note: Any) -> None:
        self._seconds = seconds
        self._note = note
        self._clients: dict[str, OAuthClientInformationFull] = {}
        self._codes: dict[str, AuthorizationCode] = {}
        self._tokens: dict[str, AccessToken] = {}
        self._refresh: dict[str, RefreshToken] = {}

    async def get_client(self, client_id: str) -> OAuthClientInformationFull | None:
        return self._clients.get(client_id)

    async def register_client(self, client_info: OAuthClientInformationFull) -> None:
        self._note(registered=[str(uri) for uri in client_info.redirect_uris or ()])
        self._clients[str(client_info.client_id)] = client_info

    async def authorize(
        self, client: OAuthClientInformationFull, params: AuthorizationParams
    ) -> str:
        code = AuthorizationCode(
            code=secrets.token_hex(16),
            scopes=params.scopes or [],
            expires_at=time.time() + 60,
            client_id=str(client.client_id),
            code_challenge=params.code_challenge,
            redirect_uri=params.redirect_uri,
            redirect_uri_provided_explicitly=params.redirect_uri_provided_explicitly,
            resource=params.resource,
        )
        self._codes[code.code] = code
        return construct_redirect_uri(
            str(params.redirect_uri), code=code.code, state=params.state
        )

    async def load_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: str
    ) -> AuthorizationCode | None:
        return self._codes.get(authorization_code)

    async def exchange_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: AuthorizationCode
    ) -> OAuthToken:
        del self._codes[authorization_code.code]
        self._note(tokens="by code")
        return self._issued(str(client.client_id), authorization_code.scopes)

    async def load_refresh_token(
        self, client: OAuthClientInformationFull, refresh_token: str
    ) -> RefreshToken | None:
        return self._refresh.get(refresh_token)

    async def exchange_refresh_token(
        self,
        client: OAuthClientInformationFull,
        refresh_token: RefreshToken,
        scopes: list[str],
    ) -> OAuthToken:
        del self._refresh[refresh_token.token]
        self._note(tokens="by refresh")
        return self._issued(str(client.client_id), scopes)

    async def load_access_token(self, token: str) -> AccessToken | None:
        return self._tokens.get(token)

    async def revoke_token(self, token: Any) -> None:
        self._tokens.pop(token.token, None)

    def _issued(self, client_id: str, scopes: list[str]) -> OAuthToken:
        token, more = secrets.token_hex(16), secrets.token_hex(16)
        until = (
            int(time.time()) + 3600
        )  # longer than the client is told: it refreshes before a refusal
        self._tokens[token] = AccessToken(
            token=token, client_id=client_id, scopes=scopes, expires_at=until
        )
        self._refresh[more] = RefreshToken(
            token=more, client_id=client_id, scopes=scopes
        )
        return OAuthToken(
            access_token=token, expires_in=self._seconds, refresh_token=more
        )


def oauth_of(port: int, seconds: int, note: Any) -> dict[str, Any]:
    """Return the server arguments that require tokens and issue them."""
    here = f"http://127.0.0.1:{port}"
    authority: Any = Authority(seconds, note)
    settings = AuthSettings(
        issuer_url=AnyHttpUrl(here),
        resource_server_url=AnyHttpUrl(f"{here}/mcp"),
        client_registration_options=ClientRegistrationOptions(enabled=True),
        validate_token_resource=False,
    )
    return {
        "auth": settings,
        "auth_server_provider": authority,
        "token_verifier": ProviderTokenVerifier(authority),
    }
