"""The texts that are scaffolded; ``<names>`` in them are filled in."""

HOME = ".jam"

DEMO_NOTE = "Both are parts of a simulated census until you name your own, such as people.parquet."
OWN_NOTE = "Paths are relative to this file; ${VARIABLES} of the environment are filled in."
MISSING_NOTE = "There is no private.csv yet: name the table to protect."

RELEASE_YAML = """\
# A differentially private synthetic release. `dg check yaml` and `dg check defs` check this file;
# `jam-dagster plan` tells what the release would take and bring before anything is spent.
type: <type>

attributes:
  release: <release>  # the key prefix of its assets, and its name in the ledger
  dataset: <dataset>  # the protected dataset whose budget pays, see ReleaseResources

  # The table to protect, and a related one that needs no protection.
  # <note>
  private: <private>
  public: <public>
  # Or a table that this project makes already, a DataFrame; or a query:
  # private: {asset: warehouse/people}
  # private: {sql: "${WAREHOUSE_URL}", query: select * from people}
  # With partitions the public table can be the release of the one before:
  # public: {previous_release: {first: survey.csv, first_share: 0.2}}

  # The attributes and their values, never read from the private table: a domain file (drafted by
  # `jam-dagster domain draft`, then read over by you), or {identify: public}.
  domain: <domain>

  privacy:
    epsilon: <epsilon>  # the guarantee for everything that is released; smaller is stricter
    delta: 1.0e-9  # far below one in the number of people
    noise: exact  # or numpy: seeded, for research, not releasable
    # seed: 0  # of numpy noise
    edition: "1"  # raise it to draw, and pay for, the release once more, on new data
    neighbours: replace_one  # or add_remove: nor can anybody tell who is in the table at all
    # unit: {column: person_id, max_rows: 3}  # where a person may have several rows
    # retention_days: 30  # after its end, until `jam-dagster private remove` takes private copies
    records_share: 0.05  # pays for measuring the number of rows, where that is private

  mechanism:
    # The one with the least measured errors where there is a public table.
    name: tilt  # `jam-dagster mechanisms` lists all, and the settings of each
  # trusted_mechanisms: [some-package]  # whose mechanism may make what leaves; read it first

  # The marginals that matter: all of one degree, or a list with a weight for each.
  workload:
    degree: <degree>
    # cliques: [[age, sex], [age, income]]  # in place of degree
    # weights: [2.0, 1.0]

  # Sampled rows are swapped for others of the model, where that brings the workload closer.
  sampling:
    search: true  # free of budget; false is faster, and leaves rows as they were sampled

  evaluation:
    mode: private  # with noise, from a share of the budget; exact (no secret data) or off
    share: 0.05  # of the release's rho, in mode private

  # One release of each snapshot, which private (and public) name by {partition}:
  # partitions: monthly  # or daily, weekly, {static: [wave1, wave2]}
  # start: "2026-01-01"  # the first day, where partitions come with time
  # schedule: monthly  # or a cron expression due once for each, such as 0 6 3 * *

  # executor: in_process  # or code_location, by whose executor the steps of the job then run
  # checks: grouped  # or each, an asset check for each expectation of the synthetic table
  # group: <release>  # the asset group
  # owners: ["team:statistics"]
  # tags: {domain: census}
"""

RELEASE_PYTHON = """\
import dagster as dg
from <module> import <class>
from jam_dagster.pipeline import EvaluationSpec, MechanismSpec, PrivacySpec, WorkloadSpec


@dg.component_instance
def load(context: dg.ComponentLoadContext) -> <class>:
    return <class>(
        release="<release>",
        dataset="<dataset>",
        # <note>
        private=<private>,
        public=<public>,
        domain=<domain>,
        privacy=PrivacySpec(epsilon=<epsilon>, delta=1e-9),
        # The one with the least measured errors where there is a public table.
        mechanism=MechanismSpec("tilt"),
        workload=WorkloadSpec(degree=<degree>),
        evaluation=EvaluationSpec(mode="private"),
    )
"""

RESOURCES_YAML = f"""\
# The privacy ledger and the two stores that every release of this project runs on.
type: <type>

attributes:
  # What may ever be spent on each protected dataset, all its releases together. The ledger grants
  # it on first use; afterwards `jam-dagster ledger grant` is the way to change it, not this file.
  budgets:
    <dataset>: {{epsilon: <epsilon>, delta: 1.0e-9}}
    # Renewing each calendar month, with partitions that hold other people each:
    # visitors: {{epsilon: 1.0, delta: 1.0e-9, period: month, partitions: disjoint,
    #   ground: membership public and fixed}}

  # A folder for ledger and stores, relative to the project's. Lose it, and nothing can be released
  # from these datasets any more: what was spent would be forgotten.
  home: {HOME}
  # In production each has a place of its own, with permissions of its own:
  # ledger: "${{JAM_LEDGER}}"  # a file on a local disk, or postgresql://user@host/database
  # private: "${{JAM_PRIVATE}}"  # a folder, or an fsspec URL such as s3://closed/jam
  # releases: "${{JAM_RELEASES}}"
"""
