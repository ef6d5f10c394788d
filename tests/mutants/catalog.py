"""The bugs that the tests must notice: those found in libraries like this one, and their kin."""

from __future__ import annotations

from tests.mutants.planting import Mutant

ACCOUNTING = "jam_dagster/privacy/accounting.py"
ARCHIVE = "jam_dagster/pipeline/archive.py"
AUDIT = "jam_dagster/privacy/ledger_audit.py"
DISCRETIZATION = "jam_dagster/tables/discretization.py"
DRAWS = "jam_dagster/privacy/draws.py"
EXACT = "jam_dagster/privacy/exact_noise.py"
IDENTITY = "jam_dagster/pipeline/identity.py"
INGESTION = "jam_dagster/pipeline/ingestion.py"
JAM = "jam_dagster/mechanisms/jam_pgm.py"
LABELS = "jam_dagster/pipeline/labels.py"
POLICY = "jam_dagster/privacy/policy.py"
PRIVACY_UNIT = "jam_dagster/tables/privacy_unit.py"
RELEASE = "jam_dagster/privacy/release.py"
RESERVATIONS = "jam_dagster/privacy/reservations.py"
SCORES = "jam_dagster/mechanisms/scores.py"
SEEDED = "jam_dagster/privacy/seeded_noise.py"
SENSITIVITY = "jam_dagster/privacy/sensitivity.py"
SYNTHESIS = "jam_dagster/synthesis/run.py"

REPLAY = "tests/battery/test_replay.py"
SEARCH = f"{REPLAY}::test_inputs_of_draws_move_as_far_as_their_noise_is_made_for"
ALIKE = f"{REPLAY}::test_neighbours_are_released_alike"
SPENDING = "tests/battery/test_spending.py"
BY_HAND = "tests/mechanisms/test_jam_pgm.py"
QUICK = ("-m", "not slow")
CERTIFICATES = ("tests/certificates", *QUICK)

