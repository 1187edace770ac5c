"""What a deployment allows, read from its settings and kept at the plugin's door."""

import pytest

from muster.config import Config, ConfigError
from muster.principals import Owner
from tests.support.agent_mail import GATE, mail_desk
from tests.support.builders import make_chief
from tests.support.cluster import Cluster, SpiedDatabase
from tests.support.mirror_host import new_session

ON = {"HOME": "/nonexistent", "MUSTER_PLUGINS": "1", "MUSTER_SESSION_ROUTING": "1"}


def config(**settings: str) -> Config:
    """A configuration with routing on."""
    return Config.from_environ(ON | settings)


@pytest.mark.rule(354, 381, 382)
def test_all_of_it_is_off_unless_it_is_set() -> None:
    """No gate, nobody whose mail resumes a session, and no kill switch."""
    plain = config()
    assert not plain.routes_reviews
    assert plain.pr_mail_senders == frozenset()
    assert not plain.mail_resume_allow.allows(1, "agent-mail", GATE)
    assert not plain.mail_resume_off


@pytest.mark.rule(354, 381, 382)
def test_the_lists_are_read() -> None:
    """Exact addresses of gates, and the relay list's grammar for resumes."""
    set_up = config(
        MUSTER_PR_MAIL_SENDERS=f"{GATE}, other/gate",
        MUSTER_MAIL_RESUME_ALLOW=f"7:agent-mail:{GATE}, 8:agent-mail:other/*",
        MUSTER_MAIL_RESUME_OFF="1",
    )
    assert set_up.pr_mail_senders == {GATE, "other/gate"}
    assert set_up.mail_resume_allow.allows(7, "agent-mail", GATE)
    assert set_up.mail_resume_allow.allows(8, "agent-mail", "other/anybody")
    for user, plugin, sender in ((8, "agent-mail", GATE), (7, "mail", GATE)):
        assert not set_up.mail_resume_allow.allows(user, plugin, sender)
    assert set_up.mail_resume_off
    off = Config.from_environ({"HOME": "/nonexistent", "MUSTER_PR_MAIL_SENDERS": GATE})
    assert not off.routes_reviews


@pytest.mark.rule(354, 381, 382)
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("MUSTER_PR_MAIL_SENDERS", "gate"),
        ("MUSTER_PR_MAIL_SENDERS", "Example/gate"),
        ("MUSTER_PR_MAIL_SENDERS", "example/*"),
        ("MUSTER_PR_MAIL_SENDERS", "gate@example.test"),
        ("MUSTER_MAIL_RESUME_ALLOW", "example/gate"),
        ("MUSTER_MAIL_RESUME_ALLOW", "7:agent-mail:Example/gate"),
        ("MUSTER_MAIL_RESUME_OFF", "yes"),
    ],
)
def test_an_entry_of_another_form_is_a_boot_error(name: str, value: str) -> None:
    """The fault names the setting, and what is wrong in it."""
    with pytest.raises(ConfigError) as caught:
        config(**{name: value})
    (fault,) = caught.value.faults
    assert fault.startswith(name)


@pytest.mark.rule(354, 381, 382)
@pytest.mark.parametrize("killed", ["0", "1"])
async def test_the_servers_settings_decide_at_the_door(
    cluster: Cluster, db: SpiedDatabase, owner: Owner, killed: str
) -> None:
    """A post of a listed sender resumes the author's session, unless resumes are switched off."""
    allow = f"{owner.owner_id}:agent-mail:{GATE}"
    settings = {"MUSTER_MAIL_RESUME_ALLOW": allow, "MUSTER_MAIL_RESUME_OFF": killed}
    await make_chief(db, owner)
    session = new_session()
    async with mail_desk(db, owner, cluster, **settings) as desk, desk.host(session) as host:
        await desk.bind(session)
        await host.show()
        async with desk.server.client(await desk.new_token()) as client:
            for number, sender in enumerate((GATE, "other/gate")):
                body = {
                    "external_id": f"m{number}",
                    "body": "Red.",
                    "sender": sender,
                    "sender_verified": True,
                    "thread": "t-1",
                }
                answer = await client.post("/plugin/v1/messages", json=body)
                assert answer.status_code == 202
    assert len(await desk.resumes()) == (killed == "0")
