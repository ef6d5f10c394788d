"""The mechanisms that the battery tests: all that are registered, and some in special cases."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import pytest
from _pytest.mark.structures import ParameterSet

from jam_dagster.mechanisms import (
    MECHANISMS,
    Aim,
    JamPgm,
    Mechanism,
    MechanismResult,
    make_mechanism,
    mechanism_class,
)
from jam_dagster.mechanisms.gaussian import Gaussian
from jam_dagster.mechanisms.independent import Independent
from jam_dagster.mechanisms.loops.settings import settings_of
from jam_dagster.mechanisms.mst import Mst
from jam_dagster.mechanisms.mwem_pgm import MwemPgm
from jam_dagster.mechanisms.tilt import Tilt
from jam_dagster.privacy import Neighbours
from jam_dagster.tables import EncodedTable, MarginalSource, PublicTables
from tests.privacy.neighbours import RELATIONS
from tests.tiers import by_jax, first_quick

Joint = tuple[tuple[int, int], tuple[int, int]]

ROUNDS_AND_ALPHAS: tuple[Mapping[str, Any], ...] = (
    *({"rounds": rounds} for rounds in (1, 2, 7)),
    *({"rounds": 3, "alpha": alpha} for alpha in (0.01, 0.99)),
)
"""The ends of what is allowed, for mechanisms of rounds that select and measure."""


@dataclass(frozen=True)
class Audit:
    """Two tables that a mechanism has as hard a time hiding as it has promised to.

    Parameters
    ----------
    name
        What the audit is of.
    neighbours
        Their counts, over two attributes of two values.
    public
        The public table's.
    rho
        The budget.
    tight
        How much of it the two tables bring out, by arithmetic.
    settings
        Of the mechanism.
    degree
        That of the workload's marginals.
    """

    name: str
    neighbours: tuple[Joint, Joint]
    public: Joint
    rho: float
    tight: float
    settings: Mapping[str, Any]
    degree: int = 1


@dataclass(frozen=True)
class Case:
    """A mechanism as the battery runs it.

    Parameters
    ----------
    name
        What the test is called.
    make
        Returns the mechanism; settings override those of a small, quick run.
    variants
        Settings at the ends of what is allowed, under which the charges must add up.
    public
        Given the scores of a selection, an index that measures public data; None where the
        mechanism has no such choice.
    audits
        Worst cases that are audited.
    short
        Settings of runs of few rounds.
    steady
        Settings of a run that is too short for rounding to grow: long steps of a fit that has not
        arrived yet double it again and again.
    score
        The property of `Neighbours` that scores follow, where an audit shows that it is needed.
    draws
        The kinds of draws that every run makes; None: whichever it does.
    attained
        The kinds of draws whose inputs move as far as their noise is made for, on some tables.
    measured
        The property of `Neighbours` that measurements follow.
    learns
        Returns the public tables that `make`'s mechanism learns from, given the one of the test.
    rho
        The budget of a small run.
    """

    name: str
    make: Callable[..., Mechanism]
    variants: tuple[Mapping[str, Any], ...] = ({},)
    public: Callable[[np.ndarray], int] | None = None
    audits: tuple[Audit, ...] = ()
    short: tuple[Mapping[str, Any], ...] = ({"rounds": 1}, {"rounds": 2})
    steady: Mapping[str, Any] = field(default_factory=lambda: {"rounds": 5})
    score: str | None = None
    draws: tuple[str, ...] | None = ("select", "counts")
    attained: tuple[str, ...] = ("select", "counts")
    measured: str = "marginal_l2"
    learns: Callable[[EncodedTable], MarginalSource] = lambda public: public
    rho: float = 2.0


def generic(name: str) -> Case:
    """A mechanism of which nothing is known but its settings: a small run, of few rounds."""
    known = settings_of(mechanism_class(name))

    def having(**settings: int) -> dict[str, int]:
        return {key: value for key, value in settings.items() if key in known}

    return Case(
        name,
        partial(make_mechanism, name, **having(rounds=3, iterations=20)),
        # More rounds than attributes, each of which some mechanisms measure first.
        short=(having(rounds=4), having(rounds=6)),
        steady=having(rounds=5, iterations=3),
        draws=None,
    )


SMALL_JAM_PGM = partial(JamPgm, rounds=3, iterations=20)


def jam_pgm() -> Case:
    return Case(
        "jam_pgm",
        SMALL_JAM_PGM,
        variants=ROUNDS_AND_ALPHAS,
        # The second half of the scores are those of public candidates.
        public=lambda scores: len(scores) - 1,
        audits=(SELECTING, MEASURING, TWO_ROUNDS),
        score="jam_score",
    )


def histogram(name: str, **settings: Any) -> Case:
    """A mechanism that weighs records."""
    return Case(
        name,
        partial(make_mechanism, name, rounds=3, **settings),
        variants=ROUNDS_AND_ALPHAS,
        audits=(CHOOSING, WHOLE_MARGINAL),
        score="marginal_l1",
    )


def jam_pgm_of_two_tables() -> Case:
    """JAM-PGM with the public table twice, once without its first attribute."""
    name = "jam_pgm-two-tables"
    return replace(
        jam_pgm(),
        name=name,
        make=partial(_TwoTables, rounds=3, iterations=20),
        audits=(),
        learns=_whole_and_part,
    )


def aim() -> Case:
    return Case(
        "aim",
        partial(Aim, rounds=5, iterations=20),
        variants=(
            {"rounds": 4},
            {"rounds": None},
            {"rounds": 40},
            {"rounds": 5, "alpha": 0.01},
            {"rounds": 5, "alpha": 0.99},
            {"rounds": None, "plan_rounds": True},
        ),
        audits=(BOTH_ATTRIBUTES,),
        # One of each attribute comes first.
        short=({"rounds": 4}, {"rounds": 6}),
        steady={"rounds": 8, "iterations": 3},
    )


def aim_planned() -> Case:
    """AIM with T by the number of records, which a lost or a private one changes."""
    return replace(
        aim(),
        name="aim-planned",
        make=partial(Aim, plan_rounds=True, iterations=20),
        variants=({}, {"alpha": 0.01}, {"alpha": 0.99}),
        audits=(),
        short=({}, {"alpha": 0.5}),
        steady={"iterations": 3},
        # Under every relation T is more than d + 1 here, and less than 16 d.
        rho=30.0,
    )


def mwem_pgm() -> Case:
    return Case(
        "mwem_pgm",
        partial(MwemPgm, rounds=3, iterations=20),
        variants=({"rounds": None}, *ROUNDS_AND_ALPHAS),
        # The record that SELECTING replaces moves the scores of the single attributes apart.
        audits=(SELECTING, TWO_ROUNDS),
        score="marginal_l1",
    )


def privbayes() -> Case:
    """PrivBayes: of a dozen records, pairs are useful with a small theta alone."""
    return Case(
        "privbayes",
        partial(make_mechanism, "privbayes", theta=0.1),
        variants=({}, {"beta": 0.01}, {"beta": 0.99}, {"theta": 4.0}),
        audits=(replace(EVERY_TABLE, settings={}),),
        short=({}, {"theta": 0.001}),
        steady={},
        attained=("counts",),
    )


def privbayes_pgm() -> Case:
    made = privbayes()
    return replace(
        made,
        name="privbayes_pgm",
        make=partial(make_mechanism, "privbayes_pgm", theta=0.1, iterations=20),
        variants=(*made.variants, {"size_limit_mb": 0.0001}),
        audits=(EVERY_TABLE,),
        steady={"iterations": 3},
    )


def hdmm() -> Case:
    """HDMM: all residuals in one draw, with a sensitivity of their own."""
    return Case(
        "hdmm",
        partial(make_mechanism, "hdmm"),
        audits=(replace(EVERY_TABLE, settings={}),),
        short=({}, {}),
        steady={},
        draws=("counts",),
        attained=("counts",),
        measured="cell",
    )


def hdmm_pgm() -> Case:
    return replace(
        hdmm(),
        name="hdmm_pgm",
        make=partial(make_mechanism, "hdmm_pgm", iterations=20),
        audits=(EVERY_TABLE,),
        short=({}, {"iterations": 2}),
        steady={"iterations": 3},
    )


def privmrf() -> Case:
    """PrivMRF: pairs that depend, distances from the model, and marginals."""
    return Case(
        "privmrf",
        partial(make_mechanism, "privmrf", iterations=20),
        variants=({}, {"t": 3.0}, {"theta": 0.001}),
        audits=(EVERY_TABLE,),
        short=({}, {"t": 2.0}),
        steady={"iterations": 3},
        draws=("counts", "values"),
        attained=("counts",),
    )


def privsyn() -> Case:
    """PrivSyn: pairs that depend, and marginals."""
    return Case(
        "privsyn",
        partial(make_mechanism, "privsyn"),
        variants=({}, {"gamma": 1}),
        audits=(replace(EVERY_TABLE, settings={}),),
        short=({}, {"gamma": 1}),
        steady={},
        draws=("counts", "values"),
        attained=("counts",),
    )


def mst() -> Case:
    """MST; that its scores need their sensitivity is audited with MWEM+PGM, whose they are."""
    return Case(
        "mst",
        partial(Mst, iterations=20),
        variants=({}, {"merge_rare": False}),
        audits=(EVERY_TABLE,),
        short=({}, {"merge_rare": False}),
        steady={"iterations": 3},
    )


def independent() -> Case:
    return Case(
        "independent",
        partial(Independent, iterations=20),
        audits=(EVERY_TABLE,),
        short=({}, {"iterations": 2}),
        steady={"iterations": 3},
        draws=("counts",),
    )


def tilt() -> Case:
    """TILT: what a score moves depends on how far a measurement would be followed, below all."""
    return Case(
        "tilt",
        partial(make_mechanism, "tilt"),
        variants=({}, {"iterations": 1}, {"size_limit_mb": 0.001}),
        audits=(FOLLOWED,),
        short=({}, {"iterations": 2}),
        steady={"iterations": 3},
        attained=("counts",),
    )


def tilt_alone() -> Case:
    """TILT with the uniform prior: of a large budget single attributes leave something to rounds.

    With a small one they get all of it, and nothing is chosen.
    """
    return replace(
        tilt(),
        name="tilt-uniform",
        make=partial(make_mechanism, "tilt", prior="uniform"),
        audits=(ALONE,),
        rho=200.0,
    )


def tilt_of_populations() -> Case:
    """TILT with two public tables that differ, so that its network parts them."""
    return replace(
        tilt(), name="tilt-populations", make=_Populations, audits=(), learns=and_reversed
    )


def public_prior() -> Case:
    """The public prior: no draw but that of a private number of records."""
    return Case(
        "public_prior",
        partial(make_mechanism, "public_prior"),
        short=({}, {}),
        steady={},
        draws=(),
        attained=(),
        measured="cell",
    )


def gaussian() -> Case:
    return Case(
        "gaussian",
        Gaussian,
        audits=(replace(EVERY_TABLE, settings={}),),
        short=({}, {}),
        steady={},
        draws=("counts",),
    )


def mixture(name: str, **settings: Any) -> Case:
    """A mechanism that trains a mixture of products."""
    return Case(
        name,
        partial(make_mechanism, name, rounds=3, components=5, iterations=3, **settings),
        variants=ROUNDS_AND_ALPHAS,
        # From free logits that are almost even, the errors move as from an even start; the network
        # learns nothing from one step.
        audits=(CHOOSING, WHOLE_MARGINAL) if name == "rap_softmax" else (WHOLE_MARGINAL,),
        steady={"rounds": 4, "iterations": 6, "threshold": 0.0},
        score="marginal_l1" if name == "rap_softmax" else None,
    )


def mwem_rp() -> Case:
    """MWEM + relaxed projection: the mixture's rounds with the scores of MWEM."""
    # Many rows are almost even together.
    even = replace(CHOOSING, settings={**CHOOSING.settings, "components": 200})
    return replace(mixture("mwem_rp"), audits=(even, WHOLE_MARGINAL), score="marginal_l1")


