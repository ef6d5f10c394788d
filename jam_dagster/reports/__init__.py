"""Reports: pages and plots of a release."""
