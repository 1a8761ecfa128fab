"""PyTorch on parameter servers: what is learned, and what reaches the servers."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

import phalanx

torch = pytest.importorskip("torch")
pxt = pytest.importorskip("phalanx.torch")
nn = torch.nn


class Counter(nn.Module):
    """A number that every update raises by 1: with `SGD(1.0)`, `-value` is its loss."""

    def __init__(self) -> None:
        super().__init__()
        self.value = nn.Parameter(torch.zeros(()))

    def forward(self) -> torch.Tensor:
        return -self.value


def line(x: torch.Tensor) -> torch.Tensor:
    return 3 * x + 1


def fit_line(server: phalanx.Server, steps: int, **settings: object) -> tuple[float, float, int]:
    """Learn `line`, and return what was learned and after how many updates."""
    torch.manual_seed(server.index)
    model = nn.Linear(1, 1)
    with pxt.Supervisor(server, model, phalanx.SGD(0.2), **settings).managed_session() as session:
        session.stop_at(steps)
        while not session.should_stop:
            x = torch.rand(16, 1) * 2 - 1
            if session.step(lambda x=x: nn.functional.mse_loss(model(x), line(x))) is None:
                break
        session.refresh()
        return model.weight.item(), model.bias.item(), session.global_step


def test_a_job_of_one_process_finds_the_line() -> None:
    weight, bias, steps = fit_line(phalanx.Server.local(), 200)
    assert (weight, bias) == pytest.approx((3, 1), abs=1e-3)
    assert steps == 200


@pytest.mark.parametrize("consistency", ["async", "ssp:2", "sync"])
def test_a_cluster_finds_the_line(consistency: str) -> None:
    found: list[tuple[float, float, int]] = []

    def part(server: phalanx.Server) -> str:
        found.append(fit_line(server, 200, consistency=consistency))
        return server.task

    assert phalanx.MiniCluster(ps=2, workers=2).run(part) == "chief/0"
    assert len(found) == 3
    for weight, bias, _ in found:
        assert (weight, bias) == pytest.approx((3, 1), abs=1e-2)


def test_steps_that_overlap_find_the_line() -> None:
    weight, bias, _ = phalanx.MiniCluster(ps=1, workers=0).run(lambda server: fit_line(server, 300, overlap=True))
    assert (weight, bias) == pytest.approx((3, 1), abs=1e-2)


def test_every_step_of_every_trainer_counts_once() -> None:
    steps = 25

    def part(server: phalanx.Server) -> tuple[float, int]:
        model = Counter()
        with pxt.Supervisor(server, model, phalanx.SGD(1.0)).managed_session() as session:
            for _ in range(steps):
                session.step(model)
            session.commit()
            done.wait()
            session.refresh()
            return model.value.item(), session.global_step

    done = threading.Barrier(3, timeout=60)
    assert phalanx.MiniCluster(ps=2, workers=2).run(part) == (3 * steps, 3 * steps)


def clicks() -> dict[str, tuple[torch.Tensor, torch.Tensor]]:
    return {
        "user": (torch.tensor([7, 3, 7]), torch.tensor([0, 1, 2, 3])),
        "history": (torch.tensor([5, -9, 5, 2**40]), torch.tensor([0, 2, 2, 4])),
        "item": (torch.tensor([5, 6, 5]), torch.tensor([0, 1, 2, 3])),
    }


def tables() -> pxt.EmbeddingBagCollection:
    return pxt.EmbeddingBagCollection(
        [
            pxt.EmbeddingBagConfig(name="user", embedding_dim=4),
            pxt.EmbeddingBagConfig(
                name="items", embedding_dim=3, feature_names=["history", "item"], pooling=pxt.PoolingType.MEAN
            ),
        ]
    )


@pytest.mark.parametrize("announced", [True, False])
def test_rows_change_as_those_of_torch_do(announced: bool) -> None:
    collection = tables()
    features = clicks()
    with pxt.Supervisor(phalanx.Server.local(), collection, phalanx.SGD(0.5)).managed_session() as session:
        before = collection(features).to_dict()
        # The same computation by torch alone, on the same rows.
        ids = {"user": [7, 3], "items": [5, -9, 2**40, 6]}
        rows = {}
        for table, own in ids.items():
            unique, values, _ = session.look_up(table, torch.tensor(own).numpy())
            assert unique.tolist() == own
            rows[table] = values.clone().requires_grad_()
        user = rows["user"][[0, 1, 0]]
        history = torch.stack([rows["items"][[0, 1]].mean(0), torch.zeros(3), rows["items"][[0, 2]].mean(0)])
        item = rows["items"][[0, 3, 0]]
        for name, own in (("user", user), ("history", history), ("item", item)):
            assert torch.equal(before[name], own), name
        weights = torch.arange(30.0).reshape(3, 10)
        ((torch.cat([user, history, item], 1) * weights).sum()).backward()
        expected = {name: (own - 0.5 * own.grad).detach() for name, own in rows.items()}

        def loss() -> torch.Tensor:
            return (collection(features).values() * weights).sum()

        assert session.step(loss, features if announced else None) is not None
        session.commit()
        for table, own in ids.items():
            _, values, _ = session.look_up(table, torch.tensor(own).numpy())
            assert torch.allclose(values, expected[table]), table


def test_rows_looked_up_twice_in_a_step_get_both_gradients() -> None:
    zeros = pxt.EmbeddingBagConfig(embedding_dim=2, name="t", weight_init_min=0.0, weight_init_max=0.0)
    collection = pxt.EmbeddingBagCollection([zeros])
    one, other = {"t": torch.tensor([1, 2])}, {"t": torch.tensor([2, 3])}
    with pxt.Supervisor(phalanx.Server.local(), collection, phalanx.SGD(1.0)).managed_session() as session:
        session.step(lambda: -(collection(one).values() + collection(other).values()).sum())
        session.commit()
        _, rows, _ = session.look_up("t", torch.tensor([1, 2, 3]).numpy())
    assert rows.tolist() == [[1, 1], [2, 2], [1, 1]]


def test_a_step_that_raises_reaches_no_server() -> None:
    model = Counter()
    with pxt.Supervisor(phalanx.Server.local(), model, phalanx.SGD(1.0)).managed_session() as session:
        session.step(model)
        with pytest.raises(ZeroDivisionError):
            session.step(lambda: model() * (1 / 0))
        session.step(model)
        session.commit()
        assert session.global_step == 2
        assert model.value.item() == 2


def test_an_exception_of_a_worker_ends_the_job_and_is_raised() -> None:
    def part(server: phalanx.Server) -> None:
        model = Counter()
        with pxt.Supervisor(server, model, phalanx.SGD(1.0)).managed_session() as session:
            while session.step(model):
                if server.task == "worker/0" and session.global_step > 10:
                    raise ValueError("no such label")

    with pytest.raises(ValueError, match="no such label"):
        phalanx.MiniCluster(ps=1, workers=1).run(part)


def test_averages_of_batch_norm_are_on_the_servers(tmp_path: Path) -> None:
    torch.manual_seed(0)

    def train(steps: int) -> tuple[nn.Module, int]:
        model = nn.Sequential(nn.BatchNorm1d(2), nn.Linear(2, 1))
        supervisor = pxt.Supervisor(phalanx.Server.local(), model, phalanx.SGD(0.01), model_dir=str(tmp_path))
        with supervisor.managed_session() as session:
            session.stop_at(steps)
            while session.step(lambda: model(torch.randn(64, 2) * 2 + 5).square().mean()):
                pass
            session.refresh()
            return model, session.global_step

    model, steps = train(80)
    assert steps == 80
    assert model[0].running_mean.tolist() == pytest.approx([5, 5], abs=0.3)
    # Restored from the checkpoint, with the parameters.
    again, steps = train(80)
    assert steps == 80
    for name, value in model.state_dict().items():
        if value.is_floating_point():
            assert torch.allclose(again.state_dict()[name], value, atol=1e-5), name


def test_a_position_in_the_input_comes_back_with_the_checkpoint(tmp_path: Path) -> None:
    for expected in (None, b"12 of clicks.csv"):
        model = Counter()
        supervisor = pxt.Supervisor(phalanx.Server.local(), model, phalanx.SGD(1.0), model_dir=str(tmp_path))
        with supervisor.managed_session() as session:
            assert session.restored_position == expected
            session.save_position(b"12 of clicks.csv")
            session.step(model)


WRONG: list[tuple[str, Callable[[], object]]] = [
    ("PX0303", lambda: {"t": (torch.tensor([1, 2]), torch.tensor([0, 3]))}),
    ("PX0303", lambda: {"t": (torch.tensor([1, 2]), torch.tensor([0, 2, 1, 2]))}),
    ("PX0303", lambda: {"t": (torch.tensor([1.0, 2.0]), torch.tensor([0, 2]))}),
    ("PX0404", lambda: {"u": torch.tensor([1])}),
]


@pytest.mark.parametrize(("code", "features"), WRONG)
def test_features_that_are_wrong_say_what_is(code: str, features: Callable[[], object]) -> None:
    collection = pxt.EmbeddingBagCollection([pxt.EmbeddingBagConfig(embedding_dim=2, name="t")])
    with pxt.Supervisor(phalanx.Server.local(), collection, phalanx.SGD(1.0)).managed_session() as session:
        for announced in (features(), None):
            with pytest.raises(phalanx.Error, match=code):
                session.step(lambda: collection(features()).values().sum(), announced)
        assert session.global_step == 0


def test_a_collection_without_a_session_says_where_its_rows_are() -> None:
    collection = pxt.EmbeddingBagCollection([pxt.EmbeddingBagConfig(embedding_dim=2, name="t")])
    with pytest.raises(phalanx.Error, match="PX0302"):
        collection({"t": torch.tensor([1])})


def test_a_loss_of_several_numbers_and_one_that_is_not_finite_are_errors() -> None:
    model = Counter()
    with pxt.Supervisor(phalanx.Server.local(), model, phalanx.SGD(1.0), skip_non_finite=True).managed_session() as session:
        with pytest.raises(phalanx.Error, match="PX0303"):
            session.step(lambda: model().expand(2))
        assert session.step(lambda: model() * float("nan")) is not None
        session.step(model)
        session.commit()
        assert (session.global_step, model.value.item()) == (1, 1)
    with (
        pytest.raises(phalanx.Error, match="PX0308"),
        pxt.Supervisor(phalanx.Server.local(), model, phalanx.SGD(1.0)).managed_session() as session,
    ):
        session.step(lambda: model() * float("nan"))


class Jagged:
    """The ids of a feature, with the methods of TorchRec's `JaggedTensor`."""

    def __init__(self, values: torch.Tensor, offsets: torch.Tensor) -> None:
        self._values, self._offsets = values, offsets

    def values(self) -> torch.Tensor:
        return self._values

    def offsets(self) -> torch.Tensor:
        return self._offsets


