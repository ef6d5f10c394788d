"""Archives of what each version stores, and tests that today's code reads them.

The folder of a version has a release of each mechanism, a ledger, and two stores of Dagster, each
in a zip with all that they were made of. `freeze.py` makes them, from synthetic tables. Those of a
released version are never made again: a change of a format leaves a reader of the old one, and
adds an archive of the new one.
"""
