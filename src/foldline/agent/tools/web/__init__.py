"""Getting a page of the web: where it may come from, how it is transferred, what of it is text."""
