"""The verb `trust`: directories whose bundles are replayed at once, whoever made them."""

from __future__ import annotations

from pathlib import Path

import click

from replay.cli import exits


@click.command("trust")
@click.argument("directories", metavar="[DIR]...", nargs=-1, type=Path)
@click.option("--list", "listed", is_flag=True, help="Print the trusted directories.")
@click.option("--forget", is_flag=True, help="Trust these directories no more.")
@click.option("--json", "as_json", is_flag=True, help="Print the trusted directories as one JSON object.")
def command(directories: tuple[Path, ...], listed: bool, forget: bool, as_json: bool) -> int:
    """Trust the bundles in directories, and below them: now and later.

    A bundle that you recorded on this machine needs no such word. Everybody who can write into a trusted directory can
    run code here as soon as you replay what is there.
    """
    from replay import trust

    context = click.get_current_context()
    show = listed or as_json
    if forget and not directories:
        raise click.UsageError("--forget: name the directories", context)
    if not directories and not show:
        raise click.UsageError("name the directories, or give --list", context)
    for one in directories:
        if forget:
            trust.forget(one)
            exits.say(f"trusted no more: {one.resolve()}")
        else:
            new = trust.vouch_for(one)
            exits.say(f"{'trusted from now on' if new else 'trusted already'}: {one.resolve()}")
    if show:
        _show(as_json=as_json)
    return 0


def _show(*, as_json: bool) -> None:
    from replay import trust

    places = trust.trusted_places()
    if as_json:
        from replay.report.plain import places_json

        exits.emit(places_json(places))
        return
    from replay.report.trust import draw_places

    exits.write_result(lambda stream: draw_places(places, stream))
    if not places:
        exits.say("no directory is trusted")
