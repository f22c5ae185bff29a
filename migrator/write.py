"""Writing a program: all of its files or none, also when the run is killed; and the same as a patch.

A run first creates a journal in the folder common to the files, then stages each new content beside its file, and only
when every one is on the disk does it replace them. The journal is the lock against a second run, and tells ``recover``
how to finish what a killed run began.
"""

from __future__ import annotations

import difflib
import errno
import hashlib
import json
import os
import re
import secrets
import stat
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from io import BufferedReader
from itertools import islice
from pathlib import Path, PurePosixPath

from migrator.files import JOURNAL, Problem, explain, read
from migrator.result import FileResult

_TEMP = re.compile(r"\.hvd-migrate-[0-9a-f]{16}-\d{1,9}\.tmp")
_HASH = re.compile(r"[0-9a-f]{64}")
_MOST_BYTES = 64 * 1024 * 1024


class WriteError(Exception):
    """A file that was not written; nothing else of its program was, unless the reason says so."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(path, reason)
        self.path = path
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}"


class _HalfWrittenError(WriteError):
    """Undoing failed too: the journal stays, so that the next run can finish."""


@dataclass(frozen=True)
class Recovery:
    """What ``recover`` did: the files it finished writing, and what it left alone."""

    finished: tuple[Path, ...] = ()
    problems: tuple[Problem, ...] = ()


@dataclass(frozen=True)
class _Job:
    target: Path
    temp: Path
    before: bytes
    after: bytes
    is_new: bool


@dataclass(frozen=True)
class _Entry:
    path: str
    temp: str
    before: str
    after: str


@dataclass(frozen=True)
class _Item:
    """A journal's entry with the hashes of what lies there now."""

    target: Path
    temp: Path
    entry: _Entry
    content: str
    staged: str

    @property
    def is_before(self) -> bool:
        return self.content == self.entry.before

    @property
    def is_after(self) -> bool:
        return self.content == self.entry.after

    @property
    def can_finish(self) -> bool:
        return self.is_after or (self.is_before and self.staged == self.entry.after)

    @property
    def can_undo(self) -> bool:
        return self.is_before or (self.is_after and self.staged == self.entry.before)


@dataclass(frozen=True)
class _Journal:
    pid: int
    files: tuple[_Entry, ...]


def write_files(changes: Sequence[tuple[Path, bytes, bytes]]) -> None:
    """Replace each file's content (path, before, after), all of them or none; links and modes stay.

    Raises WriteError if a file is read-only, no longer holds ``before`` or cannot be written, or if another run is
    writing in the same place.
    """
    jobs = _jobs(changes)
    for job in jobs:
        _check(job)
    if not jobs:
        return
    journal = _lock(_common_folder(jobs), jobs)
    try:
        _stage_all(jobs, lambda job: job.after)
        for job in jobs:
            _check(job)
        _replace_all(jobs)
    except _HalfWrittenError:
        raise
    except BaseException:
        _clean(jobs, journal)
        raise
    _clean(jobs, journal)


def recover(path: Path) -> Recovery:
    """Finish what killed runs began, where a journal lies in the folder ``path`` or in one above it.

    A file that somebody has changed since is left alone, and so is everything a journal names that is not as this
    module writes it.
    """
    start = Path(os.path.realpath(path))
    finished: list[Path] = []
    problems: list[Problem] = []
    for folder in (start, *start.parents):
        if os.path.lexists(folder / JOURNAL):
            done = _recover_one(folder)
            finished += done.finished
            problems += done.problems
    return Recovery(tuple(finished), tuple(problems))


def patch(files: Sequence[FileResult]) -> bytes:
    """The changes as a patch that ``git apply`` takes in the working directory; the files' bytes are kept."""
    return b"".join(_file_patch(file) for file in files if file.status == "changed" and file.before != file.after)


def _jobs(changes: Sequence[tuple[Path, bytes, bytes]]) -> tuple[_Job, ...]:
    token = secrets.token_hex(8)
    jobs: dict[Path, _Job] = {}
    for index, (path, before, after) in enumerate(changes):
        target = Path(os.path.realpath(path))
        if target in jobs:
            raise WriteError(path, "is written twice")
        jobs[target] = _Job(
            target, target.parent / f".hvd-migrate-{token}-{index}.tmp", before, after, is_new(target, before)
        )
    return tuple(jobs.values())


