"""The command line. Commands are imported when they run, so that `kgen --help` loads click and nothing else."""

from __future__ import annotations

import traceback
from collections.abc import Mapping
from importlib import import_module
from types import MappingProxyType
from typing import Any

import click

from kgen import __version__

COMMANDS: Mapping[str, str] = MappingProxyType(
    {
        "render": "Write the source files that specs make.",
        "check": "Say whether files on disk are what specs make.",
        "diff": "Compare generated sources, layer by layer.",
        "explain": "Say what was decided for a kernel, and what it beat.",
        "verify": "Compile, execute and compare kernels on this CPU.",
        "update": "Choose anew what specs leave out, and write kgen.lock.",
        "list": "List the kernels of specs, or the archs or ops there are.",
        "schema": "Print the JSON Schema of specs.",
        "doctor": "Say which tools are here and what is missing.",
    }
)


class Refused(click.ClickException):
    """Something outside kgen that a command cannot do without."""

    exit_code = 2


def template_words(error: Exception) -> str | None:
    """Template file, line and message of an error in a template; None for any other error."""
    if not type(error).__module__.startswith("jinja2") and not isinstance(error, UnicodeDecodeError):
        return None
    frames = traceback.extract_tb(error.__traceback__)
    places = [f"{frame.filename}:{frame.lineno}" for frame in frames if frame.filename.endswith(".jinja")]
    name, line = getattr(error, "filename", None) or getattr(error, "name", None), getattr(error, "lineno", None)
    place = f"{name}:{line}" if name and line else places[-1] if places else "template"
    return f"{place}: {type(error).__name__}: {error}"


class _Lazy(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module = import_module(f"kgen.cli.{cmd_name}_command")
        command: click.Command = module.command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def invoke(self, ctx: click.Context) -> Any:
        """Runs the command; what the machine or a template of the user's refuses is said without a traceback."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            raise
        except OSError as error:
            place = error.filename or "kgen"
            raise Refused(f"{place}: {error.strerror or error}") from error
        except Exception as error:
            words = template_words(error)
            if words is None:
                raise
            raise Refused(words) from error

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            from kgen.spec.diagnostic import closest

            near = closest(args[0], COMMANDS)
            hint = f" Did you mean {near}?" if near else ""
            ctx.fail(f"No such command '{args[0]}'.{hint}")
        return super().resolve_command(ctx, args)


@click.group(cls=_Lazy, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="kgen")
def main() -> None:
    """One declarative spec in; standalone CUDA and Pallas kernels out, verified on this CPU.

    Exit codes: 0 well, 1 drift or failed verification, 2 bad spec or usage.
    """
