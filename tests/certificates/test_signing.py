"""Signatures: of a key that the ledger knows, on all that a certificate says."""

from __future__ import annotations

import base64
import json
import pickle
from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from jam_dagster.certificates import Certificate, Finding, verify
from jam_dagster.certificates.certificate import seal_of
from jam_dagster.certificates.signing import Signer, public_pem, read_public
from jam_dagster.errors import BudgetError, InputError
from jam_dagster.privacy import Kind
from jam_dagster.privacy.ledger.release_id import fingerprint_of
from tests.certificates.conftest import Released
from tests.cli_bench import NOISY, RELEASE, run_cli, synthesize

NAME = "the signature"


@pytest.fixture
def signer(made: Released) -> Signer:
    """A key that the ledger of the release knows."""
    made_key = Signer.new(made.home / "signing.pem")
    made.ledger.signing_keys.add(made_key.public)
    return made_key


@pytest.fixture
def signed(made: Released, signer: Signer) -> Released:
    """The release, its certificate signed."""
    made.put(signer.sign(made.certificate))
    return made


def finding(made: Released, **given: Any) -> Finding:
    (found,) = (one for one in verify(made.folder, **given) if one.name == NAME)
    return found


def test_a_signature_holds_for_who_knows_the_key(signed: Released, signer: Signer) -> None:
    assert signed.failed() == set()
    assert all(one.passed for one in verify(signed.folder, signing_keys=[signer.public]))
    assert finding(signed, signing_keys=[signer.public]).checked
    assert finding(signed, ledger=signed.ledger).checked
    # Whose key it is, the certificate alone cannot tell.
    alone = finding(signed)
    assert (alone.passed, alone.checked) == (True, False)


def test_another_key_than_the_given_one(signed: Released, tmp_path: Path, signer: Signer) -> None:
    stranger = Signer.new(tmp_path / "other.pem")
    other = finding(signed, signing_keys=[stranger.public])
    assert not other.passed
    assert f"than the given one: {fingerprint_of(signer.public)}" in other.message
    assert finding(signed, signing_keys=[stranger.public, signer.public]).passed
    signed.put(stranger.sign(signed.certificate))
    assert "does not know its key" in finding(signed, ledger=signed.ledger).message
    assert not finding(signed, signing_keys=[signer.public]).passed


@pytest.mark.slow
def test_what_is_not_signed_says_so(made: Released, signer: Signer) -> None:
    for given, passed, checked in (
        ({}, True, False),
        ({"ledger": made.ledger}, True, True),
        ({"signing_keys": [signer.public]}, False, True),
    ):
        found = finding(made, **given)
        assert (found.passed, found.checked) == (passed, checked)
        assert "NOT SIGNED" in found.message


CHANGES: list[Callable[[dict[str, Any]], None]] = [
    lambda it: it["privacy"]["asked"].update(epsilon=0.1),
    lambda it: it["ledger"].update(head="0" * 64),
    lambda it: it["ledger"]["entries"][0].update(units=1),
    lambda it: it["releasable"].update(may_leave=False),
    lambda it: it["made_with"].update(numpy="0"),
    lambda it: it["files"]["table"].update(sha256="0" * 64),
    lambda it: it["signature"].update(algorithm="none"),
    lambda it: it["signature"].update(value=base64.b64encode(bytes(64)).decode()),
    lambda it: it["signature"].update(value="?"),
    lambda it: it["signature"].update(key="AAAA"),
]


@pytest.mark.slow
@pytest.mark.parametrize("change", CHANGES)
def test_a_signature_is_of_everything_that_is_said(
    signed: Released, signer: Signer, change: Callable[[dict[str, Any]], None]
) -> None:
    document = deepcopy(signed.document())
    change(document)
    document["seal"] = seal_of(document)
    signed.rewrite("certificate.json", lambda it: (it.clear(), it.update(document))[0])
    assert not finding(signed, signing_keys=[signer.public]).passed
    assert not finding(signed, ledger=signed.ledger).passed


