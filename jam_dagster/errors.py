"""The errors that users meet, one class per cause.

Every message names the thing that is wrong and the remedy, and never holds a value, or a
statistic, of a private table: what is raised lands in logs that many people read. A failure that
depends on values of a private table is an answer about them, so its message names nothing.
"""

WHERE_DETAILS_ARE = (
    "Details are written for the owner of the private data alone: in Dagster to the folder "
    "failures/ of the release in the private store, on the command line to restricted/failures/ "
    "of the release's folder."
)
"""Where the owner of private data finds what an error does not say."""


class JamError(Exception):
    """Base of all errors raised on purpose by this package."""

    key: str = ""
    """The key of a release's file that the error concerns; empty if none is known."""


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


class PrivateValuesError(InputError):
    """Values of a private table do not fit; the message is the same for every such fault.

    `common.redaction.private_values` raises it, or its caller a new one, with neither cause nor
    context. Its arguments, such as those of a copy of it, are not kept.
    """

    def __init__(self, *_: object) -> None:
        super().__init__(
            "The private table does not fit: a value, a combination of values, a missing value or "
            "the number of rows is not one that the domain, the privacy unit or the source's "
            "options allow. Which it is depends on private values, so this message is always "
            "the same. "
            f"{WHERE_DETAILS_ARE} Compare the table with its domain, mend the table, and run again."
        )


class PlatformError(InputError):
    """The operating system lacks what a ledger needs; nothing was charged."""


class BudgetError(JamError):
    """The privacy budget, or the ledger that keeps it, does not allow what was asked."""


class BudgetExceededError(BudgetError):
    """A release or a draw asks for more than is left."""


class NotApprovedError(BudgetError):
    """A release waits for a privacy officer's approval; nothing was reserved."""


class ChargedBeforeError(BudgetError):
    """A draw was charged before; nothing was charged again."""


class LostDrawError(BudgetError):
    """A draw was charged, and its outcome was never stored or confirmed; it counts as spent."""


class ReleaseClosedError(BudgetError):
    """A release that has ended was asked to draw again."""


class AttemptsError(BudgetError):
    """Too many attempts to open a dataset's private data have not ended well, or paid nothing."""


class SourceBindingError(BudgetError):
    """A release would read another source than the one that its reservation is bound to."""


class LedgerIntegrityError(BudgetError):
    """The journal of a ledger does not add up: it was altered or damaged."""


class DamagedOutcomeError(LedgerIntegrityError):
    """The file of a stored outcome cannot be read: it was altered or damaged."""


class PrivacyLabelError(JamError):
    """The asset graph would let something private reach something releasable uncharged."""


class PrivateStepError(JamError):
    """A step that holds private values failed; the details are withheld."""


class FullDiskError(JamError):
    """The disk of a release's files has no room; what was stored stays, and is not paid again."""


class EmptyCandidateSetError(JamError):
    """No marginal fits the model size limit in the first round; nothing was charged."""
