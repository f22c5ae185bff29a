"""Rules for how ranks are started, and what the launcher tells them."""
