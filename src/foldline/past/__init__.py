"""Queries about the past of a session.

They cover earlier views, requests, branches, compactions, files and subagents.
"""
