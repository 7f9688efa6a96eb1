"""The chat's transcript: history entries and streamed answers as blocks, and the panel that shows them."""
