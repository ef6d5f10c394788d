"""What the rounds of several mechanisms share."""