MUTANTS = (
    Mutant(
        "neighbours-added-up",
        "amounts of rho for different neighbours do not add up",
        POLICY,
        "if len(protected) > 1:",
        "if len(protected) > 2:",
        ("tests/privacy/test_ledger_neighbours.py",),
    ),
    Mutant(
        "score-sensitivity-2",
        "a joint score moves by 4, not by 2",
        SENSITIVITY,
        "return 2.0 * self.marginal_l1",
        "return self.marginal_l1",
        ("tests/battery/test_audit.py::test_a_few_runs", *QUICK),
    ),
    Mutant(
        "marginal-l2-is-1",
        "two cells move when a record is replaced",
        SENSITIVITY,
        "MARGINAL_L2 = math.sqrt(2.0)",
        "MARGINAL_L2 = 1.0",
        (SEARCH, *QUICK),
    ),
    Mutant(
        "noise-not-scaled-by-rows",
        "noise for one row a person where there are k",
        SENSITIVITY,
        "return math.nextafter(MARGINAL_L2 * self.max_rows, math.inf)",
        "return MARGINAL_L2",
        (SEARCH, *QUICK),
    ),
    Mutant(
        "rows-grow-as-a-root",
        "k rows in one cell move its count by k, not by the root of k",
        SENSITIVITY,
        "            return float(self.max_rows)\n        if",
        "            return math.sqrt(self.max_rows)\n        if",
        (SEARCH, *QUICK),
    ),
    Mutant(
        "mean-error-1-over-n",
        "a mean error moves by 2 / n",
        SENSITIVITY,
        "return self.marginal_l1 / records",
        "return 1.0 / records",
        ("tests/privacy/test_sensitivity.py", "-k", "mean_error"),
    ),
    Mutant(
        "sigma-from-a-share",
        "sigma is fed a share of rho without the root",
        ACCOUNTING,
        "return l2_sensitivity / math.sqrt(2.0 * check_rho(rho))",
        "return l2_sensitivity * (2.0 * check_rho(rho))",
        (f"{SPENDING}::test_every_relation", *QUICK),
    ),
    Mutant(
        "selection-costs-an-eighth-too-little",
        "the exponential mechanism costs eps^2 / 8, not eps^2 / 16",
        ACCOUNTING,
        "return math.sqrt(8.0 * check_rho(rho))",
        "return math.sqrt(16.0 * check_rho(rho))",
        ("tests/privacy/test_noise.py", "-k", "covers_the_selection"),
    ),
    Mutant(
        "permute-and-flip",
        "another mechanism is charged as the exponential one",
        SEEDED,
        ".gumbel(size=",
        ".exponential(size=",
        ("tests/privacy/test_noise.py", "-k", "follows_the_exponential"),
    ),
    Mutant(
        "rounded-gaussian",
        "rounding a continuous Gaussian gives another law",
        SEEDED,
        "noise = discrete_gaussian(self._generator(step), sigma, counts.size)",
        "noise = np.rint(self._generator(step).normal(0, sigma, counts.size)).astype(np.int64)",
        ("tests/privacy/test_noise.py", "-k", "discrete_gaussian or by_scripts"),
    ),
    Mutant(
        "float-noise",
        "floating-point noise tells what it was added to",
        EXACT,
        "return np.asarray(measurement(values.tolist()), dtype=np.float64), sigma",
        "return values + np.random.default_rng().normal(0, sigma, values.shape), sigma",
        ("tests/battery/test_round_trip.py",),
    ),
    Mutant(
        "l1-by-column",
        "norm(x, 1) of a matrix is its largest column sum",
        SCORES,
        "return float(np.abs(a - b).sum())",
        "return float(np.abs(a - b).sum(axis=0).max())",
        ("tests/mechanisms/test_scores.py",),
    ),
    Mutant(
        "charge-after-draw",
        "a crash between the two would leave a draw unpaid",
        DRAWS,
        """        stored = self._open(step, rho, "exponential mechanism", sensitivity, scores.size)
        if stored is None:
            index = self._noise.select(scores, rho, sensitivity, step)
""",
        """        index = self._noise.select(scores, rho, sensitivity, step)
        stored = self._open(step, rho, "exponential mechanism", sensitivity, scores.size)
        if stored is None:
""",
        ("tests/privacy/test_draws.py",),
    ),
    Mutant(
        "selection-not-charged",
        "a draw that nobody pays for",
        DRAWS,
        "self._account.charge(step, rho)",
        "kind == 'exponential mechanism' or self._account.charge(step, rho)",
        (f"{SPENDING}::test_every_relation", *QUICK),
    ),
    Mutant(
        "second-selection",
        "a second, uncharged draw from the exponential mechanism, to look at the gap",
        JAM,
        "        source: Origin = ",
        """        self.draws._noise.select(scores, rho_select, 4.0, "gap")
        source: Origin = """,
        (f"{SPENDING}::test_every_relation", *QUICK),
    ),
    Mutant(
        "rounds-overspend",
        "each round takes an even share and a public choice's budget twice",
        JAM,
        "share = self.draws.remaining / (self.mechanism.rounds - index)",
        "share = self.draws.total / (self.mechanism.rounds - 1 or 1)",
        (SPENDING, *QUICK),
    ),
    Mutant(
        "candidates-from-a-set",
        "the order of a set of names depends on the process",
        JAM,
        "self.closure = list(closure)",
        "self.closure = list(set(closure))",
        ("tests/battery/test_determinism.py::test_hash_seeds_and_threads_change_nothing", *QUICK),
    ),
    Mutant(
        "filtered-never-return",
        "a candidate that did not fit early is gone for good",
        JAM,
        "            fitting = self.filter.fitting(self.measured, limit)\n",
        "            fitting = self.filter.fitting(self.measured, limit)\n"
        "            fitting = [c for c in fitting if c in getattr(self, 'kept', fitting)]\n"
        "            self.kept = fitting\n",
        (BY_HAND,),
    ),
    Mutant(
        "uniform-error-ignored",
        "the first round takes the uniform model for right",
        JAM,
        "current_error = self._current_errors(fitting)",
        "current_error = self._current_errors(fitting) * bool(self.measured)",
        (BY_HAND,),
    ),
    Mutant(
        "candidates-from-private-counts",
        "marginals with an empty private cell are left out",
        JAM,
        "            fitting = self.filter.fitting(self.measured, limit)\n",
        "            fitting = self.filter.fitting(self.measured, limit)\n"
        "            full = [c for c in fitting if self._count(self.closure[c]).all()]\n"
        "            fitting = full or [0]\n",
        (ALIKE, *QUICK),
    ),
    Mutant(
        "rows-are-counted",
        "the number of rows is used where it is private",
        JAM,
        "self.records = draws.records(private.records)",
        "self.records = private.records",
        (ALIKE, *QUICK),
    ),
    Mutant(
        "unnoised-zeros",
        "cells that are empty stay empty: the support is told exactly",
        JAM,
        'return Measurement(clique, "private", noisy, sigma, index)',
        'return Measurement(clique, "private", noisy * (self._count(clique) > 0), sigma, index)',
        (ALIKE, *QUICK),
    ),
    Mutant(
        "resume-redraws",
        "a stored outcome is drawn again, for nothing",
        DRAWS,
        "        if stored is None:\n            index = ",
        "        if True:\n            index = ",
        (f"{REPLAY}::test_what_is_stored_is_released_alike_and_asks_nothing", *QUICK),
    ),
    Mutant(
        "lost-draw-repeated",
        "exact noise drawn twice for one charge",
        DRAWS,
        "return self._noise.repeatable and rho_within",
        "return rho_within",
        ("tests/privacy/test_draws.py",),
    ),
    Mutant(
        "refund-of-what-was-spent",
        "closing returns the whole reservation",
        RELEASE,
        "write(connection, Kind.RETURNED, key, share, state, units=state.left, **said)",
        "write(connection, Kind.RETURNED, key, share, state, units=state.reserved, **said)",
        ("tests/privacy/test_ledger.py",),
    ),
    Mutant(
        "shares-in-one-purse",
        "the mechanism can spend the evaluation's share",
        RELEASE,
        "reserved=said[0].units,",
        "reserved=sum(one[0].units for one in by_share.values()),",
        ("tests/privacy/test_ledger.py",),
    ),
    Mutant(
        "share-overdrawn",
        "a share is charged for what another holds",
        RELEASE,
        "left=state.left,",
        "left=sum(one.left for one in share_states(connection, self.release.key).values()),",
        (f"{SPENDING}::test_no_share_can_spend_the_others",),
    ),
    Mutant(
        "budget-not-checked",
        "a release is reserved beyond what its dataset has left",
        RESERVATIONS,
        "    if asked <= left:\n",
        "    if True:\n",
        ("tests/privacy/test_ledger.py",),
    ),
    Mutant(
        "charged-release-superseded",
        "a changed specification takes back what was reserved for one that has drawn",
        RESERVATIONS,
        "for other, states in versions.items() if not any(_charged(states))}",
        "for other, states in versions.items()}",
        ("tests/privacy/test_ledger_policy.py",),
    ),
    Mutant(
        "charged-release-opened-again",
        "a release that has drawn and ended draws anew under the same key",
        RESERVATIONS,
        "    return not any(_charged(shares)) and all(",
        "    return all(",
        ("tests/privacy/test_ledger.py",),
    ),
    Mutant(
        "whole-forgotten-beside-partitions",
        "disjoint partitions hide what was released of all the data",
        POLICY,
        'return by_partition.get("", 0) + largest',
        "return largest",
        ("tests/privacy/test_ledger_policy.py",),
    ),
    Mutant(
        "reservation-counts-when-charged",
        "a budget that renews forgets what was reserved in this period",
        POLICY,
        "if period is None or policy.period_of(one.at) == period:",
        "if period is None or (one.spent and policy.period_of(one.at) == period):",
        ("tests/privacy/test_ledger_policy.py",),
    ),
    Mutant(
        "partitions-always-in-parallel",
        "a person who is replaced may move between partitions and change two tables",
        "jam_dagster/privacy/balance.py",
        'if not partition or self.policy.partitions == "add":',
        "if not partition:",
        ("tests/privacy/test_ledger_policy.py",),
    ),
    Mutant(
        "charges-rounded-down",
        "sums of charges creep past the budget",
        ACCOUNTING,
        "return math.ceil(_exact(rho) * UNITS_PER_RHO)",
        "return math.floor(_exact(rho) * UNITS_PER_RHO)",
        ("tests/privacy/test_accounting.py",),
    ),
    Mutant(
        "chain-not-checked",
        "an event that was cut out or altered is not noticed",
        AUDIT,
        "    if event.hash != event.seal():\n",
        "    if False:\n",
        ("tests/privacy/test_ledger_audit.py",),
    ),
    Mutant(
        "epsilon-0-accepted",
        "a budget of nothing becomes a budget of something",
        ACCOUNTING,
        "epsilon, delta = check_epsilon(epsilon), check_delta(delta)",
        "epsilon, delta = epsilon or 1.0, check_delta(delta)",
        (f"{SPENDING}::test_no_budget_at_all_is_refused_and_draws_nothing", *QUICK),
    ),
    Mutant(
        "nan-passes",
        "a statistic that is no number is drawn from",
        "jam_dagster/privacy/noise.py",
        "wrong = int(array.size - np.isfinite(array).sum())",
        "wrong = 0",
        ("tests/privacy/test_noise.py", "-k", "no_statistics"),
    ),
    Mutant(
        "seeded-noise-may-leave",
        "what was made with a seed is labelled releasable",
        SEEDED,
        '"""False: a seed can be guessed, and floating-point noise leaks."""\n        return False',
        '"""False: a seed can be guessed, and floating-point noise leaks."""\n        return True',
        ("tests/privacy/test_noise.py", "-k", "labels"),
    ),
    Mutant(
        "private-domain-not-marked",
        "a domain from private rows passes for a public one",
        "jam_dagster/tables/identification.py",
        'identified_from="public" if private is None else "private"',
        'identified_from="public"',
        ("tests/tables/test_identification.py",),
    ),
    Mutant(
        "restricted-label-dropped",
        "what is restricted reaches what may leave, and the graph lets it",
        LABELS,
        "    return {**arriving, label: (name,)}",
        "    return {}",
        ("tests/pipeline/test_labels.py",),
    ),
    Mutant(
        "nulls-filled-from-the-column",
        "a missing value takes the first value of the private column",
        DISCRETIZATION,
        "        codes[null] = attribute.null_code\n",
        "        codes[null] = codes[~null][0] if len(codes[~null]) else attribute.null_code\n",
        ("tests/tables/test_one_record.py",),
    ),
    Mutant(
        "values-in-errors",
        "the message of a private table's error quotes values",
        DISCRETIZATION,
        '    if private:\n        return ""\n    values',
        "    values",
        ("tests/tables/test_private_errors.py",),
    ),
    Mutant(
        "errors-not-withheld",
        "an error of a library passes as it is",
        "jam_dagster/tables/withheld.py",
        "if isinstance(error, JamError) or not isinstance(error, Exception):",
        "if isinstance(error, Exception):",
        ("tests/tables/test_withheld.py",),
    ),
    Mutant(
        "preview-of-private-rows",
        "rows of the private table in the event log",
        INGESTION,
        'metadata: dict[str, Any] = {"source": spec.private.describe()}',
        'metadata = {"source": spec.private.describe(), "preview": preview(table)}',
        ("tests/pipeline/test_leak_canary.py::test_failure_leaks_nothing", *QUICK),
    ),
    Mutant(
        "rows-cut-after-the-fact",
        "one person keeps more rows than the noise is made for",
        INGESTION,
        "table = spec.privacy.unit.build().limit(table, _row_key(graph, context))",
        "spec.privacy.unit.build().limit(table, _row_key(graph, context))",
        ("tests/pipeline/test_privacy_unit.py", *QUICK),
    ),
    Mutant(
        "private-row-count",
        "the number of rows in the event log where it is private",
        INGESTION,
        '        if graph.neighbours.records_public:\n            metadata["dagster',
        '        if True:\n            metadata["dagster',
        ("tests/pipeline/test_privacy_unit.py", *QUICK),
    ),
    Mutant(
        "rows-chosen-by-the-whole-table",
        "one row more, and other rows of everybody are kept",
        PRIVACY_UNIT,
        "_tickets(texts[person], int(rows[person]), key)",
        "_tickets(texts[person], int(rows[person]), key + str(len(persons)).encode())",
        ("tests/tables/test_privacy_unit.py", "tests/privacy/test_ingested_sensitivity.py"),
    ),
    Mutant(
        "rows-kept-for-another-limit",
        "noise for two rows a person, on a table that holds three",
        IDENTITY,
        "return cls(str(privacy.edition), partition, limit)",
        "return cls(str(privacy.edition), partition)",
        ("tests/pipeline/test_privacy_unit.py", "-k", "another_limit"),
    ),
    Mutant(
        "private-row-count-in-the-archive",
        "the number of rows beside the outcomes, where it is private",
        ARCHIVE,
        "private_rows = private.records if neighbours.records_public else None",
        "private_rows = private.records",
        ("tests/pipeline/test_privacy_unit.py", *QUICK),
    ),
    Mutant(
        "private-row-count-in-the-folder",
        "the number of rows in the description of a release, where it is private",
        SYNTHESIS,
        "public_n = private.records if protection.neighbours.records_public else None",
        "public_n = private.records",
        ("tests/test_cli_privacy_unit.py", *QUICK),
    ),
    Mutant(
        "seeded-noise-certified",
        "a certificate takes any noise for exact",
        "jam_dagster/certificates/wording.py",
        'exact = certificate.noise == "exact"',
        "exact = True",
        ("tests/certificates/test_page.py", *QUICK),
    ),
    Mutant(
        "certified-noise-unpaid",
        "a certificate whose noise is less than was paid for is verified",
        "jam_dagster/certificates/draw_faults.py",
        "-_CLOSE <= _noisier(call) <= _MORE_NOISE",
        "True",
        ("tests/certificates/test_verification.py", *QUICK),
    ),
    Mutant(
        "certified-table-unseen",
        "a certificate is verified whatever the table holds",
        "jam_dagster/certificates/verification.py",
        'if table_digest(table) != held.certificate.files["table"].sha256:',
        "if False:",
        ("tests/certificates/test_verification.py", *QUICK),
    ),
    Mutant(
        "rounds-timed-in-public",
        "the transcript tells how long each round took to count",
        "jam_dagster/mechanisms/transcript.py",
        'if k not in ("measurement", "seconds")',
        'if k != "measurement"',
        (f"{BY_HAND}::test_how_long_a_round_took_is_not_kept",),
    ),
    Mutant(
        "certified-without-a-charge",
        "a certificate lists a draw that nobody paid for",
        "jam_dagster/certificates/charges.py",
        "for share, step in sorted(drawn.keys() - charged.keys()):",
        "for share, step in ():",
        CERTIFICATES,
    ),
    Mutant(
        "certified-with-too-little-noise",
        "a certificate does not ask which sensitivity the neighbours have",
        "jam_dagster/certificates/draw_faults.py",
        "elif not math.isclose(call.sensitivity, wanted, rel_tol=_CLOSE):",
        "elif False:",
        CERTIFICATES,
    ),
    Mutant(
        "certified-files-not-compared",
        "a certificate goes with any file",
        "jam_dagster/certificates/verification.py",
        "elif sha256_of(path) != held.certificate.files[name].sha256:",
        "elif not sha256_of(path):",
        CERTIFICATES,
    ),
    Mutant(
        "two-means-as-one",
        "the errors of two tables are measured with the noise of one",
        "jam_dagster/evaluation/workload_error.py",
        "means=len(errors)",
        "means=1",
        ("tests/evaluation/test_workload_error.py", *QUICK),
    ),
    Mutant(
        "delta-of-one-in-n",
        "a delta that lets a record be published goes without a warning",
        "jam_dagster/pipeline/synthesis.py",
        "    if warnings:\n",
        "    if False:\n",
        ("tests/pipeline/test_event_log.py::test_a_doubtful_configuration_is_warned_of",),
    ),
    Mutant(
        "overflow-of-a-number",
        "a number beyond floats ends in a traceback of Python's",
        "jam_dagster/pipeline/specification.py",
        "except (TypeError, ValueError, OverflowError):",
        "except (TypeError, ValueError):",
        ("tests/battery/test_hostile.py::test_what_was_found_before",),
    ),
)
