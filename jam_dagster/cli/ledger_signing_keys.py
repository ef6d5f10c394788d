"""`jam-dagster ledger key`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from jam_dagster.cli.console import group, print_json, print_result, tell
from jam_dagster.cli.options import AsJson, LedgerOption, ReasonOption, check_reason

app = group("The keys by which certificates are signed.")


@app.command()
def new(
    ledger: LedgerOption,
    out: Annotated[
        Path,
        typer.Option(
            metavar="FILE",
            help="A new file for the private key. It is outside of the ledger and of all stores.",
        ),
    ],
    reason: ReasonOption = "",
    as_json: AsJson = False,
) -> None:
    r"""Make a key pair, journal its public half, and print that.

    ```
    jam-dagster ledger key new --ledger ledger.db --out signing.pem > public.pem
    ```

    Its private half signs certificates in the name of the ledger; its file is
    readable by its owner alone. `synthesize --signing-key signing.pem` signs, as does
    JAM_SIGNING_KEY in the environment. Several keys may be valid at once: add the new one, change
    over, and revoke the old. Give the public half to those who verify without the ledger.
    """
    from jam_dagster.certificates.signing import Signer, public_pem
    from jam_dagster.privacy import Ledger

    opened = Ledger(ledger)
    # A fault of the ledger is shown before a key is made.
    opened.signing_keys.all()
    signer = Signer.new(out)
    try:
        opened.signing_keys.add(signer.public, reason=reason)
    except BaseException:
        # A key that no ledger knows is good for nothing.
        out.unlink()
        raise
    fingerprint = opened.signing_keys.all()[-1].fingerprint
    tell(f"The key {fingerprint} is known to {opened.location}; its private half is in {out}.")
    if as_json:
        print_json({"fingerprint": fingerprint, "public": public_pem(signer.public)})
    else:
        typer.echo(public_pem(signer.public), nl=False)


@app.command("list")
def list_keys(ledger: LedgerOption, as_json: AsJson = False) -> None:
    """List the public keys that the ledger knows, and which were revoked, and why."""
    from jam_dagster.certificates.signing import public_pem
    from jam_dagster.privacy import Ledger

    keys = Ledger(ledger).signing_keys.all()
    if as_json:
        print_json(
            {
                "keys": [
                    {
                        "fingerprint": key.fingerprint,
                        "added": key.added.at,
                        "by": key.added.by,
                        "revoked": None if key.revoked is None else key.revoked.at,
                        "reason": None if key.revoked is None else key.revoked.reason,
                        "public": public_pem(key.public),
                    }
                    for key in keys
                ]
            }
        )
        return
    for key in keys:
        revoked = key.revoked
        said = "valid" if revoked is None else f"revoked {revoked.at[:16]}: {revoked.reason}"
        typer.echo(f"{key.fingerprint}  added {key.added.at[:16]}  {said}")


@app.command()
def revoke(
    ledger: LedgerOption,
    key: Annotated[
        str, typer.Argument(metavar="KEY", help="The beginning of the key's fingerprint.")
    ],
    reason: ReasonOption,
    as_json: AsJson = False,
) -> None:
    r"""Refuse any further signature with a key.

    ```
    jam-dagster ledger key revoke 3f9a --ledger ledger.db --reason "laptop stolen"
    ```

    Certificates that the ledger lists before it stay signed: the ledger knows the order. Who
    verifies by the public key alone cannot know of a revocation, so inform them.
    """
    from jam_dagster.privacy import Ledger

    check_reason(reason)
    keys = Ledger(ledger).signing_keys
    found = keys.find(key)
    keys.revoke(found.public, reason=reason)
    print_result(
        {"fingerprint": found.fingerprint, "revoked": True},
        f"The key {found.fingerprint} is revoked.",
        as_json=as_json,
    )
