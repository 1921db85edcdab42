"""What a person is told when their instance does not answer as one."""

import pytest

from lembasd.link.core import faults

URL = "https://lembas.example.org/v1/models"


@pytest.mark.parametrize(
    ("url", "what", "proxied", "said"),
    [
        (
            URL,
            "[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: self-signed certificate (_ssl.c:992)",
            False,
            (
                "the certificate of https://lembas.example.org is not trusted (self-signed certificate); "
                "check the address, or name its authority's file in SSL_CERT_FILE"
            ),
        ),
        (
            URL,
            "[SSL: WRONG_VERSION_NUMBER] wrong version number (_ssl.c:992)",
            False,
            "https://lembas.example.org does not speak TLS; check its port",
        ),
        (
            "https://localhost:8437/x",
            "[SSL: RECORD_LAYER_FAILURE] record layer failure (_ssl.c:1006)",
            False,
            "https://localhost:8437 does not speak TLS; write http:// for a server on this machine",
        ),
        (
            URL,
            "All connection attempts failed",
            False,
            (
                f"{URL} cannot be reached (All connection attempts failed); "
                "see that it runs, and check the network"
            ),
        ),
        (
            URL,
            "Name or\x1b[2J service not known",
            True,
            (
                f"{URL} cannot be reached (Name or [2J service not known); see that it runs, "
                "and check the network, which must go without the proxy of the environment"
            ),
        ),
    ],
)
def test_no_answer_is_said_with_what_can_be_done(
    url: str, what: str, proxied: bool, said: str
) -> None:
    assert faults.unreachable(url, what, proxied=proxied) == said


def test_what_is_no_whole_answer_is_told_from_none() -> None:
    assert faults.garbled(URL, "Receive buffer too long") == (
        f"{URL} gives no whole answer (Receive buffer too long); "
        "see that it is a LLeMbas server, and that it runs"
    )


@pytest.mark.parametrize(
    ("location", "said"),
    [
        (
            "https://www.example.org/v1/models?next=1",
            (
                "https://lembas.example.org sends on to https://www.example.org; "
                "if that is your server, run `lembas login --server https://www.example.org`"
            ),
        ),
        ("/login", f"{URL} sends on to /login; is it a LLeMbas server?"),
        ("https://lembas.example.org", f"{URL} sends on to /; is it a LLeMbas server?"),
        ("", f"{URL} sends on to /v1/models; is it a LLeMbas server?"),
        ("javascript:alert(1)", f"{URL} sends on to nowhere; is it a LLeMbas server?"),
        ("https://[::1", f"{URL} sends on to nowhere; is it a LLeMbas server?"),
        ("https://me:secret@example.org/", f"{URL} sends on to nowhere; is it a LLeMbas server?"),
        ("//\x1b[2Jx.org/", None),
    ],
)
def test_a_redirect_is_said_and_where_to(location: str, said: str | None) -> None:
    told = faults.redirected(URL, location)
    assert told.isprintable()
    assert said is None or told == said


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Fake", "Fake"),
        ("  a\r\nb\x07 ", "a  b"),
        ("x" * 300, "x" * 300),
        ("x" * 301, "x" * 300 + "…"),
    ],
)
def test_a_text_of_the_other_sides_is_plain_and_short(text: str, shown: str) -> None:
    assert faults.plain(text) == shown


@pytest.mark.parametrize(
    ("numbers", "said"),
    [
        ([], "none"),
        ([1], "1"),
        ([1, 2], "1 and 2"),
        ([1, 2, 4], "1, 2 and 4"),
        (list(range(99)), "0, 1, 2, 3, 4, 5, 6 and 7"),
    ],
)
def test_numbers_are_listed_as_a_sentence_has_them(numbers: list[int], said: str) -> None:
    assert faults.listing(numbers) == said
