"""What stands around the transcript. Widgets show a value and post messages; they decide nothing."""