def test_what_was_certified_before_a_key_was_revoked_stays_signed(
    signed: Released, signer: Signer
) -> None:
    signed.ledger.signing_keys.revoke(signer.public, reason="stolen")
    assert signed.failed() == set()

    # What the thief signs after that does not hold, though the ledger was told of it.
    forged = replace(signed.certificate, made_with={**signed.certificate.made_with, "numpy": "0"})
    signed.ledger.certify(forged.release_id, forged.digest, run_id="x")
    signed.put(signer.sign(forged))
    assert "revoked" in finding(signed, ledger=signed.ledger).message
    # Whoever has the public key alone cannot know.
    assert finding(signed, signing_keys=[signer.public]).passed


def test_a_key_rotates(made: Released, signer: Signer, tmp_path: Path) -> None:
    second = Signer.new(tmp_path / "second.pem")
    made.ledger.signing_keys.add(second.public)
    made.ledger.signing_keys.revoke(signer.public, reason="yearly")
    made.ledger.signing_keys.check(second.public)
    with pytest.raises(BudgetError, match="revoked"):
        made.ledger.signing_keys.check(signer.public)
    assert [key.revoked is None for key in made.ledger.signing_keys.all()] == [False, True]
    made.ledger.verify()
    for again in (signer, second):
        with pytest.raises(BudgetError, match="added before"):
            made.ledger.signing_keys.add(again.public)
    with pytest.raises(BudgetError, match="revoked before"):
        made.ledger.signing_keys.revoke(signer.public, reason="once more")


@pytest.mark.slow
@pytest.mark.parametrize("way", ["option", "path in the environment", "text in the environment"])
def test_a_release_is_signed(made: Released, way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made.move_in(monkeypatch)
    new = run_cli("ledger", "key", "new", "--ledger", "ledger.db", "--out", "signing.pem")
    assert new.exit_code == 0, new.output
    Path("public.pem").write_text(new.stdout)
    assert Path("signing.pem").stat().st_mode & 0o777 == 0o600
    options = ["--signing-key", "signing.pem"] if way == "option" else []
    if way == "path in the environment":
        monkeypatch.setenv("JAM_SIGNING_KEY", "signing.pem")
    if way == "text in the environment":
        monkeypatch.setenv("JAM_SIGNING_KEY", Path("signing.pem").read_text())
    # Made again for nothing, it is signed.
    again = run_cli(*synthesize(*RELEASE, *NOISY, *options))
    assert again.exit_code == 0, again.output
    verified = run_cli("certificate", "verify", "out", "--key", "public.pem")
    assert verified.exit_code == 0, verified.output
    signed = (made.folder / "certificate.json").read_text()
    assert read_public(Path("public.pem")) in signed
    # A repeat without the key, which may be lost, says the same and keeps the signature.
    monkeypatch.delenv("JAM_SIGNING_KEY", raising=False)
    unsigned = run_cli(*synthesize(*RELEASE, *NOISY))
    assert "was signed before" not in unsigned.output
    assert (made.folder / "certificate.json").read_text() == signed
    # A key that was revoked before the repeat signs it still, for the ledger lists it earlier.
    keys = made.ledger.signing_keys
    keys.revoke(keys.all()[0].public, reason="lost")
    run_cli(*synthesize(*RELEASE, *NOISY))
    assert (made.folder / "certificate.json").read_text() == signed
    # With other files it says something else.
    other = run_cli(*synthesize(*RELEASE, *NOISY, "--sampling-mark", "column"))
    assert "the certificate was signed before" in " ".join(other.output.split())
    assert made.certificate.signature is None
    assert "PRIVATE" not in (made.folder / "certificate.json").read_text()


@pytest.mark.parametrize("state", ["unknown", "revoked"])
def test_a_key_that_must_not_sign_is_refused_before_any_charge(
    made: Released, state: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made.move_in(monkeypatch)
    key = Signer.new(Path("signing.pem"))
    if state == "revoked":
        made.ledger.signing_keys.add(key.public)
        made.ledger.signing_keys.revoke(key.public, reason="lost")
    before = made.ledger.events()
    options = ("--edition", "2", "--out", "second", "--signing-key", "signing.pem")
    refused = run_cli(*synthesize(*RELEASE, *NOISY, *options))
    assert refused.exit_code == 2
    assert "jam-dagster ledger key new" in " ".join(refused.output.split())
    assert made.ledger.events() == before


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o644, 0o610])
def test_a_private_key_that_others_can_read_is_refused(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "signing.pem"
    Signer.new(path)
    path.chmod(mode)
    with pytest.raises(InputError, match="chmod 600"):
        Signer.load(str(path))


def test_what_is_no_signing_key_is_refused_and_not_quoted(tmp_path: Path) -> None:
    from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
    from cryptography.hazmat.primitives.serialization import (
        BestAvailableEncryption,
        Encoding,
        NoEncryption,
        PrivateFormat,
    )

    other = generate_private_key(SECP256R1())
    for encryption in (NoEncryption(), BestAvailableEncryption(b"secret")):
        text = other.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption).decode()
        with pytest.raises(InputError) as refused:
            Signer.load(text)
        assert not any(line in str(refused.value) for line in text.splitlines())
    with pytest.raises(InputError, match="cannot be read"):
        Signer.load(str(tmp_path / "nowhere"))
    with pytest.raises(InputError, match="not a file"):
        Signer.load("/dev/null")
    Signer.new(tmp_path / "key.pem")
    with pytest.raises(InputError, match="never overwritten"):
        Signer.new(tmp_path / "key.pem")
    with pytest.raises(InputError, match="no public key"):
        read_public(tmp_path / "key.pem")


