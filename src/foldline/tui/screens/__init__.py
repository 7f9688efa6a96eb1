"""The screens that are lists, one file each, or one for each of their parts. What they need is handed in."""
