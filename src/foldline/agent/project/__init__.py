"""Files of the project folder: which exist, and which the user trusts."""
