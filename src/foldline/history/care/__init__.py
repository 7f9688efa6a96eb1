"""The care of damaged sessions: what is wrong with one, and a repair that never loses a byte."""
