"""The prompt: what is typed, pasted and attached, what completes it, and what was sent before."""
