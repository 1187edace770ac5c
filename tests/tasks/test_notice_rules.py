"""What a plugin's notice may say, and what is cut of it."""

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.errors import Invalid, NotSetUp
from muster.tasks.rules import CreateTask, check_comment, check_create
from muster.tasks.rules.notices import NewTask, PostNotice, fit

GOOD = PostNotice(
    key="tracker:4711",
    create=NewTask(title="Rotate the build key", body="It is old."),
    comment="status: open to done",
    namespaces=frozenset({"tracker"}),
)


@pytest.mark.rule(102)
@pytest.mark.parametrize(
    "key",
    [
        "",
        "tracker",
        "tracker:",
        ":4711",
        "Tracker:4711",
        "tracker:a_b",
        "tracker:a b",
        " tracker:4711",
        "tracker:" + "9" * 57,
        "other:4711",
        "gate:4711",
    ],
)
def test_a_key_is_a_normal_tag_of_a_listed_namespace(key: str) -> None:
    """A key in another spelling, of another namespace or of none is refused by name."""
    with pytest.raises(Invalid) as caught:
        fit(attrs.evolve(GOOD, key=key))
    assert caught.value.field == "key"


@pytest.mark.rule(119)
def test_without_namespaces_the_shape_is_judged_first() -> None:
    """A server that lists none says so for a good notice, and still refuses a bad one."""
    unlisted = attrs.evolve(GOOD, namespaces=frozenset())
    with pytest.raises(NotSetUp):
        fit(unlisted)
    with pytest.raises(Invalid):
        fit(attrs.evolve(unlisted, comment="nul\0"))


@pytest.mark.rule(103, 118)
@pytest.mark.parametrize(
    ("create", "field"),
    [
        (NewTask(title="t", body=""), "create.body"),
        (NewTask(title="t", body=" \n\u2003"), "create.body"),
        (NewTask(title=" ", body="b"), "create.title"),
        (NewTask(title="nul\0", body="b"), "create.title"),
        (NewTask(title="t", body="nul\0"), "create.body"),
        (NewTask(title="t", body="half \ud800"), "create.body"),
    ],
)
def test_a_task_to_be_filed_says_something(create: NewTask, field: str) -> None:
    """A blank title or body, and a text that cannot be kept, are refused by name."""
    with pytest.raises(Invalid) as caught:
        fit(attrs.evolve(GOOD, create=create))
    assert caught.value.field == field


@pytest.mark.rule(104, 109)
def test_a_blank_comment_is_no_comment() -> None:
    """A comment is trimmed; a blank one counts as none, and alone it leaves nothing to do."""
    assert fit(attrs.evolve(GOOD, comment=" \n said \t")).comment == "said"
    assert fit(attrs.evolve(GOOD, comment=" \n ")).comment is None
    for comment in (None, "", " \u3000"):
        with pytest.raises(Invalid):
            fit(attrs.evolve(GOOD, create=None, comment=comment))


@pytest.mark.rule(105, 106, 107)
@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"route_to_chief": True}, "notice"),
        ({"route_to_chief": True, "notice": "update", "comment": " "}, "comment"),
        ({"route_to_chief": True, "notice": "update", "comment": None}, "comment"),
        ({"route_to_chief": True, "notice": "Assigned"}, "notice"),
        ({"route_to_chief": True, "notice": ""}, "notice"),
        ({"notice": "assigned"}, "notice"),
        ({"notice": "other"}, "notice"),
    ],
)
def test_routing_needs_its_parts(changes: dict[str, object], field: str) -> None:
    """route_to_chief needs a comment and a notice of three, and a notice needs route_to_chief."""
    with pytest.raises(Invalid) as caught:
        fit(attrs.evolve(GOOD, **changes))  # type: ignore[arg-type]
    assert caught.value.field == field


@pytest.mark.rule(106)
@pytest.mark.parametrize("notice", ["assigned", "mentioned", "update"])
def test_three_notices_there_are(notice: str) -> None:
    """Each of the three kinds of notice is taken with route_to_chief."""
    fit(attrs.evolve(GOOD, route_to_chief=True, notice=notice))


@pytest.mark.rule(111, 112)
def test_text_over_the_limits_is_cut_between_characters() -> None:
    """Body and comment are cut at 16 KiB and the title at 512 characters, never in a character."""
    long = attrs.evolve(
        GOOD, create=NewTask(title="é" * 600, body="x" + "€" * 9000), comment="y" + "😀" * 5000
    )
    fitted = fit(long)
    assert fitted.create is not None
    assert fitted.create.title == "é" * 512
    assert fitted.create.body == "x" + "€" * ((16384 - 1) // 3)
    assert fitted.comment == "y" + "😀" * ((16384 - 1) // 4)


@pytest.mark.rule(111)
@given(
    st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=40),
    st.integers(0, 16384),
)
def test_whatever_is_filed_can_be_filed(text: str, padding: int) -> None:
    """A notice that is taken makes a task that the rules of tasks take."""
    create = NewTask(title=f"a{text}" * 20, body=f"a{text}" + "a" * padding + text * 500)
    fitted = fit(attrs.evolve(GOOD, create=create, comment=f"a{text}" * 500))
    assert fitted.create is not None
    check_create(CreateTask(title=fitted.create.title, body=fitted.create.body))
    assert create.body.startswith(fitted.create.body)
    assert len(fitted.create.body.encode()) <= 16384
    assert fitted.comment is not None
    check_comment(fitted.comment)
