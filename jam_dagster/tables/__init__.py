"""Tables: their domain, encoding, sources, workloads and marginals. Nothing here adds noise."""

from jam_dagster.tables.attributes import Attribute, CategoricalAttribute, NumericAttribute
from jam_dagster.tables.demo import census_domain, simulate_census, simulate_period
from jam_dagster.tables.discretization import decode, encode, encode_chunks
from jam_dagster.tables.domain import Clique, Domain
from jam_dagster.tables.encoded import EncodedTable
from jam_dagster.tables.identification import draft_domain, wide_attributes
from jam_dagster.tables.impossible import ImpossibleCombination
from jam_dagster.tables.marginals import MarginalSource, marginal_blocks
from jam_dagster.tables.parquet_table import ParquetTable, encode_parquet
from jam_dagster.tables.partitioned import at_partition, check_partition, is_partitioned
from jam_dagster.tables.previous_release import PreviousRelease, public_from_config
from jam_dagster.tables.privacy_unit import (
    LimitedParquet,
    PrivacyUnit,
    secret_key,
    seeded_key,
)
from jam_dagster.tables.public_sources import PublicSources
from jam_dagster.tables.public_tables import PublicTables
from jam_dagster.tables.sources import (
    AssetSource,
    CsvSource,
    DemoSource,
    ParquetSource,
    Source,
    SplitSource,
    SqlSource,
    check_not_split,
    source_from_config,
)
from jam_dagster.tables.splits import stratified_split
from jam_dagster.tables.values import Value
from jam_dagster.tables.withheld import keeping_details, private_values, withheld
from jam_dagster.tables.workload import Workload

__all__ = [
    "AssetSource",
    "Attribute",
    "CategoricalAttribute",
    "Clique",
    "CsvSource",
    "DemoSource",
    "Domain",
    "EncodedTable",
    "ImpossibleCombination",
    "LimitedParquet",
    "MarginalSource",
    "NumericAttribute",
    "ParquetSource",
    "ParquetTable",
    "PreviousRelease",
    "PrivacyUnit",
    "PublicSources",
    "PublicTables",
    "Source",
    "SplitSource",
    "SqlSource",
    "Value",
    "Workload",
    "at_partition",
    "census_domain",
    "check_not_split",
    "check_partition",
    "decode",
    "draft_domain",
    "encode",
    "encode_chunks",
    "encode_parquet",
    "is_partitioned",
    "keeping_details",
    "marginal_blocks",
    "private_values",
    "public_from_config",
    "secret_key",
    "seeded_key",
    "simulate_census",
    "simulate_period",
    "source_from_config",
    "stratified_split",
    "wide_attributes",
    "withheld",
]
