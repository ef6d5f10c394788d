"""`python -m jam_dagster.cli`, for where the installed command is not on the path."""

from jam_dagster.cli import main

main()
