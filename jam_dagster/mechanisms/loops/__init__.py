"""The loops of mechanisms: shared settings, scores, rounds and transcripts."""
