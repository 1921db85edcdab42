"""The names that a search looks through."""

from lembasd.worker.core.file_index import FileIndex, folded, named, spellings


def test_a_listing_gives_its_files_and_the_directories_they_lie_in() -> None:
    listing = b"./a.py\0./src/core/b.py\0./src/c.py\0"
    assert named(listing) == [b"a.py", b"src/core/b.py", b"src/c.py", b"src/core/", b"src/"]


def test_what_a_listing_was_cut_off_in_is_left_out() -> None:
    assert named(b"./a.py\0./src/c.p") == [b"a.py"]
    assert named(b"./src/c.p") == []
    assert named(b"") == []


def test_a_name_that_is_no_text_is_left_out_and_one_with_a_newline_is_not() -> None:
    assert named(b"./a\xff/b\0./a\nb\0./\xc3\xa4\0") == [b"a\nb", b"\xc3\xa4"]


def test_a_name_that_begins_like_the_listing_does_stays_as_it_is() -> None:
    assert named(b"./.x\0./a./.b\0") == [b".x", b"a./.b", b"a./"]


def test_over_the_bound_the_last_are_left_out() -> None:
    listing = b"./a/b/1\0./c/2\0./3\0"
    assert named(listing, 2) == [b"a/b/1", b"c/2"]
    assert named(listing, 4) == [b"a/b/1", b"c/2", b"3", b"a/b/"]


def test_short_names_come_first_and_each_is_found_where_it_lies() -> None:
    names = [b"src/", b"bb", b"a", b"src/hub.py", b"aa", b"zz/b.py", b"src/a.py"]
    index = FileIndex(names)
    assert index.text == b"\0a\0aa\0bb\0src/\0zz/b.py\0src/a.py\0src/hub.py\0"
    assert [index.name_at(begin) for name in names if (begin := index.find(name))] == names
    for gone in (b"", b"b", b"cc", b"a0", b"src/hub.pyc", b"zz/c.py"):
        assert index.find(gone) is None
    assert (index.count, index.size_bytes) == (7, 2 * len(index.text))


def test_an_index_of_nothing_finds_nothing() -> None:
    assert FileIndex([]).find(b"a") is None


def test_keys_are_in_lower_case_at_the_same_place() -> None:
    assert FileIndex([b"README.md"]).keys == b"\0readme.md\0"
    index = FileIndex(["Ä/Über.md".encode(), b"README.md"])
    assert index.keys == "\0readme.md\0ä/über.md\0".encode()


def test_a_letter_whose_lower_case_is_longer_stays() -> None:
    assert folded("İA".encode()) == "İa".encode()


def test_a_query_is_looked_for_as_macos_writes_names_too() -> None:
    assert spellings("Ä") == ("ä".encode(), "a\u0308".encode())
    assert spellings("Ab") == (b"ab",)
    assert spellings("\ud800") == (b"?",)