def test_a_private_key_is_neither_shown_nor_pickled(tmp_path: Path) -> None:
    signer = Signer.new(tmp_path / "key.pem")
    assert repr(signer) == f"Signer({signer.public})"
    with pytest.raises(TypeError):
        pickle.dumps(signer)
    (tmp_path / "public.pem").write_text(public_pem(signer.public))
    assert read_public(tmp_path / "public.pem") == signer.public


@pytest.mark.slow
def test_keys_on_the_command_line(made: Released, monkeypatch: pytest.MonkeyPatch) -> None:
    made.move_in(monkeypatch)
    given = ("--ledger", "ledger.db")
    new = run_cli("ledger", "key", "new", *given, "--out", "a.pem", "--reason", "first")
    assert new.exit_code == 0, new.output
    (key,) = json.loads(run_cli("ledger", "key", "list", *given, "--json").stdout)["keys"]
    assert (key["public"], key["revoked"]) == (new.stdout, None)

    fingerprint = key["fingerprint"]
    assert run_cli("ledger", "key", "revoke", "zz", *given, "--reason", "x").exit_code == 2
    assert run_cli("ledger", "key", "revoke", fingerprint, *given, "--reason", " ").exit_code == 2
    done = run_cli("ledger", "key", "revoke", fingerprint[:6], *given, "--reason", "stolen")
    assert done.exit_code == 0, done.output
    assert f"{fingerprint}" in run_cli("ledger", "key", "list", *given).stdout
    assert "stolen" in run_cli("ledger", "key", "list", *given).stdout
    kinds = [event.kind for event in made.ledger.events() if not event.dataset]
    assert kinds == [Kind.KEY_ADDED, Kind.KEY_REVOKED]
    shown = run_cli("ledger", "show", *given)
    assert "key revoked" in shown.stdout
    assert run_cli("ledger", "verify", *given).exit_code == 0


def test_a_key_without_a_ledger_is_not_made(tmp_path: Path) -> None:
    out = tmp_path / "key.pem"
    refused = run_cli("ledger", "key", "new", "--ledger", tmp_path / "no.db", "--out", out)
    assert refused.exit_code == 2
    assert not out.exists()


def test_a_signed_certificate_is_read_as_it_was_written(signed: Released) -> None:
    certificate = signed.certificate
    assert certificate.signature is not None
    assert Certificate.from_dict(certificate.to_dict()) == certificate
    assert certificate.digest == replace(certificate, signature=None).digest
