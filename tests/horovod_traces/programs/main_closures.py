"""Classifier whose main() holds the training and evaluation functions; metrics are averaged."""
import hashlib

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.utils.data.distributed
import horovod.torch as hvd


def main():
    def train_epoch(epoch):
        model.train()
        sampler.set_epoch(epoch)
        for batch_idx, (data, target) in enumerate(loader):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(data), target)
            loss.backward()
            optimizer.step()
            print(f"TRACE loss{epoch}.{batch_idx} {loss.item().hex()}")

    def metric_average(val, name):
        return hvd.allreduce(torch.tensor(val), name=name).item()

    def test(epoch):
        model.eval()
        loss, correct = 0.0, 0
        for data, target in loader:
            output = model(data)
            loss += F.cross_entropy(output, target, reduction="sum").item()
            correct += output.argmax(1).eq(target).sum().item()
        print(f"TRACE mean_loss{epoch} {metric_average(loss / len(sampler), 'avg_loss').hex()}")
        print(f"TRACE named{epoch}", hvd.allreduce(torch.tensor(loss), "sum_loss").item().hex())
        print(f"TRACE mean_correct{epoch}", hvd.allreduce(torch.tensor(correct), name="correct").item())
        print(f"TRACE total_correct{epoch}", hvd.allreduce(torch.tensor(correct), op=hvd.Sum, name="total").item())
        print(f"TRACE total_loss{epoch}", hvd.allreduce(torch.tensor(loss), average=False).item().hex())

    hvd.init()
    torch.manual_seed(hvd.rank())
    generator = torch.Generator().manual_seed(7)
    dataset = torch.utils.data.TensorDataset(torch.randn(24, 6, generator=generator), torch.arange(24) % 3)
    sampler = torch.utils.data.distributed.DistributedSampler(dataset, num_replicas=hvd.size(), rank=hvd.rank())
    loader = torch.utils.data.DataLoader(dataset, batch_size=4, sampler=sampler)
    model = nn.Sequential(nn.Linear(6, 12), nn.Tanh(), nn.Linear(12, 3))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05 * hvd.size(), momentum=0.5)
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
    for epoch in range(2):
        train_epoch(epoch)
        test(epoch)
    counts = torch.tensor([7, -9, 15, -14]) + hvd.rank() * torch.tensor([1, -1, -19, 21])
    print("TRACE counts", hvd.allreduce(counts, name="counts").tolist())
    weights = hashlib.sha256(b"".join(p.detach().numpy().tobytes() for p in model.parameters()))
    print("TRACE weights", weights.hexdigest())


if __name__ == "__main__":
    main()
