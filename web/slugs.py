"""Every error slug that a door can answer with, and what it means to a program.

The slug is the contract, the sentence beside it is for people. tests/web/test_slugs.py looks in the
code for slugs that are missing here; `/docs/errors` shows this table.
"""

from typing import Final

import attrs


@attrs.frozen
class Slug:
    """One slug: its status, when it comes, and whether the same request may work later."""

    name: str
    status: int
    when: str
    later: bool = False


SLUGS: Final = (
    Slug("account_disabled", 409, "The owner's account is disabled."),
    Slug("already_routed", 409, "A route of the message waits for an answer."),
    Slug("ask_state", 409, "The ask is answered, cancelled or expired already."),
    Slug("bad_arguments", 409, "The arguments of the tool do not go together."),
    Slug("bad_json", 400, "The body is not JSON in UTF-8."),
    Slug("body_too_large", 413, "The body is larger than this route takes."),
    Slug("cannot_take", 409, "The session can take no message now; `why` tells why."),
    Slug("challenge_gone", 400, "The question to the passkey is too old; begin anew."),
    Slug("chief_exists", 409, "The owner has a chief already."),
    Slug("conflict", 409, "What may exist once exists already."),
    Slug("credential_not_allowed", 401, "A plugin token is good for /plugin/v1/ and nothing else."),
    Slug("draft_state", 409, "The reply's state forbids it; `status` tells the state."),
    Slug("forbidden", 403, "The caller is known, and what it may do does not go that far."),
    Slug("foreign_form", 403, "A form did not come from a page of this muster."),
    Slug(
        "gated_tasks_per_day",
        429,
        "The chief asked for 20 gated tasks in 24 hours.",
        later=True,
    ),
    Slug("head_too_large", 431, "The head of the request is too large."),
    Slug("hook_owner_unknown", 409, "MUSTER_HOOK_OWNER names no live account."),
    Slug("http_version", 505, "This server speaks HTTP/1.1."),
    Slug("internal_error", 500, "A fault of muster's own; it is in the supervision log."),
    Slug("invalid", 400, "A field breaks a rule; `field` names it. It will never be accepted."),
    Slug("last_way", 409, "This is the account's only way to sign in."),
    Slug("link_gone", 404, "The link was used, or its time is over."),
    Slug("malformed_request", 400, "The request is not valid HTTP."),
    Slug("merge_self", 409, "A task cannot be merged into itself."),
    Slug("message_held", 409, "The message waits for a session that is being resumed."),
    Slug("message_state", 409, "The message's state forbids it."),
    Slug("messages_per_hour", 429, "60 new messages in the last hour.", later=True),
    Slug(
        "messages_undelivered",
        429,
        "200 messages of this plugin wait for the chief.",
        later=True,
    ),
    Slug("method_not_allowed", 405, "The path exists, but not by this method; see `Allow`."),
    Slug("muster_asked", 409, "muster asked this; only what becomes of its message closes it."),
    Slug("name_taken", 409, "Something live has this name already."),
    Slug("no_chief", 409, "The owner has no chief to hand it to."),
    Slug("no_reply", 409, "Nobody can answer this message."),
    Slug("no_session", 409, "The pane of the caller shows no session of a connected host."),
    Slug(
        "no_task_namespaces",
        503,
        "The server lists no MUSTER_PLUGIN_TASK_NAMESPACES.",
        later=True,
    ),
    Slug("not_chief", 409, "Only the owner's chief may do this."),
    Slug("not_delivered", 409, "The chief does not have the message."),
    Slug("not_found", 404, "There is no such thing, or it is somebody else's, or it is off."),
    Slug("not_its_session", 409, "The route is another session's to answer."),
    Slug("not_set_up", 503, "The server lacks a setting that this needs.", later=True),
    Slug("not_waiting", 409, "No route of the message waits, or not in this thread. Final."),
    Slug("other_answer", 409, "The route has another answer already."),
    Slug("other_text", 409, "The reply has another text than the one that was read."),
    Slug(
        "outcome_unknown",
        503,
        "The answer of the database was lost: it was done or it was not. A post and a result may"
        " be repeated.",
        later=True,
    ),
    Slug("plugin_revoked", 409, "The plugin of this reply is revoked."),
    Slug("queue_full", 409, "So many texts wait for this session already."),
    Slug("refused", 409, "A rule says no in this state."),
    Slug("reply_exists", 409, "The chief drafted a reply to this message already."),
    Slug("reply_in_flight", 409, "Another reply to the message is on its way."),
    Slug("reply_on_its_way", 409, "An approved reply to the message is on its way."),
    Slug("request_timeout", 408, "The request did not arrive in time.", later=True),
    Slug("resume_state", 409, "The state of the session's resume forbids it."),
    Slug("route_exists", 409, "The message was routed to a session already."),
    Slug("route_state", 409, "The route does not wait for an answer; `state` tells its state."),
    Slug("scope", 403, "This token may read and change nothing."),
    Slug("screened", 400, "The reply holds what no reply may hold."),
    Slug("send_state", 409, "The state of the queued text forbids it."),
    Slug("session_offline", 409, "No online window shows this session."),
    Slug("sign_in_refused", 401, "No account opens by this."),
    Slug("stale_epoch", 409, "A newer connection of this agent has taken over."),
    Slug("step_up_needed", 409, "The sign-in is too old for this; proving anew helps."),
    Slug("subject_not_found", 409, "No online window shows the session; see `candidates`."),
    Slug("tag_reserved", 400, "The tag's namespace is not the caller's to give."),
    Slug("task_exists", 409, "The chief filed a task because of this message already."),
    Slug("task_merged", 409, "The task was merged into another one."),
    Slug("test_waits", 409, "A test is on its way to this device."),
    Slug("tokens_full", 409, "The agent has as many live tokens as it may have."),
    Slug("too_many", 429, "An allowance is used up.", later=True),
    Slug("too_many_asks", 409, "So many asks await the owner; that is all there may be."),
    Slug("too_many_attempts", 429, "There were too many attempts to sign in.", later=True),
    Slug("too_many_pending", 409, "The chief has 20 replies that wait for a decision."),
    Slug("too_many_tags", 409, "The task would have too many tags."),
    Slug("too_many_waits", 409, "So many calls of this owner wait for an answer already."),
    Slug("turn_state", 409, "The state of the chief's turn forbids it."),
    Slug("unauthorized", 401, "Not a live credential of a kind that this door takes."),
    Slug("unavailable", 503, "The database is away or too busy; nothing was done.", later=True),
    Slug("unknown_coding", 501, "The body must have a length or come in chunks."),
    Slug("unsupported_media_type", 415, "The body must be application/json."),
    Slug("words_too_long", 400, "What is said to the chief is too long for one turn."),
    Slug("words_waiting", 409, "Too much waits for this agent already."),
)
BY_NAME: Final = {slug.name: slug for slug in SLUGS}
