"""`muster config`: what the settings are, and whether they are sound."""

import os
from typing import TYPE_CHECKING

import click

from muster.commands.options import json_option
from muster.commands.output import print_json, print_table

if TYPE_CHECKING:
    from muster.config import Config


@click.group()
def config() -> None:
    """Show and check the settings.

    Settings are environment variables. A secret may stand in a file instead: MUSTER_X_FILE names
    it. Durations have a unit: 30s, 15m, 12h, 14d.
    """


@config.command()
@json_option
def show(*, as_json: bool) -> None:
    """Show every setting with its value; a secret shows only that it is set."""
    from muster.config import Config
    from muster.settings import FILE_SUFFIX, SETTINGS

    values = _values(Config.from_environ(os.environ))
    shown: list[dict[str, object]] = []
    for setting in SETTINGS:
        from_file = bool(setting.secret and os.environ.get(setting.name + FILE_SUFFIX))
        given = from_file or bool(os.environ.get(setting.name))
        if setting.secret:
            value = "(set)" if given else None
        elif setting.client:
            value = os.environ.get(setting.name) or setting.default
        else:
            value = values[setting.name]
        source = ("file" if from_file else "environment") if given else "default"
        shown.append(
            {
                "name": setting.name,
                "value": value,
                "source": source,
                "default": setting.default,
                "meaning": setting.meaning,
            }
        )
    if as_json:
        print_json(shown)
        return
    print_table(
        ("Setting", "Value", "From", "Meaning"),
        [
            (
                str(row["name"]),
                str(row["default"] if row["value"] is None else row["value"]),
                str(row["source"]),
                str(row["meaning"]),
            )
            for row in shown
        ],
        empty="There are no settings.",
        whole=True,
    )


@config.command()
@json_option
def check(*, as_json: bool) -> None:
    """Check the settings; exit 78 with every fault when they are not sound.

    Those of plugins and agents are checked too, though the server does not read them.
    """
    from muster.commands.tokens import client_faults
    from muster.config import Config, ConfigError

    faults = client_faults(os.environ)
    try:
        Config.from_environ(os.environ)
    except ConfigError as error:
        faults = error.faults + faults
    if faults:
        raise ConfigError(faults)
    if as_json:
        print_json({"ok": True})
        return
    click.echo("The settings are sound.", err=True)


def _values(config: "Config") -> dict[str, str]:
    from muster.config import duration

    host = f"[{config.bind_host}]" if ":" in config.bind_host else config.bind_host
    return {
        "MUSTER_BIND": f"{host}:{config.bind_port}",
        "MUSTER_PUBLIC_URL": config.public_url,
        "MUSTER_DATA_DIR": str(config.data_dir),
        "MUSTER_PLUGINS": str(int(config.plugins)),
        "MUSTER_LOG": config.log_level,
        "MUSTER_FLOW_AGENT_DENY_WORDS": ",".join(sorted(config.deny_words)),
        "MUSTER_PLUGIN_TASK_NAMESPACES": ",".join(sorted(config.task_namespaces)) or "none",
        "MUSTER_TURN_DEADLINE": duration(config.turn_deadline_seconds),
        "MUSTER_DRAIN": duration(config.drain_seconds),
        "MUSTER_STEPUP_WINDOW": duration(config.stepup_window_seconds),
        "MUSTER_HOOK_OWNER": config.hook_owner or "none",
        "MUSTER_SEND_QUEUE_IDLE": duration(config.send_queue_idle_seconds),
        "MUSTER_SESSION_FOCUS": str(int(config.session_focus)),
        "MUSTER_SESSION_ROUTING": str(int(config.session_routing)),
        "MUSTER_ROUTE_RELAY_ALLOW": str(config.route_relay_allow),
        "MUSTER_PR_MAIL_SENDERS": ",".join(sorted(config.pr_mail_senders)) or "none",
        "MUSTER_MAIL_RESUME_ALLOW": str(config.mail_resume_allow),
        "MUSTER_MAIL_RESUME_OFF": str(int(config.mail_resume_off)),
        "MUSTER_FLEET_REPORT_SENDERS": ",".join(sorted(config.fleet_report_senders)) or "none",
        "MUSTER_FLEET_REPORT_PATHS": ",".join(config.fleet_report_paths) or "none",
        "MUSTER_CLI_DECISIONS": str(int(config.cli_decisions)),
    }
