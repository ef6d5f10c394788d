"""From a public table to a draft of its domain."""
