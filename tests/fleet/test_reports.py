"""Whom a fleet report tells of, what of them, and what it counts instead."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.fleet.reports import (
    PULL_REQUESTS_MAX,
    REPLY_BYTES_MAX,
    SESSIONS_MAX,
    TITLES_MAX,
    TOOL_BYTES_MAX,
    About,
    Kind,
    Session,
    State,
    Work,
    choose,
    compose,
    is_under,
)
from muster.fleet.requests import Span, encode

NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)
PATHS = ("/srv/example-work", "/srv/other")
SPAN = Span(
    since_text="2026-01-01T12:00:00Z",
    until_text="2026-01-02T12:00:00Z",
    zone="UTC",
    since=NOON - timedelta(days=1),
    until=NOON,
)
ABOUT = About(span=SPAN, request_id="r-1", generated_at=NOON)
DIRECTORY = "/srv/example-work/secret-customer"


def session(number: int = 1, **changes: object) -> Session:
    """A session under the first path; of two the one of the higher number was active earlier."""
    plain = Session(
        id=number,
        kind=Kind.MIRROR,
        subject=f"mirror:{number}",
        name=f"main:{number}",
        host="box",
        repo="example/work",
        repo_directory=DIRECTORY,
        state=State.WAITING,
        first_seen_at=NOON - timedelta(days=2),
        last_seen_at=NOON,
        directory=DIRECTORY,
        titled_at=NOON - timedelta(minutes=number),
    )
    return attrs.evolve(plain, **changes)  # type: ignore[arg-type]


def work(titles: int = 1, pull_requests: int = 0, **more: object) -> Work:
    """So many titles and pull requests, the newest first, as they are read from the database."""
    plain = Work(
        titles=tuple(
            (f"title {number}", NOON - timedelta(minutes=number))
            for number in range(min(titles, TITLES_MAX))
        ),
        titles_in_all=titles,
        pull_requests=tuple(
            f"example/work#{number}" for number in range(min(pull_requests, PULL_REQUESTS_MAX))
        ),
        pull_requests_in_all=pull_requests,
    )
    return attrs.evolve(plain, **more)  # type: ignore[arg-type]


def report(
    *sessions: Session,
    paths: tuple[str, ...] | None = PATHS,
    works: dict[int, Work] | None = None,
    about: About = ABOUT,
    bytes_max: int = REPLY_BYTES_MAX,
) -> dict[str, Any]:
    """The report on these; the works are by session id."""
    given = {one.key: (works or {}).get(one.id, work()) for one in sessions}
    document = compose(choose(sessions, paths), given, about, bytes_max=bytes_max)
    decoded: dict[str, Any] = json.loads(encode(document))
    return decoded


@pytest.mark.rule(374)
@pytest.mark.parametrize(
    ("directory", "under"),
    [
        ("/srv/example-work", True),
        ("/srv/example-work/", True),
        ("/srv/example-work/app", True),
        ("/srv//example-work/./app", True),
        ("//srv/example-work/app", True),
        ("/srv/other/a/b", True),
        ("/srv/example-work-x", False),
        ("/srv/example-wor", False),
        ("/srv", False),
        ("/", False),
        ("/Srv/example-work", False),
        ("/opt/srv/example-work", False),
        ("/srv/example-work/../private", None),
        ("/srv/example-work/..", None),
        ("srv/example-work", None),
        ("~/example-work", None),
        ("", None),
        (None, None),
    ],
)
def test_a_directory_is_under_a_path_on_a_components_boundary(
    directory: str | None, under: bool | None
) -> None:
    """What is relative, or goes up again, is not known."""
    assert is_under(directory, PATHS) is under


@pytest.mark.rule(374, 377)
def test_sessions_elsewhere_are_not_mentioned_and_unknown_ones_are_counted() -> None:
    """An agent works where nobody sees; neither counts as omitted."""
    told = report(
        session(1),
        session(2, directory="/srv/private"),
        session(3, directory=None),
        session(4, kind=Kind.AGENT, subject="agent:helper", directory=DIRECTORY),
    )
    assert [one["id"] for one in told["sessions"]] == ["mirror:1"]
    assert told["coverage"] == {
        "sessions": 1,
        "omitted": 0,
        "hosts": [],
        "gaps": ["2 sessions left out, as the working directory is not known."],
    }
    assert report(session(2, directory="/srv/private"))["coverage"]["gaps"] == []


@pytest.mark.rule(370, 379)
def test_the_shape_of_a_reply() -> None:
    """Exactly the members of the contract; no directory, no host, nothing of a conversation."""
    told = report(session(1, state=State.ACTIVE), works={1: work(2, 1)})
    assert told == {
        "type": "fleet_report",
        "v": 1,
        "request_id": "r-1",
        "generated_at": "2026-01-02T12:00:00Z",
        "window": {
            "since": "2026-01-01T12:00:00Z",
            "until": "2026-01-02T12:00:00Z",
            "zone": "UTC",
        },
        "coverage": {"sessions": 1, "omitted": 0, "hosts": [], "gaps": []},
        "sessions": [
            {
                "id": "mirror:1",
                "kind": "mirror",
                "name": "main:1",
                "host": "",
                "repo": "example/work",
                "state": "active",
                "first_seen": "2025-12-31T12:00:00Z",
                "last_seen": "2026-01-02T12:00:00Z",
                "focus": [
                    {"title": "title 0", "at": "2026-01-02T12:00:00Z"},
                    {"title": "title 1", "at": "2026-01-02T11:59:00Z"},
                ],
                "prs": ["example/work#0"],
            }
        ],
    }
    assert "secret-customer" not in json.dumps(told)


@pytest.mark.rule(370)
@pytest.mark.parametrize("repo_directory", [None, "/srv/private", "/srv/example-work/../x"])
def test_a_repository_that_was_seen_elsewhere_is_not_told(repo_directory: str | None) -> None:
    """The session is described by where its transcript says it works."""
    (told,) = report(session(1, repo_directory=repo_directory))["sessions"]
    assert told["repo"] is None


@pytest.mark.rule(371, 376)
def test_titles_and_pull_requests_beyond_the_caps_are_counted() -> None:
    """20 titles and 50 pull requests of one session; only of those that are described."""
    told = report(
        session(1),
        session(2),
        session(3, directory=None),
        works={1: work(23, 51), 2: work(21, 50), 3: work(99, 99)},
    )
    assert [len(one["focus"]) for one in told["sessions"]] == [20, 20]
    assert [len(one["prs"]) for one in told["sessions"]] == [50, 50]
    gaps = told["coverage"]["gaps"]
    assert gaps[1].startswith("4 focus titles left out: at most the newest 20")
    assert gaps[2].startswith("1 pull request left out: at most 50")


@pytest.mark.rule(371, 379)
def test_first_lines_of_prompts_are_counted_and_not_told() -> None:
    """A summary is told; what its person typed is not."""
    gaps = report(session(1), works={1: work(1, prompts=3)})["coverage"]["gaps"]
    assert gaps == ["3 focus titles left out: the first line of a prompt is no summary."]


@pytest.mark.rule(376, 377)
def test_two_hundred_sessions_are_told_of_and_the_rest_is_omitted() -> None:
    """The filter runs first: those elsewhere take no place and are not counted."""
    inside = [session(number, name="") for number in range(SESSIONS_MAX + 3)]
    elsewhere = [
        session(1000 + number, directory="/srv/private", titled_at=NOON) for number in range(50)
    ]
    choice = choose([*elsewhere, *inside], PATHS)
    assert [one.id for one in choice.sessions] == list(range(SESSIONS_MAX))
    assert (choice.omitted, choice.unknown) == (3, 0)
    assert (SESSIONS_MAX, TITLES_MAX, PULL_REQUESTS_MAX) == (200, 20, 50)


@pytest.mark.rule(370, 377)
def test_the_least_recently_active_are_left_out_first() -> None:
    """What does not fit is omitted, and those that were about nothing go before all others."""
    sessions = [session(number) for number in range(1, 60)]
    sessions.append(session(100, titled_at=None))
    told = report(*sessions, works={number: work(5) for number in range(60)})
    names = [one["id"] for one in told["sessions"]]
    assert names == [f"mirror:{number}" for number in range(1, len(names) + 1)]
    assert told["coverage"]["omitted"] == 60 - len(names) > 0
    assert told["coverage"]["sessions"] == len(names)
    assert len(encode(told)) <= REPLY_BYTES_MAX
    # One more would not have fitted.
    assert len(encode(told)) + len(encode(told["sessions"][0])) > REPLY_BYTES_MAX


@pytest.mark.rule(370, 371)
def test_one_session_that_is_too_large_loses_its_oldest_titles() -> None:
    """Each letter outside of ASCII takes up to 12 bytes."""
    titles = tuple((f"{number} " + "🙂" * 118, NOON) for number in range(20))
    told = report(
        session(1),
        works={1: work(titles=20, pull_requests=50) and attrs.evolve(work(20, 50), titles=titles)},
    )
    (one,) = told["sessions"]
    assert 0 < len(one["focus"]) < 20
    assert one["focus"][0]["title"].startswith("0 ")
    assert len(one["prs"]) == 50
    assert told["coverage"]["gaps"][0].startswith(f"{20 - len(one['focus'])} focus titles left")
    assert len(encode(told)) <= REPLY_BYTES_MAX


@pytest.mark.rule(375)
def test_offline_hosts_are_counted_and_not_named() -> None:
    """To the chief they are named, as is each session's host."""
    about = attrs.evolve(ABOUT, hosts=("attic", "box"), offline=("attic",))
    told = report(session(1), about=about)
    assert told["coverage"]["gaps"] == ["1 mirror host offline now."]
    assert "attic" not in json.dumps(told)
    assert "box" not in json.dumps(told)
    own = report(session(1), about=about, paths=None)
    assert own["coverage"]["hosts"] == ["attic", "box"]
    assert own["coverage"]["gaps"] == ["The mirror host attic is offline now."]
    assert own["sessions"][0]["host"] == "box"


