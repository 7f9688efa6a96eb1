"""Permissions of tool calls: approvals, and the sandbox of commands."""
