"""Tables: their domain, encoding, sources, workloads and marginals. Nothing here adds noise."""

from jam_dagster.tables.attributes import Attribute, CategoricalAttribute, NumericAttribute, Value
from jam_dagster.tables.domain import Clique, Domain, ImpossibleCombination
from jam_dagster.tables.encoded import EncodedTable, MarginalSource
from jam_dagster.tables.workload import Workload

__all__ = [
    "Attribute",
    "CategoricalAttribute",
    "Clique",
    "Domain",
    "EncodedTable",
    "ImpossibleCombination",
    "MarginalSource",
    "NumericAttribute",
    "Value",
    "Workload",
]
