"""What the instance may open: roots, trust, and paths that are not what they seem."""

from collections.abc import Callable
from pathlib import Path

import pytest

from lembasd.device.limits import (
    is_allowed,
    is_plainly_open,
    judge_opened,
    judge_root,
    resolved_roots,
)
from lembasd.protocol.control import Remote, Settings
from lembasd.protocol.errors import RequestRefused


def settings(*roots: Path | str, trusted: tuple[Path, ...] = (), **remote: object) -> Settings:
    block = {"enabled": True, "require_trust": False, **remote}
    return Settings(
        remote=Remote(roots=[str(root) for root in roots], **block),  # type: ignore[arg-type]
        trusted=[str(one) for one in trusted],
    )


def reason(call: Callable[[], object]) -> str:
    with pytest.raises(RequestRefused) as caught:
        call()
    assert caught.value.code == -32602
    assert caught.value.data is not None
    return str(caught.value.data["reason"])


@pytest.fixture
def project(tmp_path: Path) -> Path:
    path = tmp_path / "root" / "project"
    path.mkdir(parents=True)
    return path


def test_a_directory_inside_a_root_is_accepted(project: Path) -> None:
    allowed = settings(project.parent)
    assert judge_root(str(project), allowed, local=False) == project
    assert judge_root(str(project.parent), allowed, local=False) == project.parent


@pytest.mark.spec("session/new: cwd must be inside the roots")
def test_a_directory_outside_is_refused(project: Path, tmp_path: Path) -> None:
    assert reason(lambda: judge_root(str(tmp_path), settings(project), local=False)) == "folder"


def test_a_session_that_a_person_shows_needs_no_folder_while_none_is_allowed(
    project: Path, tmp_path: Path
) -> None:
    judge_opened(project, settings(), shared=True)
    assert reason(lambda: judge_opened(project, settings())) == "folder"
    outside = settings(tmp_path / "other")
    assert reason(lambda: judge_opened(project, outside, shared=True)) == "folder"
    off, untrusted = settings(enabled=False), settings(require_trust=True)
    assert reason(lambda: judge_opened(project, off, shared=True)) == "remote_off"
    assert reason(lambda: judge_opened(project, untrusted, shared=True)) == "trust"


def test_a_name_that_begins_like_a_root_is_outside(project: Path) -> None:
    other = project.with_name("project-2")
    other.mkdir()
    assert reason(lambda: judge_root(str(other), settings(project), local=False)) == "folder"


def test_a_link_that_leads_out_is_judged_where_it_leads(project: Path, tmp_path: Path) -> None:
    (project / "out").symlink_to(tmp_path)
    allowed = settings(project)
    assert reason(lambda: judge_root(str(project / "out"), allowed, local=False)) == "folder"
    assert reason(lambda: judge_root(str(project / ".." / ".."), allowed, local=False)) == "folder"


def test_a_root_that_is_a_link_is_followed(project: Path, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(project)
    assert judge_root(str(link), settings(link), local=False) == project


def test_a_root_that_hangs_holds_up_none_that_is_named_as_it_lies(project: Path) -> None:
    (project.parent / "loop").symlink_to(project.parent / "loop")
    settled = settings(project.parent / "loop", project)
    assert judge_root(str(project), settled, local=False) == project
    assert is_allowed(project, settled)
    assert not is_allowed(project, settings(project, enabled=False))


def test_a_root_that_leads_nowhere_allows_nothing_and_breaks_nothing(project: Path) -> None:
    loop = project / "loop"
    loop.symlink_to(loop)
    allowed = settings(loop)
    assert reason(lambda: judge_root(str(project), allowed, local=False)) == "folder"
    assert resolved_roots(allowed) == [loop]


@pytest.mark.spec("session/new: refused without roots or remote work")
def test_with_remote_work_off_everything_is_refused(project: Path) -> None:
    off = settings(project, enabled=False)
    assert reason(lambda: judge_root(str(project), off, local=False)) == "remote_off"
    assert resolved_roots(off) == []


@pytest.mark.spec("session/new: refused without roots or remote work")
def test_without_roots_everything_is_refused(project: Path) -> None:
    assert reason(lambda: judge_root(str(project), settings(), local=False)) == "folder"


@pytest.mark.spec("session/new: cwd must be trusted")
def test_an_untrusted_project_is_refused_and_a_trusted_ones_inside_accepted(project: Path) -> None:
    untrusted = settings(project, require_trust=True)
    assert reason(lambda: judge_root(str(project), untrusted, local=False)) == "trust"
    trusted = settings(project.parent, require_trust=True, trusted=(project.parent,))
    assert judge_root(str(project), trusted, local=False) == project


def test_a_person_at_the_machine_is_not_bound(project: Path) -> None:
    assert judge_root(str(project), settings(enabled=False), local=True) == project


@pytest.mark.parametrize("cwd", ["", "relative", "~/x", "/a\0b"])
def test_what_is_no_absolute_path_is_refused(project: Path, cwd: str) -> None:
    assert reason(lambda: judge_root(cwd, settings(project), local=False)) == "folder"


def test_what_is_not_there_or_no_directory_is_refused(project: Path) -> None:
    (project / "file").write_text("")
    (project / "loop").symlink_to(project / "loop")
    allowed = settings(project)
    for name in ("gone", "file", "file/below", "loop"):
        assert reason(lambda n=name: judge_root(str(project / n), allowed, local=False)) == "folder"  # type: ignore[misc]


@pytest.mark.spec("limits: judged at each request")
def test_an_open_session_is_judged_again_when_the_limits_change(project: Path) -> None:
    judge_opened(project, settings(project))
    assert reason(lambda: judge_opened(project, settings("/somewhere/else"))) == "folder"


def test_what_the_disk_need_not_be_asked_for_is_said_without_it(
    project: Path, tmp_path: Path
) -> None:
    (tmp_path / "link").symlink_to(project.parent)
    for allowed, plainly in (
        (settings(project.parent), True),
        (settings(project, require_trust=True, trusted=(project.parent,)), True),
        (settings(tmp_path / "link"), False),
        (settings(project.parent, enabled=False), False),
        (settings(), False),
        (settings(project, require_trust=True), False),
    ):
        assert is_plainly_open(project, allowed) is plainly
