"""The library: one search over all sessions, by an index of trigrams on disk that can be thrown away."""
