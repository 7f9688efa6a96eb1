"""The keys: tables of commands, what they are called, which were chosen, and which are in force where."""
