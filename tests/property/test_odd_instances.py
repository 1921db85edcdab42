"""Whatever JSON an instance answers with: what the device reads of it neither fails nor moves a cursor."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from lembasd.link.core import faults, model_kinds, money, refusal_words

_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(["data", "id", "kind", "detail", "error", "message", "msg"])
            | st.text(max_size=5),
            inner,
            max_size=4,
        )
    ),
    max_leaves=20,
)
_LISTS = st.fixed_dictionaries({"data": st.lists(_JSON, max_size=6)}) | _JSON


@given(_LISTS, st.none() | st.text(max_size=5))
def test_a_list_of_models_is_read_whatever_stands_in_it(
    listed: object, connection: str | None
) -> None:
    ids = [entry["id"] for entry in model_kinds.for_chat(listed)]
    assert len(ids) == len(set(ids))
    assert all(isinstance(one, str) and one for one in ids)
    embedding = model_kinds.embedding(listed, connection)
    assert embedding is None or embedding.startswith(connection or "")
    assert all(model_kinds.served(one, listed, connection) == one for one in ids)


@given(_JSON.map(msgspec.json.encode) | st.binary(max_size=40))
def test_a_refusals_words_are_plain_or_none(body: bytes) -> None:
    said = refusal_words.detail(body)
    assert said == "" or said.isprintable()


@given(st.text(max_size=400))
def test_a_redirect_to_anywhere_is_one_plain_sentence(location: str) -> None:
    said = faults.redirected("https://lembas.example.org/v1/usage", location)
    assert said.isprintable()
    assert len(said) < 1200


@given(st.dictionaries(st.text(max_size=12), st.floats(-1e15, 1e15), max_size=5))
def test_amounts_are_one_line_of_one_part_for_each_currency(costs: dict[str, float]) -> None:
    shown = money.amounts(costs)
    assert shown.isprintable()
    assert shown.count(" · ") >= len(costs) - 1
