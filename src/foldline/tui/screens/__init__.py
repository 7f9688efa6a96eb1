"""The screens that are lists, one file each. None imports another; what it needs is handed in."""
