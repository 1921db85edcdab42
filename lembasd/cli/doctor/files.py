"""Directories, configuration, login, socket, disk."""

import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from lembasd.cli import logged_in
from lembasd.cli.doctor.finding import Finding, fail, ok, warn
from lembasd.device import config, trust
from lembasd.device.log_file import FILE_NAME, KEPT, MAX_FILE_BYTES, files
from lembasd.device.paths import MAX_SOCKET_PATH_BYTES, Paths
from lembasd.protocol.amounts import say_size
from lembasd.protocol.errors import LembasError, says
from lembasd.protocol.limits import MIB
from lembasd.store import footprint

#: free bytes where state is kept: less is short, and less than the second is as good as full
LOW_DISK_BYTES: Final = 1024 * MIB
FULL_DISK_BYTES: Final = 100 * MIB
#: names that can still be made there
FEW_INODES: Final = 1000


def look(paths: Paths) -> Iterator[Finding]:
    """Everything that is told by the files alone."""
    yield _directories(paths)
    yield from _config(paths)
    yield _login(paths)
    yield _socket(paths)
    yield _disk(paths)
    yield _store(paths)
    yield _log(paths)


def _directories(paths: Paths) -> Finding:
    name, places = "directories", (paths.config, paths.state, paths.run)
    there = [one for one in places if one.exists()]
    for one in there:
        about = one.stat()
        if about.st_uid != os.getuid():
            return fail(name, f"{one} belongs to another user; run `sudo chown -R $USER {one}`")
        if about.st_mode & 0o022 or (one == paths.run and about.st_mode & 0o077):
            return fail(name, f"others may enter or change {one}; run `chmod 700 {one}`")
        if not os.access(one, os.W_OK | os.X_OK):
            return fail(
                name, f"{one} cannot be written; see its rights, or how its disk is mounted"
            )
    if len(there) < len(places):
        return ok(
            name, f"below {paths.config} and {paths.state}; the first `lembasd run` makes them"
        )
    return ok(name, f"{paths.config}, {paths.state}, {paths.run}")


def _config(paths: Paths) -> Iterator[Finding]:
    try:
        loaded = config.load(paths.config_file)
        trusted = trust.load(paths.trust_file)
    except LembasError as error:
        yield fail("config", str(error))
        return
    for warning in loaded.warnings:
        yield warn("config", warning)
    remote = loaded.config.remote
    allowed = f"remote work is {'on' if remote.enabled else 'off'}"
    if remote.enabled and not remote.roots:
        yield warn("config", "remote work is on in no directory; name one with `lembas remote add`")
    elif remote.enabled and remote.require_trust and not trusted:
        yield warn("config", "remote work is on, but no project is trusted; see `lembas trust add`")
    elif not loaded.warnings:
        yield ok("config", f"{paths.config_file}: {allowed}, {len(trusted)} trusted projects")


def _login(paths: Paths) -> Finding:
    try:
        login = logged_in.find(paths)
    except (LembasError, OSError) as error:
        return fail("login", says(error) if isinstance(error, OSError) else str(error))
    if login is None:
        return warn("login", "nobody is logged in; run `lembas login --server URL`")
    return ok("login", f"{login.credentials.server}, in a file that is yours alone")


def _socket(paths: Paths) -> Finding:
    path = paths.socket
    if len(os.fsencode(path)) > MAX_SOCKET_PATH_BYTES:
        return fail(
            "socket", f"{path} is too long a path; set LEMBAS_HOME or TMPDIR to a shorter one"
        )
    try:
        about = path.lstat()
    except FileNotFoundError:
        return ok("socket", f"{path} is not there; a hub makes it")
    if not stat.S_ISSOCK(about.st_mode):
        return warn("socket", f"{path} is no socket; the next hub removes it")
    if about.st_uid != os.getuid():
        return fail("socket", f"{path} belongs to another user; remove it, or set LEMBAS_HOME")
    return ok("socket", f"{path}")


def _existing(path: Path) -> Path:
    return path if path.exists() else _existing(path.parent)


def _disk(paths: Paths) -> Finding:
    where = _existing(paths.state)
    free, names = shutil.disk_usage(where).free, os.statvfs(where)
    said = f"{free // MIB} MiB free at {where}"
    if free < FULL_DISK_BYTES:
        return fail("disk", f"{said}: turns cannot be kept; free some space")
    if names.f_files and names.f_favail < FEW_INODES:
        return fail("disk", f"{names.f_favail} files can still be made at {where}; remove some")
    if free < LOW_DISK_BYTES:
        return warn("disk", f"{said}; free some space before it is full")
    return ok("disk", said)


def _store(paths: Paths) -> Finding:
    sessions = footprint.stored(paths)
    size = sum(one.total_bytes for one in sessions)
    said = f"{len(sessions)} sessions take {say_size(size)}"
    try:
        most = config.load(paths.config_file).config.retention.max_bytes
    except LembasError:
        return ok("store", said)  # the line above says what is wrong with it
    if size > most:
        return warn(
            "store",
            f"{said}, over retention.size ({say_size(most)}); see `lembas sessions prune --dry-run`",
        )
    return ok("store", f"{said}; {say_size(most)} is when you are warned")


def _log(paths: Paths) -> Finding:
    found = files(paths.log)
    size = sum(one.stat().st_size for one in found)
    said = f"{size // MIB} MiB in {len(found)} files, at most {(KEPT + 1) * MAX_FILE_BYTES // MIB}"
    if found and not os.access(paths.log / FILE_NAME, os.W_OK):
        return fail("log", f"{paths.log / FILE_NAME} cannot be written; run `chmod 600` on it")
    return ok("log", said)
