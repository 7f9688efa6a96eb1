"""Where other agents keep their sessions, and what they are, without reading them whole."""
