"""How the service's environment differs from the login shell's."""

from lembasd.cli.core.environments import differences, faults

GOOD = {"PATH": "/bin:/usr/bin", "LANG": "C.UTF-8"}


def test_the_same_environment_has_no_difference_and_no_fault() -> None:
    assert differences(GOOD, {**GOOD, "SECRET": "not shown"}) == []
    assert faults(GOOD, GOOD) == []


def test_directories_that_the_shell_alone_has_are_named_and_the_rest_counted() -> None:
    shell = {**GOOD, "PATH": "/a:/bin:/b:/a:/c:/d:/e:"}
    assert differences(GOOD, shell) == ["PATH has /a, /b, /c, /d and 1 more as well"]
    assert differences({}, {"PATH": "/a"}) == ["PATH has /a as well"]


def test_a_path_in_another_order_is_a_difference() -> None:
    assert differences(GOOD, {**GOOD, "PATH": "/usr/bin:/bin"}) == [
        "PATH has fewer directories or another order"
    ]


def test_other_values_are_named() -> None:
    service = {"PATH": "/bin", "TZ": "UTC", "SHELL": ""}
    assert differences(service, {"PATH": "/bin", "TZ": "CET", "SHELL": "", "LANG": "C.UTF-8"}) == [
        "LANG is C.UTF-8 (service: not set)",
        "TZ is CET (service: UTC)",
    ]
    assert differences({"PATH": "/bin", "TZ": "UTC"}, {"PATH": "/bin", "TZ": ""}) == [
        "TZ is not set (service: UTC)"
    ]


def test_certificates_that_the_service_does_not_have_are_a_fault() -> None:
    (said,) = faults(GOOD, {**GOOD, "SSL_CERT_FILE": "/ca.pem"})
    assert said.startswith("SSL_CERT_FILE is /ca.pem in your login shell alone")


def test_another_place_for_files_is_a_fault() -> None:
    (said,) = faults({**GOOD, "LEMBAS_HOME": "/x"}, GOOD)
    assert said.startswith("LEMBAS_HOME is not set in your login shell and /x in the service")


def test_a_locale_that_is_not_utf_8_is_a_fault() -> None:
    assert "is C, so" in faults({}, {"LC_ALL": "C", "LANG": "C.UTF-8"})[0]
    assert "is not set, so" in faults({}, {})[0]
    assert faults({}, {"LC_CTYPE": "de_DE.utf8"}) == []