def gem_by_cell() -> Case:
    """GEM as its authors' code for whole marginals: no marginal is measured twice."""
    # From the start of this width, the errors move as from an even one.
    wide = replace(CHOOSING, settings={**CHOOSING.settings, "width": 64})
    return replace(
        mixture("gem", width=4, score="max_cell"),
        name="gem-max-cell",
        variants=({"rounds": 1}, {"rounds": 2, "alpha": 0.01}, {"rounds": 3, "alpha": 0.99}),
        audits=(wide, WHOLE_MARGINAL),
        score="cell",
    )


def rap() -> Case:
    """RAP: single cells, of which a half of the budget is for the choice."""
    return Case(
        "rap",
        partial(make_mechanism, "rap", rounds=3, k=4, components=5, iterations=3),
        variants=({}, {"rounds": 1, "k": 1}, {"rounds": 7, "k": 2}, {"k": 32}),
        audits=(ONE_CELL, CELLS),
        steady={"rounds": 4, "iterations": 6},
        score="cell",
        draws=("select", "values"),
        attained=("select",),
        measured="cell",
    )


def dualquery() -> Case:
    """DualQuery: queries whose scores sum over rounds, and nothing that is measured."""
    return Case(
        "dualquery",
        partial(make_mechanism, "dualquery", s=3, eta=2.0),
        variants=({}, {"s": 1, "eta": 40.0}, {"s": 40}, {"eta": 0.5}),
        audits=(DRAWN,),
        short=({"eta": 1.0}, {"eta": 0.5}),
        steady={},
        score="cell",
        draws=("select",),
        attained=("select",),
        measured="cell",
    )


