"""The Approvals screen: the rules in force, to be taken back, and the mode."""
