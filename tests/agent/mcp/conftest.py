"""What tests of tool servers start them with."""

from support.mcp_client import client

__all__ = ["client"]