def fem() -> Case:
    """FEM: DualQuery's choices, one at a time."""
    return Case(
        "fem",
        partial(make_mechanism, "fem", rounds=3, s=2),
        variants=({}, {"rounds": 2, "s": 1}, {"rounds": 7, "s": 1, "scale": 0.01}),
        audits=(ONE_RECORD,),
        score="cell",
        short=({"rounds": 2}, {"rounds": 3}),
        steady={"rounds": 4},
        draws=("select",),
        attained=("select",),
        measured="cell",
    )


# One attribute's public score falls by four and the other's rises by four: the model and the public
# counts lie on either side of the private ones. Private candidates are too noisy to be chosen.
SELECTING = Audit(
    "selecting",
    neighbours=(((6, 3), (2, 1)), ((6, 2), (3, 1))),
    public=((1, 0), (0, 0)),
    rho=1.0,
    tight=0.9,
    settings={"rounds": 1, "alpha": 0.001, "iterations": 1},
)
# What is private is far from uniform and from public, so it is measured.
MEASURING = Audit(
    "measuring",
    neighbours=(((900, 0), (0, 300)), ((899, 0), (0, 301))),
    public=((0, 0), (0, 1)),
    rho=1.0,
    tight=0.9,
    settings={"rounds": 1, "alpha": 0.95, "iterations": 1},
)
TWO_ROUNDS = Audit(
    "two rounds",
    neighbours=MEASURING.neighbours,
    public=MEASURING.public,
    rho=1.0,
    tight=0.8,
    settings={"rounds": 2, "alpha": 0.9, "iterations": 10},
)


