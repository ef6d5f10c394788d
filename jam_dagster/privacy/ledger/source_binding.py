"""The binding of a release to its source, as the journal has it: a record of keyed digests."""

from __future__ import annotations

import hashlib
import hmac
import json
import re
from dataclasses import asdict, dataclass, fields, replace

from jam_dagster.errors import LedgerIntegrityError
from jam_dagster.privacy.ledger.journal import Event
from jam_dagster.privacy.ledger.release_id import canonical_json
from jam_dagster.tables.sources.identity import places_in

_SECRET = re.compile(r"[0-9a-f]{16}")
_DIGEST = re.compile(r"([0-9a-f]{64})?")
_NAMED = re.compile(r"([0-9a-f]{16}):([0-9a-f]{64})")


@dataclass(frozen=True)
class SourceBinding:
    """The source of a release by digests that a secret keys; without it they reveal nothing.

    A digest of nothing is empty. The officer lets a source go, and leaves the others.

    Parameters
    ----------
    secret : str
        The id of the secret. Digests under two secrets cannot be compared.
    source : str
        The digest of the identity of the source.
    places : tuple of str
        The digests of the files or queries of its tables, for any user and spelling.
    template : str
        The digest of the identity with an open partition, if an officer has to vouch for it.
    table : str
        The digest of the table of which it is a partition.
    """

    secret: str
    source: str = ""
    places: tuple[str, ...] = ()
    template: str = ""
    table: str = ""

    @classmethod
    def of(
        cls, secret: bytes, identity: str, *, template: str = "", table: str = ""
    ) -> SourceBinding:
        """Return the binding to a source of an identity, by the bytes of the secret."""
        return cls(
            hashlib.sha256(b"jam source key\0" + secret).hexdigest()[:16],
            _keyed(secret, identity),
            tuple(sorted({_keyed(secret, place) for place in places_in(identity)})),
            _keyed(secret, template) if template else "",
            _keyed(secret, table) if table else "",
        )

    @classmethod
    def to_table(cls, name: str) -> SourceBinding:
        """Return the binding to a table without a source, from the name of the table."""
        secret, table = name.split(":")
        return cls(secret, table=table)

    @classmethod
    def parse(cls, text: str) -> SourceBinding:
        """Return the binding that a text is, or raise ValueError with what is wrong."""
        try:
            content = json.loads(text)
        except (ValueError, RecursionError):
            raise ValueError("it is no JSON") from None
        names = [field.name for field in fields(cls)]
        if not isinstance(content, dict) or sorted(content) != sorted(names):
            raise ValueError(f"it is no object with the fields {', '.join(names)}")
        places = content["places"]
        if not isinstance(places, list):
            raise ValueError("its places are no list")
        digests = [content["source"], content["template"], content["table"], *places]
        whole = all(isinstance(one, str) and _DIGEST.fullmatch(one) for one in digests)
        secret = content["secret"]
        if not (whole and all(places) and isinstance(secret, str) and _SECRET.fullmatch(secret)):
            raise ValueError("its fields are no digests")
        binding = cls(**{**content, "places": tuple(places)})
        if binding.text != text:
            raise ValueError("its JSON has another form")
        return binding

    @property
    def text(self) -> str:
        """The binding as the journal has it: canonical JSON."""
        return canonical_json(asdict(self))

    @property
    def template_name(self) -> str:
        """The template as people name it, with the id of its secret; empty if there is none."""
        return f"{self.secret}:{self.template}" if self.template else ""

    @property
    def table_name(self) -> str:
        """The table as people name it, or the source if it is no partition."""
        return f"{self.secret}:{self.table or self.source}"

    def let_go(self) -> SourceBinding:
        """Return the binding without its source: the release stays of its table."""
        return replace(self, source="", places=(), table=self.table or self.source)

    def reads_same(self, other: SourceBinding) -> bool:
        """Return whether both are bound to one source."""
        return bool(self.source) and (self.secret, self.source) == (other.secret, other.source)

    def is_of_table(self, other: SourceBinding) -> bool:
        """Return whether both are of one table, as far as it is known."""
        return self.reads_same(other) or self.table_name == other.table_name

    def may_share_place(self, other: SourceBinding) -> bool:
        """Return whether both may have a table of one place; a source that was let go has none."""
        if not (self.source and other.source):
            return False
        return self.secret != other.secret or not {*self.places}.isdisjoint(other.places)


def _keyed(secret: bytes, text: str) -> str:
    message = b"jam source\0" + text.encode("utf-8", "surrogatepass")
    return hmac.new(secret, message, "sha256").hexdigest()


def is_digest_name(text: str) -> bool:
    """Return whether a text names a template or a table as a refusal shows it."""
    return _NAMED.fullmatch(text) is not None


def binding_of(event: Event) -> SourceBinding | None:
    """Return the binding of a reservation or of an event that binds; None if it has none.

    Raises
    ------
    LedgerIntegrityError
        If its source is no binding.
    """
    if not event.source:
        return None
    try:
        return SourceBinding.parse(event.source)
    except ValueError as error:
        raise LedgerIntegrityError(
            f"event {event.seq} of the ledger names a source that is no binding of this version: "
            f"{error}. Read the ledger with the version that wrote it; if jam-dagster did not write"
            " it, only the ledger's owner can repair it, from a backup"
        ) from error
