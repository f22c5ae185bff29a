"""The options of horovodrun and of the mpirun of Open MPI, MPICH and Intel: what each is called here, and its values.

A name that starts with a dash is dropped, and named. The options of horovodrun are those of Horovod 0.28.1.
"""

LAUNCHERS = ("horovodrun", "mpirun", "mpiexec", "mpiexec.hydra", "mpirun_rsh", "orterun")
ELASTIC = ("least", "most", "discovery", "reset_limit")

_OF_HOROVODRUN: dict[str, tuple[str, int]] = {
    **dict.fromkeys(("-np", "--num-proc"), ("np", 1)),
    **dict.fromkeys(("-H", "--hosts"), ("hosts", 1)),
    **dict.fromkeys(("-hostfile", "--hostfile"), ("hostfile", 1)),
    **dict.fromkeys(("--network-interface", "--network-interfaces"), ("interfaces", 1)),
    **dict.fromkeys(("-cb", "--check-build"), ("check_build", 0)),
    **dict.fromkeys(("-v", "--version"), ("version", 0)),
    **dict.fromkeys(("--min-np", "--min-num-proc"), ("least", 1)),
    **dict.fromkeys(("--max-np", "--max-num-proc"), ("most", 1)),
    "--host-discovery-script": ("discovery", 1),
    "--reset-limit": ("reset_limit", 1),
    "--slots-per-host": ("per_host", 1),
    "--output-filename": ("output", 1),
}
_WITH_VALUE = (
    *("--start-timeout", "--config-file", "-p", "--ssh-port", "-i", "--ssh-identity-file", "--fusion-threshold-mb"),
    *("--cycle-time-ms", "--cache-capacity", "--autotune-log-file", "--autotune-warmup-samples"),
    *("--autotune-steps-per-sample", "--autotune-bayes-opt-max-samples", "--autotune-gaussian-process-noise"),
    *("--elastic-timeout", "--timeline-filename", "--stall-check-warning-time-seconds"),
    *("--stall-check-shutdown-time-seconds", "--mpi-args", "--binding-args", "--num-nccl-streams", "--thread-affinity"),
    *("--gloo-timeout-seconds", "--log-level"),
)
_FLAGS = (
    *("--disable-cache", "--verbose", "--tcp", "--gloo", "--mpi", "--jsrun", "--use-gloo", "--use-mpi", "--use-jsrun"),
    *("-prefix-timestamp", "--prefix-output-with-timestamp", "--stall-check", "--no-stall-check"),
    *("--log-with-timestamp", "--log-without-timestamp", "--log-hide-timestamp", "--no-log-hide-timestamp"),
    *("--timeline-mark-cycles", "--no-timeline-mark-cycles", "--autotune", "--no-autotune"),
    *("--hierarchical-allreduce", "--no-hierarchical-allreduce", "--hierarchical-allgather"),
    *("--no-hierarchical-allgather", "--torus-allreduce", "--no-torus-allreduce"),
    *("--mpi-threads-disable", "--no-mpi-threads-disable"),
)
HOROVODRUN: dict[str, tuple[str, int]] = {
    **{option: (option, 1) for option in _WITH_VALUE},
    **{option: (option, 0) for option in _FLAGS},
    "--blacklist-cooldown-range": ("--blacklist-cooldown-range", 2),
    **_OF_HOROVODRUN,
}


def _with_both_dashes(*names: str) -> tuple[str, ...]:
    return tuple(dashes + name for name in names for dashes in ("-", "--"))


MPIRUN: dict[str, tuple[str, int]] = {
    **{option: (option, 1) for option in _with_both_dashes(
        "bind-to", "map-by", "rank-by", "output-filename", "prefix", "cpus-per-proc", "cpu-set", "stdin", "bootstrap",
        "launcher", "iface", "binding", "topolib", "tune", "am", "app", "npersocket", "cpu-list", "rmk",
    )},
    **{option: (option, 0) for option in _with_both_dashes(
        "allow-run-as-root", "oversubscribe", "nooversubscribe", "tag-output", "timestamp-output", "report-bindings",
        "display-map", "display-allocation", "bynode", "byslot", "bycore", "bind-to-core", "bind-to-none", "verbose",
        "quiet", "nolocal", "merge-stderr-to-stdout", "use-hwthread-cpus", "show-progress", "mca-params",
        "enable-recovery",
        "genvall", "envall", "genvnone", "envnone", "prepend-rank", "print-rank-map", "leave-session-attached", "debug",
    )},
    **dict.fromkeys(("-v", "-q", "-l"), ("-v", 0)),
    **{option: (option, 2) for option in _with_both_dashes("mca", "gmca", "omca", "pmixmca")},
    **dict.fromkeys(("-genvlist", "-envlist"), ("-genvlist", 1)),
    **dict.fromkeys((*_with_both_dashes("np", "n", "c"),), ("np", 1)),
    **dict.fromkeys((*_with_both_dashes("host", "hosts"), "-H"), ("hosts", 1)),
    **dict.fromkeys(
        (*_with_both_dashes("hostfile", "machinefile", "default-hostfile", "configfile"), "-f"), ("hostfile", 1)
    ),
    **dict.fromkeys((*_with_both_dashes("npernode", "ppn", "perhost", "map-by-node"), "-N"), ("per_host", 1)),
    **dict.fromkeys(_with_both_dashes("wdir", "wd", "workdir"), ("workdir", 1)),
    **dict.fromkeys(("-V", "--version"), ("version", 0)),
    "-x": ("set", 1),
    **dict.fromkeys(_with_both_dashes("env", "genv"), ("set_apart", 2)),
}  # fmt: skip

INSTEAD = {
    "--fusion-threshold-mb": "DDP has bucket_cap_mb",
    "--gloo-timeout-seconds": "init_process_group has timeout",
    "--stall-check-shutdown-time-seconds": "init_process_group has timeout",
    "--start-timeout": "torchrun has --rdzv-conf=join_timeout=SECONDS",
    "--timeline-filename": "torch.profiler records a trace",
    "--log-level": "torch reads TORCH_DISTRIBUTED_DEBUG",
    "--config-file": "its options are torchrun's now: look through it",
}
