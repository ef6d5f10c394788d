"""Plans: a release simulated on public data before anything is spent."""
