"""Where the assets of a release are stored, and in which formats."""
