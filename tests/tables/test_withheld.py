import traceback

import pytest

from jam_dagster.errors import InputError, PrivateStepError
from jam_dagster.tables import withheld

SENTINEL = "sentinel-7f3a"


def failing(kind, message=f"could not convert {SENTINEL}"):
    try:
        raise KeyError(SENTINEL)
    except KeyError as error:
        raise kind(message) from error


def shown(error):
    return "".join(traceback.format_exception(error)) + repr(error) + str(error)


def test_an_unexpected_error_loses_its_message_and_its_chain():
    with pytest.raises(PrivateStepError) as caught, withheld("encoding attribute 'age'"):
        failing(ValueError)
    assert SENTINEL not in shown(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None
    assert "encoding attribute 'age' failed with builtins.ValueError at" in str(caught.value)
    assert f"{__file__}:{failing.__code__.co_firstlineno + 4}" in str(caught.value)


def test_nothing_that_the_traceback_holds_leads_to_the_original_error():
    with pytest.raises(PrivateStepError) as caught, withheld("a step"):
        failing(ValueError)
    trace = caught.value.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_name == "__exit__":
            held = trace.tb_frame.f_locals.values()
            assert not any(isinstance(value, ValueError) for value in held)
        trace = trace.tb_next


@pytest.mark.parametrize("kind", [InputError, KeyboardInterrupt])
def test_own_errors_and_interrupts_pass_without_their_chain(kind):
    with pytest.raises(kind) as caught, withheld("a step"):
        failing(kind, "what is wrong")
    assert str(caught.value) == "what is wrong"
    assert SENTINEL not in shown(caught.value)
    assert caught.value.__context__ is None


def test_an_error_inside_an_outer_handler_is_not_chained_to_it():
    try:
        raise KeyError(SENTINEL)
    except KeyError:
        with pytest.raises(PrivateStepError) as caught, withheld("a step"):
            failing(ValueError)
    assert SENTINEL not in shown(caught.value)


def test_it_decorates_functions_and_lets_results_through():
    @withheld("a step")
    def twice(number):
        return 2 * number

    assert twice(2) == 4
    with pytest.raises(PrivateStepError, match="TypeError"):
        twice(None)
