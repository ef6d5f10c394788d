"""The shares of a release's budget, by name."""

MECHANISM, EVALUATION, DOMAIN = "mechanism", "evaluation", "domain"
