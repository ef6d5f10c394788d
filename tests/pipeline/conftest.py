import os

# Before Dagster is imported: no test may call out.
os.environ["DAGSTER_DISABLE_TELEMETRY"] = "1"
