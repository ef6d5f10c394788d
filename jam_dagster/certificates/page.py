"""The certificate as a page: self-contained HTML, for a privacy officer to read."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from jam_dagster.privacy import epsilon_from_rho, rho_within
from jam_dagster.privacy.accounting import units_up
from jam_dagster.privacy.noise.calls import COUNTS, VALUES
from jam_dagster.privacy.shares import DOMAIN, EVALUATION

if TYPE_CHECKING:
    from jam_dagster.certificates.certificate import Certificate

_USES = {
    "exponential mechanism": ("Choosing what to measure", "selection"),
    "discrete Gaussian": ("Measuring", "measurement"),
    "Gaussian": ("Evaluating the tables", "evaluation"),
    DOMAIN: ("Buying the domain", "counting"),
}

_FILES = {
    "table": "the published table",
    "children": "the published table of children",
    "domain": "the attributes and their values",
    "transcript": "what was chosen and what it cost",
    "measurements": "what was measured",
    "model": "the model's shape and domain",
    "potentials": "the model's parameters",
    "report": "the report",
    "checks": "the checks of the table",
    "validations": "the same, as Great Expectations reports them",
    "errors": "the workload errors, as they were measured with noise",
}


PAGE_NAME = "certificate.html"


def render_certificate(certificate: Certificate) -> str:
    """Render a certificate as one HTML page without network and scripts."""
    from jam_dagster.common.html_pages import environment

    template = environment("jam_dagster.certificates").get_template("certificate.html")
    asked = certificate.asked
    return template.render(
        certificate=certificate,
        document=certificate.to_dict(),
        rho_asked=asked.budget.rho,
        parts=_parts(certificate),
        amounts=_amounts(certificate),
        entries=[{"entry": one, "rho": rho_within(one.units)} for one in certificate.entries],
        described=_FILES,
    )


def _parts(certificate: Certificate) -> list[dict[str, Any]]:
    """Return the use of the reserved rho; the parts add up to the whole."""
    uses: dict[str, int] = defaultdict(int)
    lost = 0
    for draw in certificate.draws:
        if draw.call.lost:
            lost += units_up(draw.call.rho)
        else:
            # Statistics of a mechanism are measured, whatever their noise.
            values = draw.call.kind in VALUES and draw.share != EVALUATION
            kind = COUNTS if values else draw.call.kind
            uses[DOMAIN if draw.share == DOMAIN else kind] += units_up(draw.call.rho)
    reserved = sum(units_up(rho) for rho in certificate.asked.shares.values())
    parts = [(*_USES[kind], units) for kind, units in uses.items()]
    parts.append(("Lost draws", "lost", lost))
    left = reserved - sum(units for *_, units in parts)
    closed = any(one.kind == "closed" for one in certificate.entries)
    parts.append(("Returned to the budget" if closed else "Not spent", "returned", left))
    # A part below the rounding error of the whole counts as zero.
    return [
        {
            "name": name,
            "kind": kind,
            "rho": rho_within(units),
            "percent": 100 * units / reserved if reserved else 0.0,
        }
        for name, kind, units in parts
        if units > 1e-9 * reserved
    ]


def _amounts(certificate: Certificate) -> list[dict[str, Any]]:
    """Return the dataset's balance, in rho and epsilon."""
    if certificate.standing is None:
        return []
    totals = certificate.standing.totals
    granted, reserved, spent = (
        totals[f"{name}_units"] for name in ("granted", "reserved", "spent")
    )
    lifetime = totals["policy"]["period"] == "lifetime"
    within = "" if lifetime else f" for {totals['period']}"
    rows = [
        (f"Granted{within}, for all releases together", granted),
        (f"Spent by all releases{within}", spent),
        ("Reserved by releases that have not ended", reserved),
        (f"Left{within}", granted - reserved - spent),
    ]
    if not lifetime:
        rows.append(("Spent over the lifetime", totals["lifetime_spent_units"]))
    return [_amount(name, units, totals["delta"]) for name, units in rows]


def _amount(name: str, units: int, delta: float) -> dict[str, Any]:
    return {
        "name": name,
        "rho": rho_within(units),
        # A few units are a rounding remainder, but their epsilon looks like a usable amount.
        "epsilon": epsilon_from_rho(rho_within(units), delta) if units > 999 else 0.0,
    }