@pytest.mark.rule(371)
def test_titles_that_are_not_kept_any_more_are_a_gap() -> None:
    """A window that begins before what is kept says so."""
    gaps = report(session(1), about=attrs.evolve(ABOUT, kept_since=NOON))["coverage"]["gaps"]
    assert gaps == ["Focus titles before 2026-01-02T12:00:00Z are not kept."]


@pytest.mark.rule(378)
def test_secrets_are_cut_from_titles_names_and_repositories() -> None:
    """Each is counted; infrastructure words and host names stay; the chief's own has all."""
    token = "ghp_0123456789abcdefghij"
    given = {
        1: Work(
            titles=((f"rotate {token} on db.internal", NOON),),
            titles_in_all=1,
            pull_requests=(f"{token}/x#1",),
            pull_requests_in_all=1,
        )
    }
    one = session(1, name=f"kubectl {token}", repo=f"{token}/x")
    told = report(one, works=given)
    assert token not in json.dumps(told)
    (shown,) = told["sessions"]
    assert shown["focus"][0]["title"] == "rotate [removed] on db.internal"
    assert (shown["name"], shown["repo"]) == ("kubectl [removed]", "[removed]")
    assert told["coverage"]["gaps"] == ["4 strings cut out, as they look like secrets."]
    assert token in json.dumps(report(one, works=given, paths=None))


