import errno
import os
import pickle
import tempfile
import traceback

import pytest

from jam_dagster.common.redaction import keeping_details, private_values, redacted
from jam_dagster.errors import (
    BudgetError,
    BudgetExceededError,
    InputError,
    OutsideDomainError,
    PrivateStepError,
    PrivateValuesError,
    SpecificationError,
)
from jam_dagster.privacy import UnledgeredAccount
from jam_dagster.privacy.accounting import check_rho
from jam_dagster.privacy.ledger.release_id import check_name
from tests.full_disk import files_of_at_most

SENTINEL = "sentinel-7f3a"


def failing(kind, message=f"could not convert {SENTINEL}"):
    try:
        raise KeyError(SENTINEL)
    except KeyError as error:
        raise kind(message) from error


def shown(error):
    return "".join(traceback.format_exception(error)) + repr(error) + str(error)


def test_an_unexpected_error_loses_its_message_and_its_chain():
    with pytest.raises(PrivateStepError) as caught, redacted("reading the table"):
        failing(ValueError)
    assert SENTINEL not in shown(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None
    # Which error it was, and where, can depend on a value as well.
    assert str(caught.value).startswith("reading the table failed; the cause is withheld")
    assert "ValueError" not in str(caught.value)
    assert __file__ not in str(caught.value)


def test_nothing_that_the_traceback_holds_leads_to_the_original_error():
    with pytest.raises(PrivateStepError) as caught, redacted("a step"):
        failing(ValueError)
    trace = caught.value.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_name == "__exit__":
            held = trace.tb_frame.f_locals.values()
            assert not any(isinstance(value, ValueError) for value in held)
        trace = trace.tb_next


def test_interrupts_pass_without_their_chain():
    with pytest.raises(KeyboardInterrupt) as caught, redacted("a step"):
        failing(KeyboardInterrupt, "what is wrong")
    assert str(caught.value) == "what is wrong"
    assert SENTINEL not in shown(caught.value)
    assert caught.value.__context__ is None


def test_errors_that_this_package_raises_pass_without_their_chain():
    try:
        raise KeyError(SENTINEL)
    except KeyError:
        with pytest.raises(SpecificationError, match="rho must be") as caught, redacted("a step"):
            check_rho(-1.0)
    assert SENTINEL not in shown(caught.value)
    assert caught.value.__context__ is None


def quoted():
    """Raise an error whose text is this package's, about a value of another's."""
    check_name(f"{SENTINEL}\0", "the step")


@pytest.mark.parametrize("kind", [InputError, BudgetError, PrivateStepError])
def test_the_classes_of_this_package_have_no_more_to_say_in_another_s_code(kind):
    with pytest.raises(PrivateStepError, match="a step failed") as caught, redacted("a step"):
        failing(kind)
    assert SENTINEL not in shown(caught.value)


def test_what_another_s_code_passes_is_not_quoted():
    with pytest.raises(SpecificationError, match=SENTINEL):
        quoted()
    with pytest.raises(PrivateStepError, match="a step failed") as caught, redacted("a step"):
        quoted()
    assert SENTINEL not in shown(caught.value)


def test_a_refusal_of_the_ledger_passes_through_another_s_code_without_its_notes():
    def drawing():
        try:
            UnledgeredAccount(0.5).charge("a", 1.0)
        except BudgetExceededError as error:
            error.add_note(SENTINEL)
            raise

    with pytest.raises(BudgetExceededError, match="asks for") as caught, redacted("a step"):
        drawing()
    assert SENTINEL not in shown(caught.value)


def test_an_error_inside_an_outer_handler_is_not_chained_to_it():
    try:
        raise KeyError(SENTINEL)
    except KeyError:
        with pytest.raises(PrivateStepError) as caught, redacted("a step"):
            failing(ValueError)
    assert SENTINEL not in shown(caught.value)


def test_it_decorates_functions_and_lets_results_through():
    @redacted("a step")
    def twice(number):
        return 2 * number

    assert twice(2) == 4
    with pytest.raises(PrivateStepError, match="a step failed"):
        twice(None)


@pytest.mark.parametrize(
    "number", [errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.EROFS], ids=errno.errorcode.get
)
def test_a_fault_of_the_disk_is_named_and_nothing_else_of_it(number):
    with pytest.raises(PrivateStepError) as caught, redacted("a step"):
        raise OSError(number, f"of {SENTINEL}", f"/store/{SENTINEL}")
    assert f"The system says: {os.strerror(number)}." in str(caught.value)
    assert SENTINEL not in shown(caught.value)


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EIO])
def test_a_temporary_folder_without_room_is_named(number):
    place = f"{tempfile.gettempdir()}/{SENTINEL}"
    with pytest.raises(PrivateStepError) as caught, redacted("a step"):
        raise OSError(number, SENTINEL, place)
    remedy = f"Free some room in {tempfile.gettempdir()}, or set TMPDIR, and run again."
    assert (remedy in str(caught.value)) is (number != errno.EIO)
    assert SENTINEL not in shown(caught.value)


