"""`kgen schema`: the JSON Schema of specs."""

from __future__ import annotations

import click

from kgen.spec.schema import schema_text


@click.command()
def command() -> None:
    """Print the JSON Schema of specs, for editors."""
    click.echo(schema_text(), nl=False)
