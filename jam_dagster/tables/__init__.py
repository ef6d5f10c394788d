"""Tables: their domain, encoding, sources, workloads and marginals. Nothing here adds noise."""

from jam_dagster.common.redaction import keeping_details, private_values, redacted
from jam_dagster.tables.codes.block_counts import CountedTable
from jam_dagster.tables.codes.decode import decode
from jam_dagster.tables.codes.encode import encode, encode_chunks
from jam_dagster.tables.codes.marginals import MarginalSource, RecordsOnly, marginal_blocks
from jam_dagster.tables.codes.parquet_counting import ParquetTable, encode_parquet
from jam_dagster.tables.codes.privacy_unit import (
    LimitedParquet,
    PrivacyUnit,
    secret_key,
    seeded_key,
)
from jam_dagster.tables.codes.public import PublicTables
from jam_dagster.tables.codes.table import EncodedTable
from jam_dagster.tables.codes.workload import Workload
from jam_dagster.tables.domain.attributes import Attribute
from jam_dagster.tables.domain.categorical import CategoricalAttribute
from jam_dagster.tables.domain.constraints import Combinations, NotNull, Order
from jam_dagster.tables.domain.derived import DerivedColumn
from jam_dagster.tables.domain.domain import Clique, Domain
from jam_dagster.tables.domain.impossible import ImpossibleCombination
from jam_dagster.tables.domain.numeric import NumericAttribute
from jam_dagster.tables.domain.times import TimeAttribute
from jam_dagster.tables.domain.values import Value
from jam_dagster.tables.drafting.draft import (
    draft_domain,
    draft_table,
    wide_attributes,
)
from jam_dagster.tables.drafting.drafted_domain import DraftedDomain, LeftOut
from jam_dagster.tables.sources.asset import AssetSource
from jam_dagster.tables.sources.base import (
    DemoSource,
    SplitSource,
    check_not_split,
    source_from_config,
)
from jam_dagster.tables.sources.csv import CsvSource
from jam_dagster.tables.sources.duckdb import DuckDbSource
from jam_dagster.tables.sources.frame import FrameSource
from jam_dagster.tables.sources.health_survey import health_survey, health_survey_domain
from jam_dagster.tables.sources.parquet import ParquetSource
from jam_dagster.tables.sources.partition_template import (
    at_partition,
    check_partition,
    is_partitioned,
)
from jam_dagster.tables.sources.previous_release import PreviousRelease, public_from_config
from jam_dagster.tables.sources.public import PublicSources
from jam_dagster.tables.sources.shifted import ShiftedSource
from jam_dagster.tables.sources.source import Source, check_records_only
from jam_dagster.tables.sources.spark import SparkSource
from jam_dagster.tables.sources.splits import stratified_split
from jam_dagster.tables.sources.sql import SqlSource

__all__ = [
    "AssetSource",
    "Attribute",
    "CategoricalAttribute",
    "Clique",
    "Combinations",
    "CountedTable",
    "CsvSource",
    "DemoSource",
    "DerivedColumn",
    "Domain",
    "DraftedDomain",
    "DuckDbSource",
    "EncodedTable",
    "FrameSource",
    "ImpossibleCombination",
    "LeftOut",
    "LimitedParquet",
    "MarginalSource",
    "NotNull",
    "NumericAttribute",
    "Order",
    "ParquetSource",
    "ParquetTable",
    "PreviousRelease",
    "PrivacyUnit",
    "PublicSources",
    "PublicTables",
    "RecordsOnly",
    "ShiftedSource",
    "Source",
    "SparkSource",
    "SplitSource",
    "SqlSource",
    "TimeAttribute",
    "Value",
    "Workload",
    "at_partition",
    "check_not_split",
    "check_partition",
    "check_records_only",
    "decode",
    "draft_domain",
    "draft_table",
    "encode",
    "encode_chunks",
    "encode_parquet",
    "health_survey",
    "health_survey_domain",
    "is_partitioned",
    "keeping_details",
    "marginal_blocks",
    "private_values",
    "public_from_config",
    "redacted",
    "secret_key",
    "seeded_key",
    "source_from_config",
    "stratified_split",
    "wide_attributes",
]
