"""A search gives names that are there, each once, and misses none that holds what was asked for."""

from hypothesis import given
from hypothesis import strategies as st

from lembasd.worker.core.file_index import FileIndex, named
from lembasd.worker.core.file_ranking import Ranking, plain_query

_part = st.text("aAbBäÄ\u0308_. \n#é\U0001f600", min_size=1, max_size=5).filter(
    lambda part: part not in (".", "..")
)
_name = st.lists(_part, min_size=1, max_size=4).map("/".join)
_names = st.lists(_name, unique=True, max_size=30)


def listing(names: list[str], junk: list[bytes]) -> bytes:
    return b"".join(b"./%s\0" % name for name in [*(one.encode() for one in names), *junk])


@given(_names, st.lists(st.sampled_from([b"\xff", b"a/\xc3", b"\xed\xa0\x80/x"]), max_size=2))
def test_every_name_of_a_listing_is_where_the_index_says(
    names: list[str], junk: list[bytes]
) -> None:
    kept = named(listing(names, junk))
    assert {name.decode() for name in kept if not name.endswith(b"/")} == set(names)
    index = FileIndex(kept)
    assert len(index.text) == len(index.keys)
    for name in kept:
        begin = index.find(name)
        assert begin is not None
        assert index.name_at(begin) == name


@given(
    _names,
    st.text("aAbBäÄ_. \n#é/\\", max_size=6),
    st.integers(1, 50),
    st.dictionaries(_name, st.floats(0, 100), max_size=5),
)
def test_what_is_found_is_there_and_what_holds_the_query_is_found(
    names: list[str], query: str, limit: int, used: dict[str, float]
) -> None:
    index = FileIndex(named(listing(names, [])))
    looking = Ranking(index)
    found = looking.rank(query, used, limit)
    paths = [one.path + ("/" if one.kind == "dir" else "") for one in found]
    assert len(set(paths)) == len(paths) <= limit
    assert all(index.find(path.encode()) is not None for path in paths)
    # what was looked for before changes nothing
    assert looking.rank(query, used, limit) == found
    meant = plain_query(query)
    if meant.strip() and meant.isascii():
        holding = {name for name in names if meant.lower() in name.lower()}
        assert len(paths) >= min(limit, len(holding))
        if len(index.text.split(b"\0")) <= limit:
            assert holding <= set(paths)
    elif not meant.strip():
        assert set(paths) <= set(used)
