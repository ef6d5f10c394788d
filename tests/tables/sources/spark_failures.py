"""Count what does not fit by Spark, in a process whose output a test looks through."""

import sys

from jam_dagster.errors import JamError
from jam_dagster.tables import Domain, SparkSource

DOMAIN = Domain.from_dict({"attributes": {"text": {"values": ["a", "b"]}}})

if __name__ == "__main__":
    try:
        SparkSource("local[2]", sys.argv[1]).counted(DOMAIN, None, None, [("text",)])
    except JamError as error:
        sys.stdout.write(type(error).__name__)
