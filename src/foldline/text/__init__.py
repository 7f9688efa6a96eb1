"""Prepares text for display and search.

Makes control characters visible, formats numbers, and parses search queries.
"""