# The record moves in both attributes, and both are measured first.
BOTH_ATTRIBUTES = Audit(
    "both attributes",
    neighbours=MEASURING.neighbours,
    public=MEASURING.public,
    rho=1.0,
    tight=0.9,
    settings={"rounds": 3, "alpha": 0.95, "iterations": 1},
)

# Nothing is chosen, and the record moves in all that is measured.
EVERY_TABLE = replace(BOTH_ATTRIBUTES, name="every table", settings={"iterations": 1})


# The record moves towards the start (even, or as the public table) in one attribute, and away from
# it in the other: one score falls by two and the other rises by two.
CHOOSING = Audit(
    "choosing",
    neighbours=(((6, 3), (2, 1)), ((6, 2), (3, 1))),
    public=((8, 2), (2, 0)),
    rho=1.0,
    tight=0.85,
    settings={"rounds": 1, "alpha": 0.001},
)
# The error is large in either attribute, and both move.
WHOLE_MARGINAL = Audit(
    "whole marginal",
    neighbours=MEASURING.neighbours,
    public=((1, 1), (1, 1)),
    rho=1.0,
    tight=0.9,
    settings={"rounds": 1, "alpha": 0.95},
)

# What is measured is far from the public table, so every measurement tells the record.
FOLLOWED = Audit(
    "followed",
    neighbours=MEASURING.neighbours,
    public=((1, 1), (1, 1)),
    rho=1.0,
    tight=0.7,
    settings={"iterations": 2},
)

# Both attributes are measured first, then the pair is chosen and measured: the record moves in all.
ALONE = Audit(
    "alone",
    neighbours=MEASURING.neighbours,
    public=((1, 1), (1, 1)),
    rho=1.0,
    tight=0.9,
    settings={"iterations": 2},
    degree=2,
)


# From many rows, which are almost even together, the errors of one attribute's cells rise by one
# and those of the other's fall by one; the cell that is chosen moves by one.
ONE_CELL = replace(
    CHOOSING, tight=0.9, settings={"rounds": 1, "iterations": 1, "k": 1, "components": 200}
)


# All cells are chosen, and all move: that is the half that measures.
CELLS = replace(
    WHOLE_MARGINAL,
    name="cells",
    rho=4.0,
    tight=1.8,
    settings={"rounds": 1, "iterations": 1, "k": 8},
)


# The first record that is found is (0, 0) whatever the data, so all scores are zero on the first
# table, and one on the second: one up or one down.
DRAWN = Audit(
    "drawn",
    neighbours=(((12, 0), (0, 0)), ((11, 0), (0, 1))),
    public=((1, 1), (1, 1)),
    rho=1.0,
    tight=0.9,
    settings={"s": 50, "eta": 1000.0},
)


