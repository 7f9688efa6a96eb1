"""The base class of list screens, and the picker.

List screens have rows, keys, fields and confirmations.
"""
