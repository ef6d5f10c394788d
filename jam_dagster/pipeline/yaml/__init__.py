"""The YAML of a release: sections, schemas and scaffolding."""
