"""The one list screen: a box with rows, a table of keys, details, a search field and questions in place."""