class KeyedJagged:
    """Features, with the method of TorchRec's `KeyedJaggedTensor` that is needed."""

    def __init__(self, features: dict[str, tuple[torch.Tensor, torch.Tensor]]) -> None:
        self._features = features

    def to_dict(self) -> dict[str, Jagged]:
        return {name: Jagged(values, offsets) for name, (values, offsets) in self._features.items()}


def test_features_of_torchrec_are_features() -> None:
    collection = tables()
    with pxt.Supervisor(phalanx.Server.local(), collection, phalanx.SGD(0.5)).managed_session() as session:
        keyed, plain = KeyedJagged(clicks()), clicks()
        session.step(lambda: collection(keyed).values().square().mean(), keyed)
        session.commit()
        assert torch.equal(collection(keyed).values(), collection(plain).values())
        assert collection(keyed).keys() == ["user", "history", "item"]
        assert collection.width == collection(keyed).values().shape[1] == 10


def test_a_data_loader_with_processes_feeds_a_session() -> None:
    x = torch.linspace(-1, 1, 64).reshape(-1, 1)
    model = nn.Linear(1, 1)
    with pxt.Supervisor(phalanx.Server.local(), model, phalanx.SGD(0.2)).managed_session() as session:
        # Forked beside the session's threads, which its processes do not use.
        loader = torch.utils.data.DataLoader(
            torch.utils.data.TensorDataset(x, line(x)), batch_size=8, num_workers=1, multiprocessing_context="fork"
        )
        for own, label in loader:
            assert session.step(lambda own=own, label=label: nn.functional.mse_loss(model(own), label)) is not None
        session.commit()
        assert session.global_step == 8


def test_a_session_that_is_used_after_its_block_says_so() -> None:
    model = Counter()
    with pxt.Supervisor(phalanx.Server.local(), model, phalanx.SGD(1.0)).managed_session() as session:
        session.step(model)
    with pytest.raises(phalanx.Error, match="PX0309"):
        session.step(model)


def test_a_session_within_a_step_does_nothing_else() -> None:
    model = Counter()
    with pxt.Supervisor(phalanx.Server.local(), model, phalanx.SGD(1.0)).managed_session() as session:

        def loss() -> torch.Tensor:
            for other in (session.refresh, session.commit, lambda: session.save_position(b"1")):
                with pytest.raises(phalanx.Error, match="PX0309"):
                    other()
            return model()

        assert session.step(loss) is not None
        session.commit()
        assert model.value.item() == 1
