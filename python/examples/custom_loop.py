"""A training loop of your own under a strategy: `strategy.run` calls a function for every replica.

    python custom_loop.py
    python -m phalanx launch --ps 0 --workers 0 -- python custom_loop.py

The strategy has TensorFlow's names; what a replica computes is written in PyTorch.
"""

import torch

from phalanx import metrics
from phalanx.compat import tf
from phalanx.torch import MirroredOptimizer, compute_average_loss

BATCH_SIZE_PER_REPLICA = 8
EPOCHS = 10

strategy = tf.distribute.MirroredStrategy(["cpu:0", "cpu:1"])
GLOBAL_BATCH_SIZE = BATCH_SIZE_PER_REPLICA * strategy.num_replicas_in_sync

torch.manual_seed(1)
with strategy.scope():
    model = torch.nn.Linear(2, 1)
    optimizer = MirroredOptimizer(torch.optim.SGD(model.parameters(), lr=1.0))
    accuracy = metrics.BinaryAccuracy(threshold=0.0)
    mean_loss = metrics.Mean("loss")


def dataset_fn(input_context):
    """Return points of the unit square; the label is 1 above the diagonal."""
    points = torch.rand(400, 2, generator=torch.Generator().manual_seed(7))
    labels = (points[:, 1] > points[:, 0]).float()
    batch = input_context.get_per_replica_batch_size(GLOBAL_BATCH_SIZE)
    return list(zip(points.split(batch), labels.split(batch), strict=True))


dataset = strategy.distribute_datasets_from_function(dataset_fn)


def step_fn(iterator):
    def replica_fn(batch):
        points, labels = batch
        optimizer.zero_grad()
        logits = model(points).squeeze(1)
        per_example_loss = torch.nn.functional.binary_cross_entropy_with_logits(logits, labels, reduction="none")
        loss = compute_average_loss(per_example_loss, global_batch_size=GLOBAL_BATCH_SIZE)
        loss.backward()
        optimizer.step()
        accuracy.update_state(labels, logits)
        mean_loss.update_state(per_example_loss)
        return loss.detach()

    losses = strategy.run(replica_fn, args=(next(iterator),))
    return strategy.reduce(tf.distribute.ReduceOp.SUM, losses, axis=None)


steps_per_epoch = 400 // GLOBAL_BATCH_SIZE
for epoch in range(EPOCHS):
    iterator = iter(dataset)
    for _ in range(steps_per_epoch):
        step_fn(iterator)
    print(f"epoch {epoch}: accuracy {accuracy.result():.3f}, loss {mean_loss.result():.4f}")
    accuracy.reset_state()
    mean_loss.reset_state()