def test_nothing_more_is_known_of_a_fault_if_no_temporary_folder_has_room(monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", None)
    with files_of_at_most(0), pytest.raises(PrivateStepError) as caught, redacted("a step"):
        raise OSError(errno.ENOSPC, SENTINEL, f"/store/{SENTINEL}")
    assert "Check the space on the disk" in str(caught.value)
    assert SENTINEL not in shown(caught.value)


@pytest.mark.parametrize(
    "error",
    [OSError(errno.ENOENT, SENTINEL, SENTINEL), OSError(SENTINEL), ValueError(errno.ENOSPC)],
    ids=["another number", "no number", "another kind"],
)
def test_other_faults_stay_withheld(error):
    with pytest.raises(PrivateStepError) as caught, redacted("a step"):
        raise error
    assert "The system says" not in str(caught.value)
    assert SENTINEL not in shown(caught.value)


def test_details_go_to_whoever_keeps_them():
    kept = []
    with (
        pytest.raises(PrivateValuesError),
        keeping_details(kept.append),
        redacted("the outer step"),
        private_values(),
        redacted("reading the table"),
    ):
        failing(ValueError)
    (details,) = kept
    assert details.startswith("reading the table\n")
    assert f"ValueError: could not convert {SENTINEL}" in details
    assert f"KeyError: '{SENTINEL}'" in details
    with pytest.raises(PrivateStepError), redacted("a step"):
        failing(ValueError)
    assert len(kept) == 1


def test_an_error_that_cannot_be_explained_is_still_the_error():
    def full(text):
        raise OSError("no space left")

    with pytest.raises(PrivateValuesError), keeping_details(full), private_values():
        failing(ValueError)


@pytest.mark.parametrize("kind", [ValueError, InputError, OutsideDomainError, OSError])
def test_whatever_depends_on_private_values_is_one_error(kind):
    messages = []
    for action in (with_values, each_line):
        with pytest.raises(PrivateValuesError) as caught, redacted("a step"):
            action(kind)
        assert caught.value.__cause__ is None
        assert caught.value.__context__ is None
        messages.append(shown(caught.value))
    assert messages[0] == messages[1]
    assert SENTINEL not in messages[0]
    assert kind.__name__ not in messages[0]


def each_line(kind):
    with_values(kind)


@private_values()
def with_values(kind):
    failing(kind)


def test_interrupts_pass_where_values_are_in_hand():
    with pytest.raises(KeyboardInterrupt) as caught, private_values():
        failing(KeyboardInterrupt)
    assert caught.value.__context__ is None


def test_a_copy_of_the_error_says_the_same():
    error = PrivateValuesError(SENTINEL)
    assert str(error) == str(PrivateValuesError()) == str(pickle.loads(pickle.dumps(error)))
    assert SENTINEL not in repr(vars(error)) + repr(error)
