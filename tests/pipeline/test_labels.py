import dagster as dg
import pytest

from jam_dagster.errors import PrivacyLabelError
from jam_dagster.pipeline.labels import check_privacy_labels


def asset(name: str, label: str | None, *deps: str, charges: bool = False) -> dg.AssetSpec:
    tags = {} if label is None else {"jam/privacy": label}
    if charges:
        tags["jam/charges"] = "ledger"
    return dg.AssetSpec(name, deps=list(deps), tags=tags)


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
