"""Signatures of certificates with Ed25519, and their verification.

The private half of a key is outside of ledger and stores: in a file that only its owner may
read, or in the environment. `cryptography` is loaded on the first use of a key.
"""

from __future__ import annotations

import base64
import binascii
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jam_dagster.certificates.certificate import Certificate
from jam_dagster.certificates.facts import Signature
from jam_dagster.common.operating_system import sync_file
from jam_dagster.errors import InputError
from jam_dagster.privacy.ledger.release_id import canonical_json

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

ALGORITHM = "Ed25519"

VARIABLE = "JAM_SIGNING_KEY"
"""The environment variable that holds a private key, or names the file of one."""

_PEM = "-----BEGIN"
_OTHERS = stat.S_IRWXG | stat.S_IRWXO


@dataclass(frozen=True)
class Signer:
    """A private key that signs certificates.

    The private key is never shown; the public one is 32 bytes in base64.
    """

    _private: Ed25519PrivateKey
    public: str

    def __repr__(self) -> str:
        return f"Signer({self.public})"

    def __reduce__(self) -> tuple[Any, ...]:
        raise TypeError("a private key is not pickled: load it where it is needed")

    @classmethod
    def of(cls, private: Ed25519PrivateKey) -> Signer:
        """Return the signer of a private key."""
        raw = private.public_key().public_bytes_raw()
        return cls(private, base64.b64encode(raw).decode())

    @classmethod
    def new(cls, path: Path) -> Signer:
        """Make a key pair; the private half goes to a new file that only its owner may read."""
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
        from cryptography.hazmat.primitives.serialization import (
            Encoding,
            NoEncryption,
            PrivateFormat,
        )

        private = Ed25519PrivateKey.generate()
        pem = private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        try:
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
            with os.fdopen(os.open(path, flags, 0o600), "wb") as file:
                file.write(pem)
                file.flush()
                sync_file(file.fileno())
        except FileExistsError:
            raise InputError(
                f"{path} exists: a key is never overwritten, name a new file."
            ) from None
        except OSError as error:
            raise InputError(f"{path} cannot be written ({error.strerror}).") from None
        return cls.of(private)

    @classmethod
    def load(cls, given: str) -> Signer:
        """Return the signer of a key, given as PEM text or as the path of a PEM file."""
        from cryptography.exceptions import UnsupportedAlgorithm
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
        from cryptography.hazmat.primitives.serialization import load_pem_private_key

        # Neither is quoted: the text of a path may be a key without its first line.
        called = "the signing key"
        text = given.encode() if _PEM in given else _read_private(Path(given).expanduser())
        try:
            private = load_pem_private_key(text, password=None)
        except (ValueError, TypeError, UnsupportedAlgorithm):
            # The library's message may quote the key.
            raise InputError(
                f"{called} cannot be read: give an Ed25519 private key in PEM, without a password, "
                "such as `jam-dagster ledger key new` makes."
            ) from None
        if not isinstance(private, Ed25519PrivateKey):
            raise InputError(f"{called} is of another kind: give an {ALGORITHM} key.")
        return cls.of(private)

    def sign(self, certificate: Certificate) -> Certificate:
        """Return a certificate with this key's signature, in place of any other."""
        value = base64.b64encode(self._private.sign(signed_bytes(certificate.to_dict()))).decode()
        return replace(certificate, signature=Signature(self.public, ALGORITHM, value))


def configured_signer(given: str | None) -> Signer | None:
    """Return the given signer, else that of the environment, else None."""
    given = given or os.environ.get(VARIABLE)
    return Signer.load(given) if given else None


def signed_bytes(document: Mapping[str, Any]) -> bytes:
    """Return the signed content: a document without signature and seal, in canonical JSON."""
    signed = {name: value for name, value in document.items() if name not in ("signature", "seal")}
    return canonical_json(signed).encode()


def signature_holds(document: Mapping[str, Any], signature: Signature) -> bool:
    """Return whether a signature on a document is valid for its key."""
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    if signature.algorithm != ALGORITHM:
        return False
    try:
        key = Ed25519PublicKey.from_public_bytes(base64.b64decode(signature.key, validate=True))
        key.verify(base64.b64decode(signature.value, validate=True), signed_bytes(document))
    except (InvalidSignature, binascii.Error, ValueError):
        return False
    return True


def public_pem(public: str) -> str:
    """Return a public key as PEM, for verification without a ledger."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    key = Ed25519PublicKey.from_public_bytes(base64.b64decode(public))
    return key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()


def read_public(path: Path) -> str:
    """Return the public key of a PEM file: 32 bytes in base64."""
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    try:
        key = load_pem_public_key(path.read_bytes())
    except OSError as error:
        raise InputError(f"{path} cannot be read ({error.strerror}).") from None
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise InputError(f"{path} holds no public key in PEM.") from None
    if not isinstance(key, Ed25519PublicKey):
        raise InputError(f"{path} holds a key of another kind: give an {ALGORITHM} key.")
    return base64.b64encode(key.public_bytes_raw()).decode()


def _read_private(path: Path) -> bytes:
    """Read a file that only its owner may read, or raise InputError."""
    try:
        with path.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            if not stat.S_ISREG(mode):
                raise InputError("the signing key is not a file: name a PEM file.")
            if mode & _OTHERS:
                raise InputError(
                    f"the signing key's file is open to others (mode {stat.S_IMODE(mode):04o}): "
                    "make it 0600 with `chmod 600`, and a new key if others have read it."
                )
            return file.read()
    except OSError as error:
        raise InputError(
            f"the signing key cannot be read ({error.strerror}): give PEM text, or the path of a "
            "file of it. If it was lost, make another (`jam-dagster ledger key new`) and revoke it."
        ) from None
