"""The Rewind screen: the places a session can go back to, and what going there would do."""
