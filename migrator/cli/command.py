"""The command that is followed by paths or by a verb."""

from __future__ import annotations

from typing import Any

import click

from migrator.cli.terminal import FAILED, INTERRUPTED, internal_error


class VerbOrPaths(click.Command):
    """A command whose first argument may instead be the name of another command, a verb."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.verbs: dict[str, click.Command] = {}

    def verb(self, command: click.Command) -> click.Command:
        """Decorate ``command`` to be the verb of its name."""
        self.verbs[command.name or ""] = command
        return command

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        """Parse ``args`` as the verb that they start with, else as this command."""
        if args and args[0] in self.verbs:
            return self.verbs[args[0]].make_context(f"{info_name} {args[0]}", args[1:], parent, **extra)
        return super().make_context(info_name, args, parent, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        """Run what was parsed; whatever goes wrong becomes one line and an exit code."""
        try:
            return super().invoke(ctx) if ctx.command is self else ctx.command.invoke(ctx)
        except (click.ClickException, click.exceptions.Exit, BrokenPipeError):
            raise
        except KeyboardInterrupt:
            ctx.exit(INTERRUPTED)
        except Exception as error:
            internal_error(error, verbose=ctx.params.get("verbose", False))
            ctx.exit(FAILED)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the verbs below the options."""
        with formatter.section("Verbs, as the first argument (a folder of that name is ./VERB)"):
            formatter.write_dl([(name, verb.get_short_help_str()) for name, verb in sorted(self.verbs.items())])
