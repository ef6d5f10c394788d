"""The fitted model: marginals, sampling, saving."""

from __future__ import annotations

from itertools import chain, combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jam_dagster.errors import InputError
from jam_dagster.mechanisms import FittedModel
from jam_dagster.tables import CategoricalAttribute, Domain, NumericAttribute
from jam_dagster.tables.domain.impossible import ImpossibleCombination
from tests.examples import examples


def test_marginals_sum_to_the_total_and_follow_the_order_asked(model):
    joint = model.marginal(("a", "b", "c"))
    assert joint.sum() == pytest.approx(1000)
    np.testing.assert_allclose(model.marginal(("c", "a")), joint.sum(axis=1).T)
    np.testing.assert_allclose(model.marginal(("b",)), joint.sum(axis=(0, 2)))


@pytest.mark.parametrize("names", [("a", "z"), ("a", "a")])
def test_bad_attributes_are_named(model, names):
    with pytest.raises(InputError, match=names[1]):
        model.marginal(names)


def test_too_large_an_answer_is_refused_before_it_is_computed():
    domain = Domain.from_sizes({f"x{i}": 100 for i in range(6)})
    with pytest.raises(InputError, match="fewer attributes"):
        FittedModel.uniform(domain, 1).marginal(domain.names)


def test_too_large_a_table_on_the_way_is_refused_before_it_is_computed():
    """Three cliques share x and y; to join a, b and c takes a table over all but one."""
    domain = Domain.from_sizes({"x": 100, "y": 100, "a": 120, "b": 120, "c": 120})
    cliques = [("x", "y", name) for name in "abc"]
    tables = {q: np.broadcast_to(0.0, [domain.sizes[name] for name in q]) for q in cliques}
    model = FittedModel(domain, 1.0, tables)
    assert model.largest_table(("a", "x")) == 120 * 100
    assert model.largest_table(("c", "b", "a")) == 100 * 100 * 120 * 120
    with pytest.raises(InputError) as refused:
        model.marginal(("c", "b", "a"))
    message = str(refused.value)
    for part in ("c, b, a", "1,728,000", "144,000,000", "134,217,728", "fewer attributes"):
        assert part in message
    assert "calibrated" not in vars(model)


@pytest.mark.parametrize("names", [("a", "z"), ("a", "a")])
def test_planning_names_bad_attributes_too(model, names):
    with pytest.raises(InputError, match=names[1]):
        model.largest_table(names)


def test_impossible_combinations_have_no_mass_and_are_never_sampled(domain):
    combination = ImpossibleCombination(("a", "b"), ((0,), (1, 2)))
    constrained = Domain(domain.attributes, impossible=(combination,))
    model = FittedModel(constrained, 100.0, {("b", "c"): np.zeros((3, 2))})
    forbidden = model.marginal(("a", "b"))[0, 1:]
    np.testing.assert_array_equal(forbidden, 0)
    assert model.tree.cells == 2 * 3 + 3 * 2
    rows = model.sample(5000, np.random.default_rng(1))
    np.testing.assert_array_equal(rows.marginal(("a", "b"))[0, 1:], 0)
    assert (rows.marginal(("a", "b"))[1] > 0).all()


def every_clique(domain):
    """All sets of attributes but the empty one."""
    sizes = range(1, len(domain.names) + 1)
    return list(chain.from_iterable(combinations(domain.names, size) for size in sizes))


@pytest.mark.parametrize("where", [None, {"b": [0, 2]}])
def test_saved_model_answers_and_samples_the_same(domain, tmp_path, where):
    rng = np.random.default_rng(3)
    constrained = Domain(
        domain.attributes, impossible=(ImpossibleCombination(("a", "c"), ((0,), (1,))),)
    )
    tables = {("a", "b"): rng.normal(0, 300, (2, 3)), ("b", "c"): rng.normal(0, 3, (3, 2))}
    model = FittedModel(constrained, 1234.5, tables)
    if where is not None:
        model = model.condition(where).recalibrated()
    model.save(tmp_path / "model")
    loaded = FittedModel.load(tmp_path / "model")
    assert loaded.domain == model.domain
    assert loaded.cliques == model.cliques
    assert loaded.total == model.total
    for clique in every_clique(domain):
        np.testing.assert_allclose(loaded.marginal(clique), model.marginal(clique), atol=1e-12)
    first, second = (m.sample(500, np.random.default_rng(4)) for m in (model, loaded))
    for ours, theirs in zip(first.columns, second.columns, strict=True):
        np.testing.assert_array_equal(ours, theirs)


PEOPLE = Domain(
    (
        CategoricalAttribute("sex", ("Female", "Male")),
        NumericAttribute("age", (30, 31, 32, 40), integer=True),
        CategoricalAttribute("job", ("cook", "judge", "pilot"), nullable=True),
    )
)


@pytest.fixture
def people():
    rng = np.random.default_rng(5)
    return FittedModel(
        PEOPLE,
        200.0,
        {("sex", "age"): rng.normal(0, 1, (2, 3)), ("age", "job"): rng.normal(0, 1, (3, 4))},
    )


