"""The memory of a compaction: facts, digest, ledger and audit.

They are extracted from messages without a model.
"""
