"""Running original and migrated programs, recording what they do, and comparing the two."""
