"""The errors that users meet, one class per cause.

Every message names the thing that is wrong and the remedy, and never holds a value, or a
statistic, of a private table: what is raised lands in logs that many people read.
"""


class JamError(Exception):
    """Base of all errors raised on purpose by this package."""


class InputError(JamError, ValueError):
    """Something the user gave is wrong; nothing was charged."""


class SpecificationError(InputError):
    """A parameter or a key of the configuration is unknown, missing or out of range."""


class DomainError(InputError):
    """A domain is not well formed, or does not fit the table."""


class OutsideDomainError(DomainError):
    """A table holds a value that its domain does not."""


class SourceError(InputError):
    """A table cannot be found or read."""


class BudgetError(JamError):
    """The privacy budget, or the ledger that keeps it, does not allow what was asked."""


class BudgetExceededError(BudgetError):
    """A release or a draw asks for more than is left."""


class LostDrawError(BudgetError):
    """A draw was charged, but its outcome was never stored; it counts as spent."""


class ReleaseClosedError(BudgetError):
    """A release that has ended was asked to draw again."""


class LedgerIntegrityError(BudgetError):
    """The journal of a ledger does not add up: it was altered or damaged."""


class PrivacyLabelError(JamError):
    """The asset graph would let something private reach something releasable uncharged."""


class PrivateStepError(JamError):
    """A step that holds private values failed; the details are withheld."""


class EmptyCandidateSetError(JamError):
    """No marginal fits the model size limit in the first round; nothing was charged."""
