"""One release of a synthetic table: its specification, its engine, and the whole in a folder."""

from jam_dagster.keys import EvaluationSpec, PrivacySpec, SamplingSpec, UnitSpec, WorkloadSpec
from jam_dagster.release.partitions import PartitionsSpec
from jam_dagster.release.sections import DomainSpec, MechanismSpec
from jam_dagster.release.spec import ReleaseSpec
from jam_dagster.release.synthesize import Synthesis, SynthesisRequest, synthesize

__all__ = [
    "DomainSpec",
    "EvaluationSpec",
    "MechanismSpec",
    "PartitionsSpec",
    "PrivacySpec",
    "ReleaseSpec",
    "SamplingSpec",
    "Synthesis",
    "SynthesisRequest",
    "UnitSpec",
    "WorkloadSpec",
    "synthesize",
]
