"""What fills the window, by category: the parts add up to the meter, and cost what has changed."""

from hypothesis import given

from foldline.context.tally import Kind, Tally, kind_of
from foldline.context.weight import Schemas, categories, item_weight, usage_of, view_size
from foldline.protocol import ImagePart, TextPart, Usage, UserMessage
from support.happenings import Step, played, steps
from support.history import History, history
from support.stories import long_story, shop

OURS = Schemas("", 11, 900)
THEIRS = Schemas("github", 26, 7_000)
TEXT = "a sentence of a conversation about orders " * 50


def reported() -> History:
    """A session whose newest answer came with a usage."""
    built = history().system("rules").instructions("cents").user(TEXT)
    built.assistant("ok", usage=Usage(input=9_000, output=12), model="m")
    return built.asked(estimated=8_500).user(TEXT)


def test_the_parts_add_up_to_what_the_meter_says() -> None:
    for built in (history(), shop(), reported()):
        projection = built.projection()
        usage = usage_of(projection, [OURS, THEIRS])
        meter = view_size(projection, overhead=7_900)
        assert usage.size == meter
        assert abs(sum(share.tokens for share in usage.shares) - meter.tokens) < 1


def test_an_item_weighs_in_its_category_what_the_inspector_says() -> None:
    projection = reported().projection()
    shares = {share.category: share for share in usage_of(projection, []).shares}
    assert shares["assistant"].tokens == 12 and not shares["assistant"].estimated
    asked = [item_weight(projection, item).tokens for item in projection.view if kind_of(item) == "user"]
    assert abs(shares["user"].tokens - sum(asked)) <= len(asked) and shares["user"].estimated
    assert shares["difference"].tokens != 0


def test_every_kind_has_its_place() -> None:
    built = shop()
    image = ImagePart(media_type="image/png", data="", width=750, height=100)
    built.add(UserMessage(parts=(TextPart(text="look"), image)))
    usage = usage_of(built.projection(), [OURS, THEIRS])
    shares = {share.category: share for share in usage.shares}
    for category in ("system", "instructions", "summaries", "pins", "user", "assistant", "results"):
        assert shares[category].items > 0, category
    assert [shares[category].items for category in ("images", "clipped", "hidden")] == [1, 1, 1]
    schemas = [
        share for share in usage_of(built.projection(), [OURS, THEIRS]).shares if share.category == "tools"
    ]
    assert [(share.server, share.items) for share in schemas] == [("", 11), ("github", 26)]


@given(steps)
def test_a_tally_that_is_kept_up_is_one_made_afresh(happened: list[Step]) -> None:
    built = History()
    projection = built.projection()
    for entry in played(happened):
        projection.append(entry)
        kept, fresh = projection.tally, Tally()
        fresh.catch_up(projection.view, 0)
        for item in projection.view:
            kind: Kind = kind_of(item)
            assert kept.sum(kind) == fresh.sum(kind)
        heaviest = [item.reported or item.tokens for item in kept.heaviest(5, 1.0)]
        assert heaviest == [item.reported or item.tokens for item in fresh.heaviest(5, 1.0)]
        shares = categories(projection, overhead=300)
        total = shares.system + shares.summaries + shares.verbatim
        assert total == view_size(projection, overhead=300).tokens


def test_a_message_more_costs_the_tally_one_item_however_long_the_history_is() -> None:
    built = long_story(4_000)
    projection = built.projection()
    projection.tally.heaviest(20, 1.0)
    before = projection.tally.looked_at
    for _ in range(10):
        built.user("and then?")
        projection.append(built.entries[-1])
        usage_of(projection, [OURS])
        projection.tally.heaviest(20, 1.0)
    assert projection.tally.looked_at == before + 10


def test_what_is_unpinned_counts_as_what_it_is() -> None:
    built = shop()
    projection = built.projection()
    assert (projection.tally.sum("pins").items, projection.tally.sum("user").items) == (1, 2)
    projection.append(built.edit("unpin", 2).entries[-1])
    assert (projection.tally.sum("pins").items, projection.tally.sum("user").items) == (0, 3)
