"""Launchers that are placed in projects; nothing here is imported by the tool."""
