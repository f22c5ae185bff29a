hvd.init()
r = hvd.rank()

ask("default", lambda: hvd.allreduce(torch.tensor([1.0, 2.0]) + r))
ask("average", lambda: hvd.allreduce(torch.tensor([1.0, 2.0]) + r, average=True))
ask("not_average", lambda: hvd.allreduce(torch.tensor([1.0, 2.0]) + r, average=False))
ask("sum", lambda: hvd.allreduce(torch.tensor([1.0, 2.0]) + r, op=hvd.Sum))
ask("min", lambda: hvd.allreduce(torch.tensor([1.0, 5.0]) + torch.tensor([r, -r]), op=hvd.Min))
ask("max", lambda: hvd.allreduce(torch.tensor([1.0, 5.0]) + torch.tensor([r, -r]), op=hvd.Max))
ask("product", lambda: hvd.allreduce(torch.tensor([1.0, 5.0]) + torch.tensor([r, -r]), op=hvd.Product))
ask("scalar", lambda: hvd.allreduce(torch.tensor(1.0 + r)))
ask("empty", lambda: hvd.allreduce(torch.empty(0)))
ask("transposed", lambda: hvd.allreduce((torch.arange(6.0).reshape(2, 3) + r).t()))
for name in ("uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64", "bool"):
    x = torch.tensor([3, 4 + r, 7]).to(getattr(torch, name))
    ask(f"{name}.default", lambda: hvd.allreduce(x))
    ask(f"{name}.sum", lambda: hvd.allreduce(x, op=hvd.Sum))
for name in ("int32", "int64"):
    x = torch.tensor([3 + r, -4 - r, 7 + r, -7]).to(getattr(torch, name))
    ask(f"{name}.negative", lambda: hvd.allreduce(x, op=hvd.Average))
    ask(f"{name}.in_place", lambda: hvd.allreduce_(x.clone(), op=hvd.Average))
    for pre, post in ((0.5, 1.0), (1.0, 0.5), (1.0, 2.0), (0.3, 0.7)):
        options = f"{name}.{pre}.{post}"
        ask(f"{options}.sum", lambda: hvd.allreduce(x, op=hvd.Sum, prescale_factor=pre, postscale_factor=post))
        ask(f"{options}.average", lambda: hvd.allreduce(x, prescale_factor=pre, postscale_factor=post))
        ask(f"{options}.max", lambda: hvd.allreduce(x, op=hvd.Max, prescale_factor=pre, postscale_factor=post))
for name in ("float16", "float32", "float64"):
    x = (torch.tensor([0.1, 0.7, 3.3]) * (r + 1)).to(getattr(torch, name))
    for pre, post in ((1.0, 0.1), (0.1, 1.0), (0.3, 0.7), (2.0, 3.0)):
        for way, op in {"average": hvd.Average, "sum": hvd.Sum, "min": hvd.Min, "product": hvd.Product}.items():
            key = f"{name}.{pre}.{post}.{way}"
            ask(key, lambda: hvd.allreduce(x, op=op, prescale_factor=pre, postscale_factor=post))
ask("large.sum", lambda: hvd.allreduce(torch.tensor([2**53 + 3, 2**40 + 1]), op=hvd.Sum))
ask("large.average", lambda: hvd.allreduce(torch.tensor([2**53 + 3, 2**40 + 1])))
ask("large.prescaled", lambda: hvd.allreduce(torch.tensor([2**53 + 3, 2**40 + 1]), op=hvd.Sum, prescale_factor=0.5))
ask("overflow", lambda: hvd.allreduce(torch.tensor([2**30 + 5], dtype=torch.int32)))
for way, op in {"default": None, "average": hvd.Average, "sum": hvd.Sum, "max": hvd.Max, "min": hvd.Min}.items():
    ask(f"chosen.{way}", lambda: hvd.allreduce(torch.tensor([1.0, 5.0]) + torch.tensor([r, -r]), op=op))
    ask(f"chosen.{way}.integers", lambda: hvd.allreduce(torch.tensor([3 + r, -4 - r]), op=op))
    ask(f"chosen.{way}.in_place", lambda: hvd.allreduce_(torch.tensor([3.0 + r, -4 - r]), op=op))
for flag in (None, True, False):
    ask(f"chosen.average.{flag}", lambda: hvd.allreduce(torch.tensor([1.0 + r]), average=flag))

a = torch.tensor([1.0, 2.0]) + r
b = hvd.allreduce(a)
ask("input_stays", lambda: (a, b, b is a))
b = hvd.allreduce_(a)
ask("input_changes", lambda: (a, b is a))
hvd.allreduce_(a[:1], op=hvd.Sum)
ask("slice_changes", lambda: a)
hvd.allreduce_(a, op=hvd.Max, prescale_factor=0.5)
ask("scaled_in_place", lambda: a)
b = hvd.allreduce_(a, op=hvd.Product)
ask("product_in_place", lambda: (a, b is a))

half, whole = hvd.Compression.fp16, hvd.Compression.none
ask("fp16", lambda: hvd.allreduce(torch.tensor([1.0001, 2049.0]), compression=hvd.Compression.fp16))
ask("fp16.double", lambda: hvd.allreduce(torch.tensor([1.0001, 2049.0]).double(), compression=hvd.Compression.fp16))
ask("fp16.integers", lambda: hvd.allreduce(torch.tensor([3, 4 + r]), compression=hvd.Compression.fp16))
ask("fp16.overflow", lambda: hvd.allreduce(torch.tensor([60000.0]), compression=hvd.Compression.fp16))
ask("fp16.sum", lambda: hvd.allreduce(torch.tensor([60000.0]), op=hvd.Sum, compression=hvd.Compression.fp16))
for compression in (half, whole):
    flag = compression is half
    ask(f"fp16.chosen.{flag}", lambda: hvd.allreduce(torch.tensor([1.0001, 2049.0]), compression=compression))
ask("float16.sums", lambda: hvd.allreduce((torch.tensor([1.0, 2048.0]) + torch.tensor([r * 2**-10, r * 2.0])).half()))

ask("gradient.average", lambda: gradient(lambda x: hvd.allreduce(x)))
ask("gradient.sum", lambda: gradient(lambda x: hvd.allreduce(x, op=hvd.Sum)))
ask("gradient.min", lambda: gradient(lambda x: hvd.allreduce(x, op=hvd.Min)))
ask("gradient.max", lambda: gradient(lambda x: hvd.allreduce(x, op=hvd.Max)))
ask("gradient.product", lambda: gradient(lambda x: hvd.allreduce(x, op=hvd.Product)))
ask("gradient.scaled", lambda: gradient(lambda x: hvd.allreduce(x, prescale_factor=0.3, postscale_factor=0.7)))
ask("gradient.fp16", lambda: gradient(lambda x: hvd.allreduce(x * 1.0001, compression=hvd.Compression.fp16)))
ask("gradient.in_place", lambda: gradient(lambda x: hvd.allreduce_(x)))
ask("gradient.in_place.inner", lambda: gradient(lambda x: hvd.allreduce_(x * 2)))
ask("gradient.in_place.sum", lambda: gradient(lambda x: hvd.allreduce_(x * 2, op=hvd.Sum)))
