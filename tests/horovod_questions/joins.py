hvd.init()
r = hvd.rank()
net = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 1))
for p in net.parameters():
    torch.nn.init.constant_(p, 0.5 + r)
hvd.broadcast_parameters(net.state_dict(), root_rank=0)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9, weight_decay=0.1)
optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=net.named_parameters())
for epoch, batches in enumerate(({0: 3, 1: 1, 2: 2}, {0: 1, 1: 2, 2: 3}, {0: 0, 1: 1, 2: 1})):
    for i in range(batches[r]):
        optimizer.zero_grad()
        net(torch.tensor([[1.0 + r, 2.0 + i]])).sum().backward()
        optimizer.step()
    if epoch < 2:
        last = hvd.join()
        ask(f"{epoch}.last", lambda: last)
    else:
        hvd.join()
    ask(f"{epoch}.weights", lambda: [p.detach() for p in net.parameters()])
    ask(f"{epoch}.gradients", lambda: [p.grad.clone() for p in net.parameters()])
    loss = hvd.allreduce(torch.tensor(float(r + epoch)), name=f"loss{epoch}")
    ask(f"{epoch}.loss", lambda: loss)