def is_new(path: Path, before: bytes) -> bool:
    """Whether a change creates its file: there is none, and nothing is expected in it."""
    return not before and not os.path.lexists(path)


def _common_folder(jobs: Sequence[_Job]) -> Path:
    return Path(os.path.commonpath([job.target.parent for job in jobs]))


def _check(job: _Job) -> None:
    if job.is_new and not os.path.lexists(job.target):
        return
    try:
        mode = os.lstat(job.target).st_mode
        if not stat.S_ISREG(mode):
            raise WriteError(job.target, "not a file")
        if not mode & stat.S_IWUSR or not os.access(job.target, os.W_OK):
            raise WriteError(job.target, "is read-only")
        content = read(job.target)
    except OSError as error:
        raise WriteError(job.target, explain(error)) from error
    if content != job.before:
        raise WriteError(job.target, "changed while hvd-migrate ran")


def _lock(folder: Path, jobs: Sequence[_Job]) -> Path:
    path = folder / JOURNAL
    entries = tuple(
        _Entry(job.target.relative_to(folder).as_posix(), job.temp.name, _hash(job.before), _hash(job.after))
        for job in jobs
    )
    content = json.dumps(asdict(_Journal(os.getpid(), entries)), indent=1).encode()
    if os.path.lexists(path):
        problems = _recover_one(folder).problems
        if os.path.lexists(path):
            raise WriteError(path, problems[0].reason if problems else "another run is writing")
    try:
        _create(path, content)
        _sync_folders([path])
    except FileExistsError as error:
        raise WriteError(path, "another run is writing") from error
    except OSError as error:
        raise WriteError(path, explain(error)) from error
    return path


