"""What is asked of process sets, hosts and compressors."""

import horovod.torch as hvd
import torch

first = hvd.ProcessSet([0])
hvd.init(process_sets=[first])
everyone = hvd.global_process_set

print("TRACE first.included", first.included())
print("TRACE first.ranks", first.ranks)
if first.included():
    print("TRACE first.rank", first.rank())
    print("TRACE first.size", first.size())
print("TRACE everyone", everyone.rank(), everyone.size(), everyone.included())
print("TRACE world", hvd.global_process_set.rank(), hvd.global_process_set.size(), hvd.global_process_set.ranks)
print("TRACE cross", hvd.cross_rank(), hvd.cross_size())

values = torch.tensor([1.0001, 65504.0, -3.14159]) * (hvd.rank() + 1)
small, dtype = hvd.Compression.fp16.compress(values)
print("TRACE small", small.dtype, [float(value).hex() for value in small])
large = hvd.Compression.fp16.decompress(small, dtype)
print("TRACE large", large.dtype, [float(value).hex() for value in large])
counts = torch.tensor([hvd.rank(), 7])
kept, dtype = hvd.Compression.fp16.compress(counts)
print("TRACE kept", kept.dtype, kept.tolist(), hvd.Compression.fp16.decompress(kept, dtype).tolist())
same, context = hvd.Compression.none.compress(values)
print("TRACE same", context, torch.equal(hvd.Compression.none.decompress(same, context), values))
hvd.barrier()
