"""Notebooks as modules: the code of their cells as one text that parses, and back into the file, byte for byte."""