def _create(path: Path, content: bytes, like: os.stat_result | None = None) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with open(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            if like:
                _imitate(descriptor, like)
            elif path.name != JOURNAL:
                os.fchmod(descriptor, _usual_mode())
            os.fsync(descriptor)
    except BaseException:
        path.unlink(missing_ok=True)
        raise


def _usual_mode() -> int:
    """The mode that a new file gets from this process."""
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask


def _imitate(descriptor: int, like: os.stat_result) -> None:
    own = os.fstat(descriptor)
    if (own.st_uid, own.st_gid) != (like.st_uid, like.st_gid):
        with suppress(PermissionError):
            os.fchown(descriptor, like.st_uid, like.st_gid)
    os.fchmod(descriptor, stat.S_IMODE(like.st_mode))


def _sync_folders(paths: Iterable[Path]) -> None:
    for folder in {path.parent for path in paths}:
        with suppress(OSError):
            descriptor = os.open(folder, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)


def _stage_all(jobs: Sequence[_Job], content: Callable[[_Job], bytes]) -> None:
    for job in jobs:
        try:
            _create(job.temp, content(job), None if job.is_new else os.lstat(job.target))
        except OSError as error:
            raise WriteError(job.target, explain(error)) from error
    _sync_folders(job.temp for job in jobs)


def _replace_all(jobs: Sequence[_Job]) -> None:
    try:
        for job in jobs:
            _replace(job)
    except BaseException:
        _undo(jobs)
        raise
    _sync_folders(job.target for job in jobs)


def _replace(job: _Job) -> None:
    try:
        os.replace(job.temp, job.target)
    except OSError as error:
        raise WriteError(job.target, explain(error)) from error


def _undo(jobs: Sequence[_Job]) -> None:
    replaced = [job for job in jobs if not job.temp.exists() and _content_hash(job.target) == _hash(job.after)]
    try:
        _stage_all([job for job in replaced if not job.is_new], lambda job: job.before)
        for job in replaced:
            if job.is_new:
                job.target.unlink()
            else:
                _replace(job)
    except BaseException as error:
        raise _HalfWrittenError(jobs[0].target, f"its program is half written, run again to finish: {error}") from error


def _clean(jobs: Iterable[_Job], journal: Path) -> None:
    for path in (*(job.temp for job in jobs), journal):
        with suppress(OSError):
            path.unlink(missing_ok=True)


def _hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _open_plain(path: Path) -> BufferedReader:
    """A regular file, opened for reading without following a link; raises OSError for anything else."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "not a file")
    return open(descriptor, "rb")


def _content_hash(path: Path) -> str:
    """The hash of a file's content, empty if there is none to read."""
    try:
        with _open_plain(path) as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return ""


def _recover_one(folder: Path) -> Recovery:
    path = folder / JOURNAL
    try:
        journal = _read_journal(path)
    except (OSError, ValueError, RecursionError) as error:
        return Recovery(
            problems=(Problem(path, f"not a journal of hvd-migrate, delete it if no run is writing: {error}"),)
        )
    if journal.pid != os.getpid() and _is_alive(journal.pid):
        return Recovery(problems=(Problem(path, f"another run is writing (process {journal.pid})"),))
    items = tuple(_item(folder, entry) for entry in journal.files)
    if any(os.path.realpath(item.target) != str(item.target) for item in items):
        return Recovery(problems=(Problem(path, "not a journal of hvd-migrate: it names a link"),))
    moves, problems = _decide(items)
    try:
        for item in moves:
            os.replace(item.temp, item.target)
        _sync_folders(item.target for item in moves)
    except OSError as error:
        return Recovery(problems=(*problems, Problem(path, explain(error))))
    for leftover in (*(item.temp for item in items), path):
        with suppress(OSError):
            leftover.unlink(missing_ok=True)
    finished = tuple(item.target for item in moves if item.is_before)
    return Recovery(finished, problems)


def _decide(items: Sequence[_Item]) -> tuple[tuple[_Item, ...], tuple[Problem, ...]]:
    """Which staged files to put in place: on to the end if that can be, else back to the start."""
    known = tuple(item for item in items if item.is_before or item.is_after)
    edited = tuple(Problem(item.target, "changed since, left alone") for item in items if item not in known)
    if not all(item.can_finish for item in known) and all(item.can_undo for item in known):
        return tuple(item for item in known if item.is_after), edited
    stuck = (Problem(item.target, "its new content is lost") for item in known if not item.can_finish)
    return tuple(item for item in known if item.is_before and item.can_finish), (*edited, *stuck)


def _item(folder: Path, entry: _Entry) -> _Item:
    target = folder / entry.path
    temp = target.parent / entry.temp
    content = _content_hash(target) if os.path.lexists(target) else _hash(b"")
    return _Item(target, temp, entry, content, _content_hash(temp))


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _read_journal(path: Path) -> _Journal:
    with _open_plain(path) as file:
        data = file.read(_MOST_BYTES + 1)
    if len(data) > _MOST_BYTES:
        raise ValueError("too large")
    match json.loads(data):
        case {"pid": int(pid), "files": [*files]} if 0 < pid < 2**31:
            return _Journal(pid, tuple(_read_entry(file) for file in files))
    raise ValueError("other content")


def _read_entry(data: object) -> _Entry:
    match data:
        case {"path": str(path), "temp": str(temp), "before": str(before), "after": str(after)} if (
            _is_inside(path) and _TEMP.fullmatch(temp) and _HASH.fullmatch(before) and _HASH.fullmatch(after)
        ):
            return _Entry(path, temp, before, after)
    raise ValueError("it names a file that is none of a program's")


def _is_inside(path: str) -> bool:
    pure = PurePosixPath(path)
    plain = pure.as_posix() == path and pure.name and not pure.is_absolute() and ".." not in pure.parts
    return bool(plain) and b"\0" not in os.fsencode(path)


def _file_patch(file: FileResult) -> bytes:
    old, new = (_quote(os.fsencode(f"{side}/{file.path}")) for side in "ab")
    head = b"diff --git %b %b\n--- %b\n+++ %b\n" % (old, new, _end(old), _end(new))
    if file.is_new:
        head = b"diff --git %b %b\nnew file mode 100644\n--- /dev/null\n+++ %b\n" % (old, new, _end(new))
    before, after = (_lines(data) for data in (file.before, file.after))
    return head + b"".join(_patch_line(line) for line in islice(difflib.unified_diff(before, after), 2, None))


def _lines(data: bytes) -> list[str]:
    return re.findall(r"[^\n]*\n|[^\n]+", data.decode("latin-1"))


def _patch_line(line: str) -> bytes:
    return (line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n").encode("latin-1")


def _end(name: bytes) -> bytes:
    return name + b"\t" if b" " in name and not name.startswith(b'"') else name


def _quote(name: bytes) -> bytes:
    if not re.search(rb'[\x00-\x1f"\\\x7f-\xff]', name):
        return name
    quoted = re.sub(rb'["\\]', rb"\\\g<0>", name)
    return b'"' + re.sub(rb"[\x00-\x1f\x7f-\xff]", lambda match: b"\\%03o" % match[0][0], quoted) + b'"'
