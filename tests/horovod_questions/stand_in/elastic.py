import time

from horovod.common.exceptions import HorovodInternalError, HostsUpdatedInterrupt

shut_down = hvd.elastic.shutdown


def shut_down_slowly():
    shut_down()
    time.sleep(2)  # Horovod aborts if a rank starts again while another one still ends


hvd.elastic.shutdown = shut_down_slowly
hvd.init()
r, n = hvd.rank(), hvd.size()

sampler = hvd.elastic.ElasticSampler(range(10), shuffle=False)
ask("sampler", lambda: (list(sampler), len(sampler)))
shuffled = hvd.elastic.ElasticSampler(range(10))
ask("sampler.shuffled", lambda: list(shuffled))
shuffled.set_epoch(1)
ask("sampler.shuffled.1", lambda: list(shuffled))
ask("sampler.seed", lambda: list(hvd.elastic.ElasticSampler(range(10), seed=3)))
ask("sampler.uneven", lambda: list(hvd.elastic.ElasticSampler(range(11), shuffle=False)))
ask("sampler.fewer", lambda: list(hvd.elastic.ElasticSampler(range(1), shuffle=False)))
sampler.record_batch(0, 1)
ask("sampler.recorded", lambda: (sampler.state_dict(), list(sampler)))
sampler.reset()
ask("sampler.reset", lambda: (list(sampler), len(sampler)))
other = hvd.elastic.ElasticSampler(range(10), shuffle=False)
other.load_state_dict(sampler.state_dict())
ask("sampler.loaded", lambda: list(other))
ask("sampler.record_indices", lambda: sampler.record_indices({1}))
sampler.set_epoch(1)
ask("sampler.next_epoch", lambda: (sampler.state_dict(), list(sampler)))

layer = torch.nn.Linear(1, 1, bias=False)
torch.nn.init.constant_(layer.weight, r + 1.0)
sgd = torch.optim.SGD(layer.parameters(), lr=0.1 * (r + 1), momentum=0.9)
state = hvd.elastic.TorchState(model=layer, optimizer=sgd, epoch=r * 5, batch=r, sampler=sampler)
ask("state", lambda: (state.epoch, state.batch, state.model is layer, state.optimizer is sgd, state.sampler is sampler))
log = []
state.register_reset_callbacks([lambda: log.append("reset")])


@hvd.elastic.run
def train(state, a, k=None):
    """Docstring."""
    log.append((state.epoch, state.batch, layer.weight.item(), sgd.param_groups[0]["lr"], hvd.size(), hvd.rank()))
    state.epoch += 1
    state.commit()
    state.epoch += 1
    return "returned", a, k


ask("run.name", lambda: (train.__name__, train.__doc__))
ask("run", lambda: train(state, 7, k=8))
ask("run.log", lambda: log)
ask("run.epoch", lambda: (state.epoch, hvd.is_initialized()))
state.restore()
ask("restored", lambda: state.epoch)
with torch.no_grad():
    layer.weight.add_(10.0 * (r + 1))
state.commit()
with torch.no_grad():
    layer.weight.add_(100)
state.restore()
ask("restored.model", lambda: layer.weight.item())
state.sync()
ask("synchronized.model", lambda: layer.weight.item())
ask("missing", lambda: state.nope)
state.new = 5
state.commit()
state.new = 6
state.restore()
ask("new", lambda: state.new)
sampler.record_batch(0, 1)
state.commit()
sampler.record_batch(1, 1)
state.restore()
ask("restored.sampler", lambda: (state.sampler.state_dict(), list(state.sampler)))
replacement = torch.nn.Linear(1, 1, bias=False)
torch.nn.init.constant_(replacement.weight, 5.0)
state.model = replacement
with torch.no_grad():
    replacement.weight.add_(1)
state.restore()
ask("replaced", lambda: (state.model is replacement, replacement.weight.item()))
state.save()
ask("nothing", lambda: hvd.elastic.TorchState().sync())


def failing(kind, errors):
    """What a run does whose attempts end with these errors, and then with none."""
    log = []
    state = hvd.elastic.TorchState(epoch=0)
    state.register_reset_callbacks([lambda: log.append("reset"), lambda: log.append(hvd.is_initialized())])
    left = list(errors)

    @hvd.elastic.run
    def train(state):
        log.append(state.epoch)
        state.epoch += 1
        state.commit()
        state.epoch += 1
        if left:
            raise left.pop(0)
        return hvd.allreduce(torch.tensor([1.0 + r]), name=kind)

    ask(f"{kind}", lambda: train(state))
    ask(f"{kind}.log", lambda: (log, state.epoch))


failing("failed", [HorovodInternalError("a collective failed")])
failing("hosts", [HostsUpdatedInterrupt(True)])
failing("user", [ValueError("the user's")])
failing("runtime", [RuntimeError("the user's")])
ask("hosts_updated", lambda: (state.on_hosts_updated(1, 1), state.commit()))
