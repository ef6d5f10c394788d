from typing import Any

import dagster as dg
import pytest

from jam_dagster.errors import PrivacyLabelError
from jam_dagster.pipeline import check_definitions
from jam_dagster.pipeline.budget.labels import check_privacy_labels
from tests.pipeline.conftest import Bench
from tests.tiers import slow


def asset(name: str, label: str | None, *deps: str, charges: bool = False) -> dg.AssetSpec:
    tags = {} if label is None else {"jam/privacy": label}
    if charges:
        tags["jam/charges"] = "ledger"
    metadata = {"jam/built": f"{label}, charges the ledger"} if charges else {}
    return dg.AssetSpec(name, deps=list(deps), tags=tags, metadata=metadata)


def test_a_charged_release_passes():
    check_privacy_labels(
        [
            asset("records", "private"),
            asset("domain", "public"),
            asset("codes", "private", "records", "domain"),
            asset("mechanism", "dp", "codes", charges=True),
            asset("synthetic", "dp", "mechanism", "domain"),
            asset("exact_error", "restricted", "codes", "synthetic"),
        ]
    )


@pytest.mark.parametrize("label", ["dp", "public"])
@pytest.mark.parametrize("source", ["private", "restricted"])
def test_releasable_asset_on_private_input_is_refused(label: str, source: str):
    with pytest.raises(PrivacyLabelError, match=rf"leak is labelled {label}.*records -> leak"):
        check_privacy_labels([asset("records", source), asset("leak", label, "records")])


def test_taint_passes_through_assets_without_label():
    with pytest.raises(PrivacyLabelError, match="records -> middle -> leak"):
        check_privacy_labels(
            [
                asset("records", "private"),
                asset("middle", None, "records"),
                asset("leak", "dp", "middle"),
            ]
        )


def test_charging_does_not_wash_off_what_is_restricted():
    graph = [
        asset("records", "private"),
        asset("domain", "restricted", "records"),
        asset("codes", "private", "records", "domain"),
    ]
    with pytest.raises(PrivacyLabelError, match="domain -> codes -> mechanism"):
        check_privacy_labels([*graph, asset("mechanism", "dp", "codes", charges=True)])
    check_privacy_labels([*graph, asset("mechanism", "restricted", "codes", charges=True)])


def test_a_later_asset_is_tainted_by_a_restricted_one_between():
    with pytest.raises(PrivacyLabelError, match="errors -> report"):
        check_privacy_labels(
            [
                asset("codes", "private"),
                asset("mechanism", "dp", "codes", charges=True),
                asset("errors", "restricted", "codes", "mechanism"),
                asset("report", "dp", "mechanism", "errors"),
            ]
        )


def test_an_asset_that_charges_is_not_public():
    with pytest.raises(PrivacyLabelError, match="Label it dp"):
        check_privacy_labels([asset("mechanism", "public", charges=True)])


def test_unknown_label_is_named():
    with pytest.raises(PrivacyLabelError, match="secret; the labels are public, private, dp"):
        check_privacy_labels([asset("records", "secret")])


def test_dependencies_on_assets_elsewhere_are_allowed():
    check_privacy_labels([asset("report", "dp", "elsewhere")])


def test_only_assets_of_a_release_charge():
    own = asset("mine", "dp", "records").merge_attributes(tags={"jam/charges": "ledger"})
    with pytest.raises(PrivacyLabelError, match="mine has tag jam/charges, but no release"):
        check_privacy_labels([asset("records", "private"), own])


# A whole release ------------------------------------------------------------------------------


def without_labels(spec: dg.AssetSpec) -> dg.AssetSpec:
    return spec.replace_attributes(tags={"team": "x"})


def without_labels_and_marks(spec: dg.AssetSpec) -> dg.AssetSpec:
    return spec.replace_attributes(tags={"team": "x"}, metadata={})


def relabelled(spec: dg.AssetSpec) -> dg.AssetSpec:
    return spec.merge_attributes(tags={"jam/privacy": "dp", "jam/charges": "ledger"})


def relabelled_with_marks(spec: dg.AssetSpec) -> dg.AssetSpec:
    return relabelled(spec).merge_attributes(metadata={"jam/built": "dp, charges the ledger"})


def in_the_other_store(spec: dg.AssetSpec) -> dg.AssetSpec:
    return spec.with_io_manager_key("releasable_io_manager")


def another_label_as_a_kind(spec: dg.AssetSpec) -> dg.AssetSpec:
    return spec.merge_attributes(kinds={"public"})


def of_another_dataset(spec: dg.AssetSpec) -> dg.AssetSpec:
    return spec.merge_attributes(metadata={"jam/dataset": "others"})


def past_the_budget(spec: dg.AssetSpec) -> dg.AssetSpec:
    # Dagster itself keeps the dependencies that are loaded.
    return spec.replace_attributes(
        deps=[dep for dep in spec.deps if dep.asset_key.path[-1] != "privacy_budget"]
    )


def of_private(change: Any) -> Any:
    return lambda spec: change(spec) if "private_" in spec.key.path[-1] else spec


@pytest.mark.parametrize(
    "change",
    [
        *(without_labels, without_labels_and_marks),
        *(relabelled, relabelled_with_marks, past_the_budget, in_the_other_store),
        *(another_label_as_a_kind, of_another_dataset),
    ],
)
def test_translation_that_changes_labels_is_refused(bench: Bench, change: Any) -> None:
    with pytest.raises(PrivacyLabelError, match=r"people/private_.* was built with"):
        bench.definitions(translate=of_private(change))


@pytest.mark.filterwarnings("ignore::dagster.PreviewWarning")
@pytest.mark.parametrize("change", [without_labels, *slow(relabelled)])
def test_labels_changed_after_the_release_was_built_are_refused(bench: Bench, change: Any) -> None:
    changed = bench.definitions().map_asset_specs(func=of_private(change))
    with pytest.raises(PrivacyLabelError, match=r"people/private_.* was built as 'private'"):
        check_definitions(changed)


def test_translation_for_an_organisations_conventions_is_kept(bench: Bench) -> None:
    definitions = bench.definitions(
        translate=lambda spec: spec.merge_attributes(tags={"team": "x"}, owners=["team:x"])
    )
    assert check_definitions(definitions) is definitions
    assert all(spec.tags["team"] == "x" for spec in definitions.resolve_all_asset_specs())


@pytest.mark.parametrize(
    ("tags", "loads"),
    [
        ({"jam/privacy": "public"}, False),
        ({"jam/privacy": "dp", "jam/charges": "ledger"}, False),
        ({"jam/privacy": "restricted"}, True),
        ({}, True),
    ],
)
def test_own_assets_beside_a_release_are_checked_with_it(
    bench: Bench, tags: dict[str, str], loads: bool
) -> None:
    @dg.asset(deps=[dg.AssetKey(["people", "private_records"])], tags=tags)
    def mine() -> None: ...

    merged = dg.Definitions.merge(bench.definitions(), dg.Definitions(assets=[mine]))
    if loads:
        check_definitions(merged)
    else:
        with pytest.raises(PrivacyLabelError, match="Asset mine"):
            check_definitions(merged)
