"""Writes sessions for other agents and for people.

There is one module for each format (`formats/export.py`).
"""
