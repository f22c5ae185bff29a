"""A line that starts ranks with horovodrun or mpirun, token by token, and the line that starts them now."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

from migrator.api import RefusalError, Word

from .options import ELASTIC, HOROVODRUN, INSTEAD, LAUNCHERS, MPIRUN

PORT = 29400
WORKERS = "launch_workers.py"
ON_EACH = "start torchrun on each, with --nnodes and --rdzv-endpoint"
HERE = ("localhost", "127.0.0.1", "$(hostname)", "$HOSTNAME", "${HOSTNAME}", "`hostname`", "$(hostname -s)")
_PYTHON = ("python", "python3", "pythonw")


@dataclass(frozen=True)
class Started:
    """What a launcher starts: its interpreter with options, and the script, module or other command with arguments.

    ``script`` is the file's or, where ``is_module``, the module's name; None where the command names none.
    """

    interpreter: Word | None
    options: tuple[Word, ...]
    program: tuple[Word, ...]
    script: str | None = None
    is_module: bool = False


@dataclass(frozen=True)
class Line:
    """A launcher with its options by name, in order, and what it starts."""

    launcher: str
    options: tuple[tuple[str, tuple[Word, ...]], ...]
    started: Started

    def values(self, name: str) -> list[tuple[Word, ...]]:
        """What each option called ``name`` was given."""
        return [values for option, values in self.options if option == name]

    def value(self, name: str) -> Word | None:
        """The last value of an option, None without it."""
        found = self.values(name)
        return found[-1][0] if found else None


@dataclass(frozen=True)
class Translation:
    """The words of the new line, the variables to set for it, and what a person should know."""

    words: tuple[Word | str, ...]
    environment: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def launcher_of(word: Word) -> str:
    """The launcher that a word names, or nothing."""
    name = word.value.rpartition("/")[2]
    return name if name in LAUNCHERS else ""


def read_line(words: Sequence[Word]) -> Line:
    """A line from its launcher on. Raises RefusalError for an option that is not known."""
    launcher = launcher_of(words[0])
    if any(word.value == ":" for word in words):
        raise RefusalError("the line starts several programs at once: start each by its own launcher")
    known = HOROVODRUN if launcher == "horovodrun" else MPIRUN
    options: list[tuple[str, tuple[Word, ...]]] = []
    position = 1
    while position < len(words) and words[position].value.startswith("-"):
        name, glued = _split(words[position])
        if name not in known:
            raise RefusalError(f"{launcher}'s option {name} is not known here")
        canonical, number = known[name]
        following = words[position + 1 : position + 1 + number]
        if glued is not None:
            following = following[: number - 1]
        elif canonical == "set_apart" and following and "=" in following[0].value:
            canonical, following = "set", following[:1]
        elif len(following) < number:
            raise RefusalError(f"{launcher}'s option {name} has no value")
        options.append((canonical, (*([glued] if glued else []), *following)))
        position += 1 + len(following)
    return Line(launcher, tuple(options), _started(words[position:]))


def _split(word: Word) -> tuple[str, Word | None]:
    """An option's name, and the value that is written in the same word."""
    name, equals, value = word.value.partition("=")
    if not equals:
        return name, None
    return name, Word(word.text.partition("=")[2], value, word.span, word.is_literal)


def _started(words: Sequence[Word]) -> Started:
    if not words or not is_python(words[0]):
        return Started(None, (), tuple(words), _script_among(words))
    position = 1
    while position < len(words) and words[position].value.startswith("-") and words[position].value not in ("-m", "-c"):
        position += 2 if words[position].value in ("-W", "-X") else 1
    options, program = tuple(words[1:position]), tuple(words[position:])
    if not program or program[0].value == "-c":
        return Started(None, (), tuple(words))
    is_module = program[0].value == "-m"
    script = program[is_module].value if len(program) > is_module else None
    return Started(words[0], options, program, script, is_module)


def _script_among(words: Sequence[Word]) -> str | None:
    """The script that a command starts, directly or behind others: ``bash bind.sh -- python train.py``."""
    for position, word in enumerate(words):
        if word.value.endswith(".py") and (position == 0 or any(is_python(before) for before in words[:position])):
            return word.value
    return None


def is_python(word: Word) -> bool:
    """Whether a word names an interpreter: ``python3.8``, a path to one, or a variable called so."""
    name = word.value.rpartition("/")[2]
    if not word.is_literal:
        return word.value.endswith("executable") or "python" in word.value.lower().strip("\"'${}()").split(":")[0]
    return name.rstrip("0123456789.") in _PYTHON


def _option(name: str, value: Word | str) -> list[Word | str]:
    """An option with its value in one word, where one can be made of them."""
    if isinstance(value, Word) and value.is_code:
        return [name, value]
    return [f"{name}={value if isinstance(value, str) else value.text}"]


