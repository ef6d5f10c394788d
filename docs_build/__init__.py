"""The pages of the documentation site that follow from the code; `make docs` builds the site."""
