"""Coordinated jobs: steps that a chief schedules on workers, and the optimizer of your own loop."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import phalanx
from phalanx import distribute, metrics
from phalanx._values import decode, encode

torch = pytest.importorskip("torch")
pxt = pytest.importorskip("phalanx.torch")
nn = torch.nn


class Counter(nn.Module):
    """A number, and a row of a table, that every update raises by 1."""

    def __init__(self) -> None:
        super().__init__()
        self.value = nn.Parameter(torch.zeros(()))
        zeros = pxt.EmbeddingBagConfig(embedding_dim=2, name="rows", weight_init_min=0.0, weight_init_max=0.0)
        self.rows = pxt.EmbeddingBagCollection([zeros])

    def forward(self) -> torch.Tensor:
        return -(self.value + self.rows(SEVEN).values().sum())


SEVEN = {"rows": torch.tensor([7])}
VALUES = [None, True, 7, -(2**80), 0.1, float("inf"), "ü", b"\0\xff", [], (), {}, [1, (2, [3])], {"a": {1: (None,)}}]


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_values_travel(value: object) -> None:
    back = decode(encode(value))
    assert back == value
    assert type(back) is type(value)


def test_arrays_and_tensors_travel() -> None:
    arrays = [np.float32([[1.5]]), np.arange(3), np.array(["a", "bcd"]), np.zeros((0, 2), bool), np.array(b"xy"), np.float64(0.5)]
    for array in arrays:
        back = decode(encode([array]))[0]
        assert np.array_equal(back, array)
        assert back.dtype == array.dtype
    tensors = [torch.ones(2, 3).t(), torch.tensor(7), torch.ones(2, dtype=torch.bfloat16), torch.tensor([], dtype=torch.int32)]
    for tensor in tensors:
        back = decode(encode(tensor))
        assert torch.equal(back, tensor)
        assert back.dtype == tensor.dtype
    decode(encode(torch.ones(2)))[0] = 5


def test_other_values_are_refused_by_their_place() -> None:
    with pytest.raises(phalanx.Error, match=r"value\[0\]\['x'\] is a object"):
        encode([{"x": object()}])
    with pytest.raises(phalanx.Error, match="an array of object"):
        encode(np.array([object()]))


def test_bytes_that_are_no_value_are_an_error() -> None:
    good = encode([1, np.arange(5), {"a": (b"bc", 2.0)}])
    for at in range(len(good)):
        with pytest.raises(phalanx.Error, match="PX0306"):
            decode(good[:at])
    huge = (2**63).to_bytes(8, "little")
    for bad in (huge + good[8:], good[:8] + huge + good[16:], b"", encode(["no"])[:-2] + b"]]"):
        with pytest.raises(phalanx.Error, match="PX0306"):
            decode(bad)


def line(server: phalanx.Server | None = None, **settings: object) -> tuple[float, float, int]:
    """Learn 3 x + 1 with a coordinator."""
    strategy = pxt.ParameterServerStrategy(server=server, **settings)
    torch.manual_seed(strategy.server.index if strategy.server else 0)
    with strategy.scope():
        model = nn.Linear(1, 1)
        optimizer = pxt.PsOptimizer(model, phalanx.SGD(0.2))
        mean = metrics.Mean("loss")

    def step_fn(batches: Iterator[torch.Tensor]) -> float:
        x = next(batches)
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), 3 * x + 1)
        loss.backward()
        optimizer.step()
        mean.update_state(loss)
        return loss.item()

    with pxt.ClusterCoordinator(strategy) as coordinator:
        made = coordinator.create_per_worker_dataset(lambda: (torch.rand(16, 1) * 2 - 1 for _ in itertools.count()))
        batches = iter(made)
        for _ in range(4):
            mean.reset_state()
            losses = [coordinator.schedule(step_fn, args=(batches,)) for _ in range(50)]
            coordinator.join()
            assert mean.result() == pytest.approx(np.mean(coordinator.fetch(losses)), rel=1e-5)
        return model.weight.item(), model.bias.item(), coordinator.global_step


def test_a_job_of_one_process_finds_the_line() -> None:
    weight, bias, steps = line()
    assert (weight, bias) == pytest.approx((3, 1), abs=1e-3)
    assert steps == 200


@pytest.mark.parametrize(("consistency", "steps"), [("async", 200), ("ssp:1", 200), ("sync", 100)])
def test_all_tasks_of_a_cluster_have_the_same_results(consistency: str, steps: int) -> None:
    found: list[tuple[float, float, int]] = []
    partitioner = distribute.FixedShardsPartitioner(2)
    phalanx.MiniCluster(ps=2, workers=2).run(
        lambda server: found.append(line(server, consistency=consistency, variable_partitioner=partitioner))
    )
    assert len(found) == 3
    assert found[0] == found[1] == found[2]
    assert found[0][:2] == pytest.approx((3, 1), abs=0.05)
    assert found[0][2] == steps


def test_every_step_counts_once_though_a_worker_is_killed() -> None:
    cluster = phalanx.MiniCluster(ps=2, workers=2)
    begun = threading.Semaphore(0)
    ledger: list[object] = []

    def part(server: phalanx.Server) -> None:
        strategy = pxt.ParameterServerStrategy(server=server)
        with strategy.scope():
            model = Counter()
            optimizer = pxt.PsOptimizer(model, phalanx.SGD(1.0))
            count = metrics.Sum("steps")

        def step_fn() -> None:
            begun.release()
            optimizer.zero_grad()
            model().backward()
            optimizer.step()
            count.update_state(1.0)

        with pxt.ClusterCoordinator(strategy) as coordinator:
            for _ in range(300):
                coordinator.schedule(step_fn)
            coordinator.join()
            rows = model.rows(SEVEN).values().tolist()
            ledger.append((count.result(), model.value.item(), rows, coordinator.global_step))

    def kill() -> None:
        for _ in range(60):
            begun.acquire(timeout=60)
        cluster.kill("worker/1")

    killer = threading.Thread(target=kill)
    killer.start()
    cluster.run(part)
    killer.join()
    assert set(map(str, ledger)) == {str((300.0, 300.0, [[300.0, 300.0]], 300))}


def test_a_step_that_pushes_nothing_changes_nothing() -> None:
    strategy = pxt.ParameterServerStrategy()
    with strategy.scope():
        model = Counter()
        optimizer = pxt.PsOptimizer(model, phalanx.SGD(1.0))

    def train() -> None:
        model().backward()
        optimizer.step()

    def look(scale: float, *, shift: int) -> dict[str, object]:
        return {"value": model.value * scale + shift, "rows": model.rows(SEVEN).values().detach().numpy()}

    with pxt.ClusterCoordinator(strategy) as coordinator:
        coordinator.schedule(train)
        seen = coordinator.schedule(look, args=(2.0,), kwargs={"shift": 1}).fetch()
        assert seen["value"].item() == 3
        assert seen["rows"].tolist() == [[1, 1]]
        assert coordinator.global_step == 1
        assert coordinator.done()


def test_an_error_of_a_step_is_raised_by_all_tasks_and_the_job_goes_on(capfd: pytest.CaptureFixture[str]) -> None:
    raised: list[str] = []

    def part(server: phalanx.Server) -> int:
        strategy = pxt.ParameterServerStrategy(server=server)
        with strategy.scope():
            model = Counter()
            optimizer = pxt.PsOptimizer(model, phalanx.SGD(1.0))

        def step_fn(label: int) -> int:
            if label > 1:
                raise ValueError(f"no label {label}")
            model().backward()
            optimizer.step()
            return label

        def twice() -> None:
            model().backward()
            optimizer.step()
            optimizer.step()

        with pxt.ClusterCoordinator(strategy) as coordinator:
            empty = iter(coordinator.create_per_worker_dataset(list))
            for wrong, args, expected in (
                (step_fn, (2,), "no label 2"),
                (twice, (), "pushes gradients once"),
                (next, (empty,), "PX0405"),
            ):
                value = coordinator.schedule(wrong, args)
                with pytest.raises(phalanx.Error, match=expected) as error:
                    coordinator.join()
                raised.append(error.value.what)
                with pytest.raises(phalanx.Error, match=expected):
                    value.fetch()
            assert coordinator.schedule(step_fn, args=(1,)).fetch() == 1
            return coordinator.global_step

    assert phalanx.MiniCluster(ps=1, workers=1).run(part) == 1
    assert len(raised) == 6
    assert "in step_fn" in capfd.readouterr().err


def test_functions_are_known_by_their_names() -> None:
    strategy = pxt.ParameterServerStrategy()
    with strategy.scope():
        pxt.PsOptimizer(nn.Linear(1, 1), phalanx.SGD(1.0))
    one, other = (lambda: 1), (lambda: 2)
    with pxt.ClusterCoordinator(strategy) as coordinator:
        assert coordinator.schedule(one).fetch() == 1
        with pytest.raises(phalanx.Error, match="two functions are called"):
            coordinator.schedule(other)
        with pytest.raises(phalanx.Error, match="PX0309"):
            coordinator.schedule(one, args=(object(),))


def test_variables_are_split_over_servers() -> None:
    def part(server: phalanx.Server) -> list[str]:
        strategy = pxt.ParameterServerStrategy(None, distribute.FixedShardsPartitioner(2), server=server)
        with strategy.scope():
            pxt.PsOptimizer(nn.Embedding(9, 20), phalanx.SGD(1.0))
        with pxt.ClusterCoordinator(strategy) as coordinator:
            (weight,) = coordinator.variables()
            return [f"{shard.name} {shard.shape} {shard.device}" for shard in weight.shards]

    assert phalanx.MiniCluster(ps=2, workers=1).run(part) == [
        "weight/part_0 (5, 20) /job:ps/replica:0/task:0/device:CPU:0",
        "weight/part_1 (4, 20) /job:ps/replica:0/task:1/device:CPU:0",
    ]


def test_a_learning_rate_of_torch_reaches_the_servers() -> None:
    model = nn.Linear(1, 1, bias=False)
    nn.init.zeros_(model.weight)
    with pxt.PsOptimizer(model, phalanx.SGD(1.0), server=phalanx.Server.local()) as optimizer:
        schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
        for expected in (1.0, 1.5, 1.75):
            optimizer.zero_grad()
            (-model.weight.sum()).backward()
            optimizer.step()
            schedule.step()
            assert model.weight.item() == expected
        loss = optimizer.step(lambda: -model.weight.sum())
        assert loss is not None


def test_your_own_loop_ends_with_its_job(tmp_path: Path) -> None:
    def part(server: phalanx.Server) -> tuple[float, int]:
        model = Counter()
        settings = {"model_dir": str(tmp_path), "consistency": "sync"}
        with pxt.PsOptimizer(model, phalanx.SGD(1.0), server=server, max_steps=20, **settings) as optimizer:
            while not optimizer.should_stop:
                optimizer.zero_grad()
                model().backward()
                optimizer.step()
            return model.value.item(), optimizer.global_step

    assert phalanx.MiniCluster(ps=1, workers=1).run(part) == (20, 20)
    assert "model.ckpt-20" in (tmp_path / "checkpoint").read_text()


def test_what_is_used_wrongly_says_so() -> None:
    strategy = pxt.ParameterServerStrategy()
    with pytest.raises(phalanx.Error, match="no model"):
        pxt.ClusterCoordinator(strategy).schedule(print)
    strategy = pxt.ParameterServerStrategy()
    with strategy.scope():
        optimizer = pxt.PsOptimizer(nn.Linear(1, 1), phalanx.SGD(1.0))
        with pytest.raises(phalanx.Error, match="one model"):
            pxt.PsOptimizer(nn.Linear(1, 1), phalanx.SGD(1.0))
        with pytest.raises(phalanx.Error, match="takes no model_dir, server"):
            pxt.PsOptimizer(nn.Linear(1, 1), phalanx.SGD(1.0), server=phalanx.Server.local(), model_dir="x")
    with pytest.raises(phalanx.Error, match="the optimizer has no step"):
        optimizer.step()
    with pytest.raises(phalanx.Error, match="PX0309"):
        _ = optimizer.should_stop
    coordinator = pxt.ClusterCoordinator(strategy)
    with pytest.raises(phalanx.Error, match="read in steps"):
        next(iter(coordinator.create_per_worker_dataset(list)))
    coordinator.close()
    with pytest.raises(phalanx.Error, match="has ended"):
        coordinator.schedule(print)