def torchrun(line: Line) -> Translation:
    """The line with torchrun. Raises RefusalError where ranks and hosts cannot be told from it."""
    hosts, per_host = _hosts(line)
    where = ["--standalone"]
    notes = []
    if len(hosts) > 1:
        where = [f"--nnodes={len(hosts)}"]
        notes = [f"torchrun is started on every host, {' and '.join(hosts)}: the same line on each"]
    elif hosts and hosts[0] not in HERE:
        notes = [f"torchrun is started on {hosts[0]} itself"]
    words: list[Word | str] = ["torchrun", *where, *_option("--nproc-per-node", per_host)]
    if len(hosts) > 1:
        words += ["--rdzv-backend=c10d", f"--rdzv-endpoint={hosts[0]}:{PORT}"]
    words += _kept_options(line)
    head, program = _program(line.started)
    words = [*head, *words[1:]] if head else words
    dropped, environment = _dropped(line), _environment(line)
    return Translation((*words, *program), environment, (*notes, *dropped))


def _program(started: Started) -> tuple[list[Word | str], list[Word | str]]:
    """How torchrun itself is started where a certain interpreter is asked for, and what it is given to start."""
    interpreter, options = started.interpreter, [o for o in started.options if o.value != "-u"]
    if interpreter is None:
        as_script = bool(started.program) and started.program[0].value.endswith(".py")
        return [], [*([] if as_script else ["--no-python"]), *started.program]
    if options:
        return [], ["--no-python", interpreter, *started.options, *started.program]
    if interpreter.value in _PYTHON:
        return [], [*started.program]
    return [_again(interpreter), "-m", "torch.distributed.run"], [*started.program]


def _again(word: Word) -> Word | str:
    """A word in another place than its own."""
    return word if word.is_code else word.text


def workers(line: Line, launcher: str) -> Translation:
    """The line with the launcher of TensorFlow workers, which lies at ``launcher``. Raises RefusalError likewise."""
    hosts, per_host = _hosts(line)
    started = line.started
    interpreter = _again(started.interpreter) if started.interpreter else "python"
    notes = []
    where: list[Word | str] = ["-np", per_host if isinstance(per_host, str) else _again(per_host)]
    if len(hosts) > 1:
        slots = per_host if isinstance(per_host, str) else per_host.text
        where = ["--hosts", ",".join(f"{host}:{slots}" for host in hosts), "--host-index", "$HOST_INDEX"]
        notes = [f"it is started on every host, {' and '.join(hosts)}, with HOST_INDEX from 0 in that order"]
    is_script = started.script is not None and not started.is_module
    plain = is_script and all(option.value == "-u" for option in started.options)
    command = (
        [*started.program]
        if plain or started.interpreter is None
        else [started.interpreter, *started.options, *started.program]
    )
    dropped, environment = _dropped(line), _environment(line)
    return Translation((interpreter, launcher, *where, *command), environment, (*notes, *dropped))


def alone(line: Line) -> Translation:
    """The line without a launcher: the program starts its ranks itself."""
    started = line.started
    head = [started.interpreter] if started.interpreter else []
    return Translation((*head, *started.options, *started.program), _environment(line), tuple(_dropped(line)))


def in_pod(line: Line, launcher: str) -> Translation:
    """The line in each pod of a job, whose operator tells torchrun or TensorFlow of the others."""
    if launcher == "torchrun":
        head, program = _program(line.started)
        return Translation((*(head or ["torchrun"]), *program), _environment(line), tuple(_dropped(line)))
    return alone(line)


def _hosts(line: Line) -> tuple[list[str], Word | str]:
    """The hosts, none where only this machine is meant, and the ranks of each as they are written."""
    for name in ELASTIC:
        if line.values(name):
            instead = "start torchrun --nnodes=MIN:MAX --max-restarts=N on each host that joins"
            raise RefusalError(f"the number of ranks may change: {instead}")
    if line.values("hostfile"):
        raise RefusalError(f"the hosts are named in a file: {ON_EACH}")
    number, named, per_host = line.value("np"), line.value("hosts"), line.value("per_host")
    if named is not None and named.is_code and not named.value.strip("f\"'").startswith(HERE):
        raise RefusalError(f"the hosts are decided at run time: {ON_EACH}")
    if named is not None and (named.is_literal or "," not in named.value):
        return _named_hosts(named, number, per_host)
    if named is not None:
        raise RefusalError(f"the hosts are decided at run time: {ON_EACH}")
    if per_host is not None:
        return [], _spread(number, per_host)
    if number is None:
        raise RefusalError("the line does not say how many ranks it starts: write torchrun's --nproc-per-node")
    return [], number


