"""Rules for files beside the code: what starts it, ships it and installs it."""