@pytest.mark.rule(373)
def test_the_chiefs_own_is_not_narrowed() -> None:
    """Sessions elsewhere, unknown ones and agents; without a request's id; 32 KiB."""
    about = attrs.evolve(ABOUT, request_id=None)
    told = report(
        session(1),
        session(2, directory="/srv/private", repo_directory=None),
        session(3, kind=Kind.AGENT, subject="agent:helper", directory=None),
        about=about,
        paths=None,
    )
    assert [one["id"] for one in told["sessions"]] == ["mirror:1", "mirror:2", "agent:helper"]
    assert told["sessions"][1]["repo"] == "example/work"
    assert "request_id" not in told
    assert TOOL_BYTES_MAX == 2 * REPLY_BYTES_MAX == 32 * 1024


times = st.datetimes(timezones=st.just(UTC))
letters = st.sampled_from(["a", "\u00e9", "\U0001f642", "\n", '"'])
directories = st.sampled_from(
    [DIRECTORY, DIRECTORY, "/srv/other", "/srv/private", "/srv/other/../private", "x", None]
)


@st.composite
def sessions_with_work(draw: st.DrawFn) -> tuple[list[Session], dict[int, Work]]:
    """Sessions of any kind, and what they did."""
    sessions, works = [], {}
    for number in range(draw(st.integers(0, 8))):
        title = draw(letters) * draw(st.sampled_from([1, 60, 120]))
        titles = draw(st.integers(0, TITLES_MAX))
        named = draw(st.sampled_from([0, 1, PULL_REQUESTS_MAX]))
        works[number] = Work(
            titles=((title, draw(times)),) * titles,
            titles_in_all=titles + draw(st.integers(0, 5)),
            prompts=draw(st.integers(0, 5)),
            pull_requests=("o" * 100 + "/" + "r-" * 49 + "#2147483647",) * named,
            pull_requests_in_all=named,
        )
        one = session(
            number,
            kind=draw(st.sampled_from(Kind)),
            name=draw(letters) * draw(st.sampled_from([0, 200])),
            directory=draw(directories),
            titled_at=draw(st.none() | times),
        )
        sessions.append(one)
    return sessions, works


@pytest.mark.rule(370, 374, 375, 377)
@given(sessions_with_work(), st.sampled_from([4096, REPLY_BYTES_MAX]))
def test_no_report_is_too_large_or_tells_of_what_is_elsewhere(
    made: tuple[list[Session], dict[int, Work]], bytes_max: int
) -> None:
    """Every session is told of, omitted, counted as unknown, or elsewhere."""
    sessions, works = made
    choice = choose(sessions, PATHS)
    given = {one.key: works[one.id] for one in sessions}
    body = encode(compose(choice, given, ABOUT, bytes_max=bytes_max))
    assert len(body) <= bytes_max
    assert body.isascii()
    told = json.loads(body)
    ids = {one["id"] for one in told["sessions"]}
    places = {one.id: is_under(one.directory, PATHS) for one in sessions if one.kind is Kind.MIRROR}
    inside = {f"mirror:{number}" for number, place in places.items() if place}
    assert ids <= inside
    assert told["coverage"]["omitted"] == len(inside) - len(ids)
    assert told["coverage"]["hosts"] == []
    assert choice.unknown == len(sessions) - sum(place is not None for place in places.values())
    assert not any(one["host"] for one in told["sessions"])
    assert '"/srv' not in body
