"""What the database refuses of pushes, for tests/pg/test_refusals.py."""


def device(**columns: str) -> str:
    """The insert of a webhook, but for the columns that are given as SQL."""
    values = {
        "owner_id": "%(owner)s",
        "sink": "'webhook'",
        "name": "'door'",
        "url": "'https://door.example.test/'",
        "secret": "'secret'",
        "kinds": "'{}'",
        "created_at": "%(now)s",
        "not_before": "%(now)s",
    } | columns
    return f"insert into push_devices ({', '.join(values)}) values ({', '.join(values.values())})"


def delivery(**columns: str) -> str:
    """The insert of a waiting push to the device at hand, but for the columns given as SQL."""
    values = {
        "owner_id": "%(owner)s",
        "device_id": "(select max(id) from push_devices)",
        "kind": "'draft'",
        "item_id": "%(draft)s + 1",
        "state": "'waiting'",
        "created_at": "%(now)s",
        "due_at": "%(now)s",
        "attempts": "0",
    } | columns
    return (
        f"insert into push_deliveries ({', '.join(values)}) values ({', '.join(values.values())})"
    )


def hours(**columns: str) -> str:
    """The insert of an owner's quiet hours, but for the columns that are given as SQL."""
    values = {"owner_id": "%(owner)s", "from_minute": "1", "until_minute": "2"} | columns
    return (
        f"insert into push_quiet_hours ({', '.join(values)}) values ({', '.join(values.values())})"
    )


KEY = "insert into push_keys (id, private_key, public_key, created_at) values"
TEST = delivery(kind="'test'", item_id="null")

PUSHES: list[tuple[str, list[str]]] = [
    ("push_keys_one_check", [f"{KEY} (2, sha256('x'), decode(repeat('04', 65), 'hex'), %(now)s)"]),
    ("push_keys_private_check", [
        f"{KEY} (1, 'short', decode(repeat('04', 65), 'hex'), %(now)s)"]),
    ("push_keys_public_check", [f"{KEY} (1, sha256('x'), 'short', %(now)s)"]),
    ("push_devices_owner_id_fkey", [device(owner_id="-1")]),
    ("push_devices_sink_check", [device(sink="'pager'")]),
    ("push_devices_name_check", [device(name="repeat('é', 81)")]),
    ("push_devices_url_check", [device(url="repeat('x', 1001)")]),
    ("push_devices_topic_check", [device(sink="'ntfy'", topic="'a b'")]),
    ("push_devices_p256dh_check", [device(p256dh="'short'")]),
    ("push_devices_auth_check", [device(auth="'short'")]),
    ("push_devices_secret_check", [device(secret="''")]),
    ("push_devices_kinds_check", [device(kinds="array['message']")]),
    ("push_devices_error_check", [device(last_error="repeat('é', 201)")]),
    ("push_devices_subscription_check", [device(sink="'browser'")]),
    ("push_devices_subscription_check", [
        device(auth="decode(repeat('00', 16), 'hex')")]),
    ("push_devices_ntfy_check", [device(sink="'ntfy'")]),
    ("push_devices_signed_check", [device(secret="null")]),
    ("push_devices_live_key", [device(), device()]),
    ("push_quiet_hours_check", [hours(until_minute="1440")]),
    ("push_quiet_hours_check", [hours(until_minute="1")]),
    ("push_quiet_hours_owner_id_fkey", [hours(owner_id="-1")]),
    ("push_deliveries_owner_id_device_id_fkey", [delivery(device_id="-1")]),
    ("push_deliveries_kind_check", [device(), delivery(kind="'message'")]),
    ("push_deliveries_state_check", [device(), delivery(state="'lost'")]),
    ("push_deliveries_error_check", [device(), delivery(error="repeat('é', 201)")]),
    ("push_deliveries_item_check", [device(), delivery(item_id="null")]),
    ("push_deliveries_item_check", [device(), delivery(kind="'test'")]),
    ("push_deliveries_sent_check", [device(), delivery(state="'sent'")]),
    ("push_deliveries_ended_check", [device(), delivery(state="'dropped'")]),
    ("push_deliveries_ended_check", [device(), delivery(ended_at="%(now)s")]),
    ("push_deliveries_item_key", [device(), delivery(), delivery()]),
    ("push_deliveries_test_key", [device(), TEST, TEST]),
]  # fmt: skip