# All scores are zero or one apart, whichever record is found, and all of them move by one: one
# choice tells as much as the next.
ONE_RECORD = Audit(
    "one record",
    neighbours=(((1, 0), (0, 0)), ((0, 0), (0, 1))),
    public=((1, 1), (1, 1)),
    rho=1.0,
    tight=0.8,
    settings={"rounds": 6, "s": 1},
)


def _whole_and_part(public: EncodedTable) -> PublicTables:
    part = EncodedTable(public.domain.project(public.domain.names[1:]), public.columns[1:])
    return PublicTables(public.domain, {"whole": public, "part": part})


class _TwoTables(JamPgm):
    def run(self, private: MarginalSource, public: Any, *args: Any, **more: Any) -> MechanismResult:
        return super().run(private, _whole_and_part(public), *args, **more)


def and_reversed(public: EncodedTable) -> PublicTables:
    """Return a public table beside its reverse, in as many records as show that they differ."""
    domain = public.domain
    sizes = zip(public.columns, domain.shape, strict=True)
    other = EncodedTable(domain, [np.tile(size - 1 - column, 200) for column, size in sizes])
    one = EncodedTable(domain, [np.tile(column, 200) for column in public.columns])
    return PublicTables(domain, {"public": one, "reversed": other})


class _Populations(Tilt):
    def run(self, private: MarginalSource, public: Any, *args: Any, **more: Any) -> MechanismResult:
        return super().run(private, and_reversed(public), *args, **more)


_SPECIAL_CASES = [
    jam_pgm(),
    aim(),
    mwem_pgm(),
    privmrf(),
    hdmm_pgm(),
    privsyn(),
    privbayes_pgm(),
    privbayes(),
    mst(),
    independent(),
    gaussian(),
    hdmm(),
    tilt(),
    tilt_alone(),
    public_prior(),
    histogram("pmw_pub"),
    histogram("mwem"),
    histogram("pep", iterations=20),
    histogram("pep_pub", iterations=20),
    mixture("gem", width=4),
    mixture("gem_pub", width=4, pretraining_degree=2, pretraining_iterations=4),
    mixture("rap_softmax"),
    mwem_rp(),
    rap(),
    dualquery(),
    fem(),
]

QUICK_CASES = [
    *_SPECIAL_CASES,
    *map(generic, sorted(MECHANISMS.keys() - {case.make().name for case in _SPECIAL_CASES})),
]
"""At least one for each registered mechanism."""

SLOW_CASES = [
    gem_by_cell(),
    jam_pgm_of_two_tables(),
    tilt_of_populations(),
    aim_planned(),
]
"""Further ways in which some of them run."""

CASES = [*QUICK_CASES, *SLOW_CASES]


TRAINED = ("gem", "gem_pub", "gem-max-cell", "rap", "rap_softmax", "mwem_rp")
"""The cases whose mechanisms train a mixture, by steps that are compiled."""


def marked(cases: Iterable[Case], later: Sequence[Case] = SLOW_CASES) -> list[ParameterSet]:
    """Return cases as parameters of a test, the later ones marked slow.

    One worker runs all tests of a case, and makes once what they share: runs, and the compiled
    steps of all that are trained.
    """

    def marks(case: Case) -> list[pytest.MarkDecorator]:
        group = by_jax if case.name in TRAINED else pytest.mark.xdist_group(case.name)
        return [group, *([pytest.mark.slow] if case in later else [])]

    return [pytest.param(case, id=case.name, marks=marks(case)) for case in cases]


FITTED_BY_MBI = replace(jam_pgm(), name="mbi", make=partial(SMALL_JAM_PGM, estimator="mbi"))
"""A fit draws nothing; one that took the true number of records would still tell it."""

every_mechanism = pytest.mark.parametrize("case", marked(CASES))

# Choices with and without public tables, counts alone, real and whole statistics, decisions, many
# choices at once, and choices alone.
OF_EACH_KIND = (*("jam_pgm", "mwem_pgm", "independent", "privmrf", "hdmm", "tilt", "rap", "fem"),)

of_each_kind = pytest.mark.parametrize(
    "case", marked(CASES, [case for case in CASES if case.name not in OF_EACH_KIND])
)
"""Every mechanism; in the first tier one for each kind of draws."""

every_mechanism_that_samples = pytest.mark.parametrize(
    "case", marked(case for case in CASES if case.make().samples)
)

every_relation = pytest.mark.parametrize(
    "relation", first_quick(RELATIONS), ids=Neighbours.describe
)