def _named_hosts(named: Word, number: Word | None, per_host: Word | None) -> tuple[list[str], Word | str]:
    parts = [part.rpartition(":") if ":" in part else (part, "", "") for part in named.value.split(",")]
    hosts = [host for host, _, _ in parts]
    if len(hosts) == 1:
        if not named.is_literal and hosts[0] not in HERE and ":" not in named.value:
            raise RefusalError("the hosts are decided at run time: start torchrun on each, with --nnodes")
        slots: Word | str = number if number is not None else parts[0][2]
        if not slots:
            raise RefusalError("the line does not say how many ranks it starts: write torchrun's --nproc-per-node")
        return hosts, slots
    slots_of = [slots or (per_host.value if per_host is not None else "") for _, _, slots in parts]
    if not all(slots.isdigit() for slots in slots_of):
        raise RefusalError("the line does not say how many ranks each host has: give torchrun --nproc-per-node on each")
    counts = [int(slots) for slots in slots_of]
    total = int(number.value) if number is not None and number.value.isdigit() else sum(counts)
    used = _filled(hosts, counts, total)
    if len(set(used.values())) != 1:
        each = ", ".join(f"--nproc-per-node={count} on {host}" for host, count in used.items())
        raise RefusalError(f"the hosts have different numbers of ranks: start torchrun by hand, with {each}")
    if len(used) > 1 and any(host in HERE for host in used):
        raise RefusalError(
            "one of the hosts has a name that only it knows: name it as the others do, and write torchrun's line"
        )
    return list(used), str(next(iter(used.values())))


def _filled(hosts: Sequence[str], counts: Sequence[int], total: int) -> dict[str, int]:
    """The hosts that ``total`` ranks fill, one after the other, as Horovod does."""
    used: dict[str, int] = {}
    for host, count in zip(hosts, counts, strict=True):
        if total > 0:
            used[host] = min(count, total)
            total -= used[host]
    if total > 0:
        raise RefusalError("the line asks for more ranks than its hosts have slots")
    return used


def _spread(number: Word | None, per_host: Word) -> Word:
    """Ranks by host where a scheduler knows the hosts."""
    if number is None or number.value == per_host.value:
        return per_host
    nodes = "HOSTS"
    if number.value.isdigit() and per_host.value.isdigit():
        nodes = str(-(-int(number.value) // int(per_host.value)))
    where = f"--nnodes={nodes} --nproc-per-node={per_host.value} --rdzv-backend=c10d --rdzv-endpoint=FIRST_HOST:{PORT}"
    raise RefusalError(f"the hosts are not named: start torchrun once on each, with {where}")


def _kept_options(line: Line) -> Iterator[Word | str]:
    """Options of torchrun that do what the launcher's did."""
    if (folder := line.value("output")) is not None:
        yield from (*_option("--log-dir", folder), "--redirects=3")


def _environment(line: Line) -> tuple[str, ...]:
    """Assignments of variables: those that the launcher was told to set, and those that stand for its options."""
    if any(word.is_code for name in ("set", "set_apart", "interfaces") for word in chain(*line.values(name))):
        raise RefusalError("a variable of the environment is put together at run time: set it for torchrun, in env=")
    pairs = [word.text for (word,) in line.values("set") if "=" in word.value]
    pairs += [f"{name.text}={value.text}" for name, value in line.values("set_apart")]
    found = [pair for pair in pairs if not pair.startswith("HOROVOD_")]
    for (interfaces,) in line.values("interfaces"):
        found += [f"GLOO_SOCKET_IFNAME={interfaces.text}", f"NCCL_SOCKET_IFNAME={interfaces.text}"]
    return tuple(found)


def _dropped(line: Line) -> Iterator[str]:
    names = dict.fromkeys(name for name, _ in line.options if name.startswith("-"))
    if names:
        instead = [f"{name}: {INSTEAD[name]}" for name in names if name in INSTEAD]
        yield "; ".join([f"without counterpart, and dropped: {', '.join(names)}", *instead])
    tuning = [word.value for (word,) in line.values("set") if word.value.startswith("HOROVOD_")]
    if tuning:
        yield f"has no effect any more, and is dropped: {', '.join(tuning)}"
    if line.values("workdir"):
        yield "the working directory that it asked for is not set: change to it first"


def translated(line: Line, launcher: str) -> Translation:
    """The line with what starts its program now. Raises RefusalError where ranks and hosts cannot be told from it."""
    if launcher == WORKERS:
        return workers(line, WORKERS)
    return alone(line) if launcher == "python" else torchrun(line)


def environment_before(translation: Translation, before: Sequence[Word], *, is_shell: bool) -> list[str]:
    """The variables to set, behind the words ``before`` the launcher; only a shell takes them there without ``env``."""
    if not translation.environment:
        return []
    is_bare = is_shell and (not before or before[0].value == "time")
    return [*([] if is_bare else ["env"]), *translation.environment]


def shown(words: Sequence[Word | str]) -> str:
    """The words of a line as a person reads them, or what there is of a long line."""
    text = " ".join(word if isinstance(word, str) else word.text for word in words)
    return text if len(text) <= 160 else f"{text[:159]}…"
