"""Tables: their domain, encoding, sources, workloads and marginals. Nothing here adds noise.

Drafting is imported on first use.
"""

from typing import TYPE_CHECKING

from jam_dagster.tables.codes.decode import decode
from jam_dagster.tables.codes.encode import encode
from jam_dagster.tables.codes.marginals import MarginalSource, marginal_blocks
from jam_dagster.tables.codes.privacy_unit import PrivacyUnit
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
from jam_dagster.tables.domain.prefixes import PrefixAttribute
from jam_dagster.tables.domain.times import TimeAttribute
from jam_dagster.tables.drafting.drafted_domain import DraftedDomain
from jam_dagster.tables.sources.asset import AssetSource
from jam_dagster.tables.sources.base import DemoSource, SplitSource, source_from_config
from jam_dagster.tables.sources.csv import CsvSource
from jam_dagster.tables.sources.duckdb import DuckDbSource
from jam_dagster.tables.sources.frame import FrameSource
from jam_dagster.tables.sources.health_survey import health_survey, health_survey_domain
from jam_dagster.tables.sources.parquet import ParquetSource
from jam_dagster.tables.sources.previous_release import PreviousRelease
from jam_dagster.tables.sources.public import PublicSources
from jam_dagster.tables.sources.source import Source
from jam_dagster.tables.sources.spark import SparkSource
from jam_dagster.tables.sources.splits import stratified_split
from jam_dagster.tables.sources.sql import SqlSource

if TYPE_CHECKING:
    from jam_dagster.tables.drafting.draft import draft_domain, draft_table, wide_attributes

__all__ = [
    "AssetSource",
    "Attribute",
    "CategoricalAttribute",
    "Clique",
    "Combinations",
    "CsvSource",
    "DemoSource",
    "DerivedColumn",
    "Domain",
    "DraftedDomain",
    "DuckDbSource",
    "EncodedTable",
    "FrameSource",
    "ImpossibleCombination",
    "MarginalSource",
    "NotNull",
    "NumericAttribute",
    "Order",
    "ParquetSource",
    "PrefixAttribute",
    "PreviousRelease",
    "PrivacyUnit",
    "PublicSources",
    "PublicTables",
    "Source",
    "SparkSource",
    "SplitSource",
    "SqlSource",
    "TimeAttribute",
    "Workload",
    "decode",
    "draft_domain",
    "draft_table",
    "encode",
    "health_survey",
    "health_survey_domain",
    "marginal_blocks",
    "source_from_config",
    "stratified_split",
    "wide_attributes",
]


def __getattr__(name: str) -> object:
    if name in ("draft_domain", "draft_table", "wide_attributes"):
        from jam_dagster.tables.drafting import draft

        return getattr(draft, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
