"""The assets and asset checks of a release."""
