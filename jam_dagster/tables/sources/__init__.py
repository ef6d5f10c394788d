"""Sources: where rows come from."""