@pytest.mark.parametrize(
    ("where", "codes"),
    [
        ({"sex": "Female"}, ([0], [0, 1, 2], [0, 1, 2, 3])),
        ({"sex": "Female", "age": [30, 31]}, ([0], [0, 1], [0, 1, 2, 3])),
        ({"age": {"from": 31, "below": 32}}, ([0, 1], [1], [0, 1, 2, 3])),
        ({"age": {"from": 31}}, ([0, 1], [1, 2], [0, 1, 2, 3])),
        ({"age": {"bins": [0, 2]}}, ([0, 1], [0, 2], [0, 1, 2, 3])),
        ({"age": [30, {"from": 32}]}, ([0, 1], [0, 2], [0, 1, 2, 3])),
        ({"age": np.int64(31)}, ([0, 1], [1], [0, 1, 2, 3])),
        ({"age": range(30, 32)}, ([0, 1], [0, 1], [0, 1, 2, 3])),
        ({"age": np.array([30, 31])}, ([0, 1], [0, 1], [0, 1, 2, 3])),
        ({"age": {"from": np.float64(31.0)}}, ([0, 1], [1, 2], [0, 1, 2, 3])),
        ({"job": None}, ([0, 1], [0, 1, 2], [3])),
        ({"job": ("pilot", None)}, ([0, 1], [0, 1, 2], [2, 3])),
        ({}, ([0, 1], [0, 1, 2], [0, 1, 2, 3])),
    ],
)
def test_conditions_are_read_as_people_write_them(people, where, codes):
    joint = people.marginal(PEOPLE.names)
    part = np.zeros_like(joint)
    part[np.ix_(*codes)] = joint[np.ix_(*codes)]
    assert people.probability(where) == pytest.approx(part.sum() / 200)
    conditioned = people.condition(where)
    assert conditioned.total == pytest.approx(part.sum())
    assert conditioned.tree == conditioned.recalibrated().tree == people.tree
    for clique in every_clique(PEOPLE):
        away = tuple(i for i, name in enumerate(PEOPLE.names) if name not in clique)
        np.testing.assert_allclose(conditioned.marginal(clique), part.sum(axis=away), atol=1e-11)
    rows = people.sample(300, np.random.default_rng(6), where=where)
    again = conditioned.sample(300, np.random.default_rng(6))
    assert rows.to_frame().equals(again.to_frame())
    for column, allowed in zip(rows.columns, codes, strict=True):
        assert np.isin(column, allowed).all()


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ({"age": 35}, "from and below"),
        ({"age": {"from": 35}}, "cuts through a bin"),
        ({"age": None}, "not nullable"),
        ({"age": []}, "no value meets"),
        ({"age": {"above": 3}}, "unknown key 'above'"),
        ({"sex": "female"}, "not one of its values"),
        ({"gender": "Female"}, "no attribute 'gender'"),
    ],
)
def test_conditions_that_fit_no_attribute_are_named(people, where, expected):
    for ask in (people.probability, people.condition):
        with pytest.raises(InputError, match=expected) as refused:
            ask(where)
        assert "impossible combination" not in str(refused.value)
    with pytest.raises(InputError, match=expected):
        people.sample(5, np.random.default_rng(0), where=where)


def test_codes_are_the_values_of_a_domain_without_any(model):
    assert model.probability({"b": [0, 2]}) == pytest.approx(
        model.marginal(("b",))[[0, 2]].sum() / 1000
    )


def test_a_condition_that_nothing_can_meet_is_refused(domain):
    combination = ImpossibleCombination(("a", "b"), ((0,), (1, 2)))
    model = FittedModel.uniform(Domain(domain.attributes, impossible=(combination,)), 10)
    where = {"a": 0, "b": [1, 2]}
    assert model.probability(where) == 0
    with pytest.raises(InputError, match="a, b has probability zero"):
        model.condition(where)
    with pytest.raises(InputError, match="a, b has probability zero"):
        model.sample(5, np.random.default_rng(0), where=where)


def test_conditions_add_up(model):
    twice = model.condition({"a": 1}).condition({"b": [0, 1]}).condition({"b": [1, 2]})
    once = model.condition({"a": 1, "b": 1})
    assert twice.total == pytest.approx(once.total)
    np.testing.assert_allclose(twice.marginal(("a", "b", "c")), once.marginal(("a", "b", "c")))


@st.composite
def conditioned_models(draw):
    """A model over few attributes, and a condition on some of them that leaves something."""
    sizes = draw(st.lists(st.integers(1, 4), min_size=1, max_size=5))
    domain = Domain.from_sizes({f"x{i}": size for i, size in enumerate(sizes)})
    clique = st.sets(st.sampled_from(domain.names), min_size=1, max_size=3).map(domain.canonical)
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    tables = {
        names: rng.normal(0, 2, [domain.sizes[name] for name in names])
        for names in draw(st.lists(clique, max_size=5, unique=True))
    }
    where = {
        name: draw(st.lists(st.integers(0, domain.sizes[name] - 1), min_size=1))
        for name in draw(st.sets(st.sampled_from(domain.names)))
    }
    return FittedModel(domain, 100.0, tables), where


@given(conditioned_models())
@examples(30)
def test_conditioned_marginals_are_the_parts_of_the_whole(case):
    model, where = case
    names = model.domain.names
    joint = model.marginal(names)
    codes = [sorted(set(where.get(name, range(model.domain.sizes[name])))) for name in names]
    part = np.zeros_like(joint)
    part[np.ix_(*codes)] = joint[np.ix_(*codes)]
    assert model.probability(where) == pytest.approx(part.sum() / 100)
    conditioned = model.condition(where)
    np.testing.assert_allclose(conditioned.recalibrated().marginal(names), part, atol=1e-10)
    for clique in every_clique(model.domain):
        away = tuple(i for i, name in enumerate(names) if name not in clique)
        np.testing.assert_allclose(conditioned.marginal(clique), part.sum(axis=away), atol=1e-10)
