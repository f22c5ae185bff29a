"""Files beside the code: what starts it, ships it and installs it. Each syntax has a reader; the rules know none."""
