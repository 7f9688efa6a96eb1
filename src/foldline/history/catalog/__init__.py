"""The catalog: which sessions there are, whose folder they belong to, and keeping them in order."""
