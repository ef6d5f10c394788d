"""What must hold after every kill, and at the end, by the tally and not by what is tested."""

from __future__ import annotations

from dataclasses import dataclass

from jam_dagster.errors import DamagedOutcomeError
from jam_dagster.privacy import Event, Kind
from tests.torture.tally import Line
from tests.torture.victims import Victim


class ViolationError(AssertionError):
    """The ledger, the store and the tally do not agree."""


@dataclass(frozen=True)
class State:
    """What a victim's tally, ledger and store hold between two runs."""

    lines: tuple[Line, ...]
    events: tuple[Event, ...]
    stored: frozenset[str]

    @classmethod
    def of(cls, victim: Victim) -> State:
        """Read everything; a journal that does not verify raises."""
        events: tuple[Event, ...] = ()
        if victim.has_ledger:
            victim.ledger.verify()
            events = tuple(victim.ledger.events(victim.dataset))
        lines = tuple(victim.tally.lines())
        # An outcome can be stored and its line not be written yet: ask for all that was drawn.
        steps = {line.step for line in lines if line.what == "drawn"}
        return cls(lines, events, frozenset(step for step in steps if _stored(victim, step)))

    def drawn(self) -> list[Line]:
        return [line for line in self.lines if line.what == "drawn"]

    def charges(self) -> dict[str, int]:
        charged = [event for event in self.events if event.kind == Kind.CHARGED]
        _demand(len({event.step for event in charged}) == len(charged), "a step was charged twice")
        return {event.step: event.units for event in charged}

    def journalled(self) -> set[str]:
        """The draws of whose outcomes the ledger has a digest."""
        return {event.step for event in self.events if event.kind == Kind.STORED}

    def by_share(self, kind: Kind) -> dict[str, int]:
        totals: dict[str, int] = {}
        for event in self.events:
            if event.kind == kind:
                totals[event.share] = totals.get(event.share, 0) + event.units
        return totals


def _stored(victim: Victim, step: str) -> bool:
    try:
        return victim.store.get(step) is not None
    except (OSError, DamagedOutcomeError) as error:
        raise ViolationError(f"the outcome of {step} cannot be read: {error}") from error


def judge(victim: Victim, before: State) -> tuple[State, int]:
    """Judge what a run did, whether it was killed or finished.

    Parameters
    ----------
    victim
        The release.
    before
        Its state before the run.

    Returns
    -------
    tuple of State and int
        Its state now, and by how many units the ledger has charged more than was drawn.

    Raises
    ------
    ViolationError
        If anything was drawn that is not charged, or made or paid again although it is stored.
    """
    now = State.of(victim)
    charges, prices = now.charges(), {}
    for line in now.drawn():
        _demand(line.step in charges, f"{line.step} was drawn and never charged")
        _demand(
            charges[line.step] >= line.units,
            f"{line.step} was charged {charges[line.step]} and cost {line.units}",
        )
        prices[line.step] = line.units
    _check_repeats(now)
    spent, truth = sum(charges.values()), sum(prices.values())
    _demand(spent >= truth, f"the ledger charged {spent}, the draws cost {truth}")
    reserved = now.by_share(Kind.RESERVED)
    for share, units in now.by_share(Kind.CHARGED).items():
        _demand(units <= reserved.get(share, 0), f"{share} was charged beyond its reservation")
    for line in now.lines:
        _demand(
            line.what != "stored" or line.step in now.stored, f"{line.step} was stored and is gone"
        )
    made = {line.step for line in now.lines[len(before.lines) :] if line.what == "drawn"}
    _demand(not made & before.stored, f"{made & before.stored} were stored and drawn again")
    charged = (event for event in now.events if event.kind == Kind.CHARGED)
    paid = {event.step for event in charged if event not in before.events}
    for step in now.journalled():
        _demand(step in now.stored, f"the outcome of {step} is journalled and is not stored")
    _demand(not paid & before.stored, f"{paid & before.stored} were stored and charged again")
    _demand(now.lines[: len(before.lines)] == before.lines, "the tally was rewritten")
    _demand(now.events[: len(before.events)] == before.events, "the journal was rewritten")
    return now, spent - truth


def _check_repeats(now: State) -> None:
    """Exact noise never draws a step twice; seeded noise may, and must say the same."""
    seen: dict[str, Line] = {}
    for line in now.drawn():
        first = seen.setdefault(line.step, line)
        _demand(first is line or line.repeats, f"{line.step} was drawn twice")
        _demand(first.digest == line.digest, f"{line.step} was repeated and came out otherwise")


def judge_end(victim: Victim, state: State) -> dict[str, str]:
    """Judge a release that has ended, and return the digests of what it left."""
    # What was stored and not journalled may be anybody's: it is lost.
    missing = sorted(state.stored - state.journalled() - victim.lost())
    _demand(not missing, f"the outcomes of {missing} are stored and not journalled")
    balance = victim.ledger.balance(victim.dataset)
    _demand(balance.reserved_units == 0, "something is still reserved after the end")
    charged, returned = state.by_share(Kind.CHARGED), state.by_share(Kind.RETURNED)
    for share, units in state.by_share(Kind.RESERVED).items():
        _demand(
            charged.get(share, 0) + returned.get(share, 0) == units,
            f"of share {share} not all was charged or returned",
        )
    faults = victim.certificate_faults()
    _demand(not faults, f"the certificate does not hold: {faults}")
    by_transcript, by_ledger = victim.transcript().rho_spent * 1e15, charged.get("mechanism", 0)
    _demand(
        # Each charge is rounded up to a unit, and large amounts lie further apart than units.
        abs(by_transcript - by_ledger) <= len(state.events) + by_ledger * 2.0**-51,
        f"the transcript tells of {by_transcript:.0f} units, the ledger of {by_ledger}",
    )
    return victim.results()


def judge_repetition(victim: Victim, before: State, results: dict[str, str]) -> None:
    """Judge a run after the end: it must draw nothing, charge nothing, and make the same."""
    now, _ = judge(victim, before)
    _demand(now.events == before.events, "a run after the end wrote to the ledger")
    _demand(now.lines == before.lines, "a run after the end drew or stored something")
    again = victim.results()
    changed = sorted(name for name in results | again if results.get(name) != again.get(name))
    _demand(not changed, f"a run after the end made another {', '.join(changed)}")


def _demand(holds: bool, otherwise: str) -> None:
    if not holds:
        raise ViolationError(otherwise)
