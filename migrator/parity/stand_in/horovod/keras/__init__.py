"""Horovod for programs that ``import keras``."""

import warnings as warnings

import keras as keras
import tensorflow as tf  # noqa: F401
from packaging import version as version

from horovod.keras import callbacks as callbacks
from horovod.keras import elastic as elastic
from horovod.keras._functions import DistributedOptimizer as DistributedOptimizer
from horovod.keras._functions import K as K
from horovod.keras._functions import PartialDistributedOptimizer as PartialDistributedOptimizer
from horovod.keras._functions import allgather as allgather
from horovod.keras._functions import allreduce as allreduce
from horovod.keras._functions import broadcast as broadcast
from horovod.keras._functions import broadcast_global_variables as broadcast_global_variables
from horovod.keras._functions import load_model as load_model
from horovod.keras._functions import reducescatter as reducescatter
from horovod.tensorflow import Adasum as Adasum
from horovod.tensorflow import Average as Average
from horovod.tensorflow import Sum as Sum
from horovod.tensorflow import ccl_built as ccl_built
from horovod.tensorflow import cross_rank as cross_rank
from horovod.tensorflow import cross_size as cross_size
from horovod.tensorflow import cuda_built as cuda_built
from horovod.tensorflow import ddl_built as ddl_built
from horovod.tensorflow import gloo_built as gloo_built
from horovod.tensorflow import gloo_enabled as gloo_enabled
from horovod.tensorflow import init as init
from horovod.tensorflow import is_initialized as is_initialized
from horovod.tensorflow import local_rank as local_rank
from horovod.tensorflow import local_size as local_size
from horovod.tensorflow import mpi_built as mpi_built
from horovod.tensorflow import mpi_enabled as mpi_enabled
from horovod.tensorflow import mpi_threads_supported as mpi_threads_supported
from horovod.tensorflow import nccl_built as nccl_built
from horovod.tensorflow import rank as rank
from horovod.tensorflow import rocm_built as rocm_built
from horovod.tensorflow import shutdown as shutdown
from horovod.tensorflow import size as size
from horovod.tensorflow import start_timeline as start_timeline
from horovod.tensorflow import stop_timeline as stop_timeline
from horovod.tensorflow.compression import Compression as Compression
from horovod.tensorflow.mpi_ops import global_process_set as global_process_set
