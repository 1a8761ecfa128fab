"""Parameter servers and a coordinator: TensorFlow's tutorial, with the bodies of its steps in PyTorch.

    python coordinator.py
    python -m phalanx launch --ps 2 --workers 3 -- python coordinator.py

Every task runs this script. The chief schedules the steps, workers compute them, parameter servers hold the model; all have the
same results, and the chief prints them.
"""

import random

import torch

from phalanx import RMSprop, metrics
from phalanx.compat import tf
from phalanx.torch import PsOptimizer, compute_average_loss

NUM_PS = 2

cluster_resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
variable_partitioner = tf.distribute.experimental.partitioners.FixedShardsPartitioner(num_shards=NUM_PS)
strategy = tf.distribute.experimental.ParameterServerStrategy(cluster_resolver, variable_partitioner=variable_partitioner)

feature_vocab = ["avenger", "ironman", "batman", "hulk", "spiderman", "kingkong", "wonder_woman"]
label_vocab = ["yes", "no"]


def feature_and_label_gen(num_examples):
    """Return three of the words for each example, and whether `avenger` is among them."""
    words = [random.sample(feature_vocab, 3) for _ in range(num_examples)]
    return {"features": words, "label": ["yes" if "avenger" in three else "no" for three in words]}


def preprocess(examples):
    """Look words up: 0 is for unknown ones."""
    known = {word: index + 1 for index, word in enumerate(feature_vocab)}
    features = torch.tensor([[known.get(word, 0) for word in three] for three in examples["features"]])
    labels = torch.tensor([[float(label_vocab.index(label))] for label in examples["label"]])
    return features, labels


def batches(examples, size, repeat):
    """Yield shuffled batches of features and labels."""
    features, labels = preprocess(examples)
    while True:
        order = torch.randperm(len(labels))
        for chosen in order.split(size):
            yield features[chosen], labels[chosen]
        if not repeat:
            return


def dataset_fn(_):
    return batches(feature_and_label_gen(200), 32, repeat=True)


class Words(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.emb_layer = torch.nn.Embedding(len(feature_vocab) + 1, 20)
        self.dense = torch.nn.Linear(20, 1)

    def forward(self, features):
        return torch.sigmoid(self.dense(self.emb_layer(features).mean(1)))


torch.manual_seed(0)
# The variables of the model are placed on parameter servers.
with strategy.scope():
    model = Words()
    optimizer = PsOptimizer(model, RMSprop(learning_rate=0.1))
    accuracy = metrics.Accuracy()
    eval_accuracy = metrics.Accuracy()


def step_fn(iterator):
    def replica_fn(batch_data, labels):
        optimizer.zero_grad()
        pred = model(batch_data)
        per_example_loss = torch.nn.functional.binary_cross_entropy(pred, labels, reduction="none")
        loss = compute_average_loss(per_example_loss)
        loss.backward()
        optimizer.step()

        actual_pred = (pred > 0.5).long()
        accuracy.update_state(labels, actual_pred)
        return loss.item()

    batch_data, labels = next(iterator)
    losses = strategy.run(replica_fn, args=(batch_data, labels))
    return strategy.reduce(tf.distribute.ReduceOp.SUM, losses, axis=None)


coordinator = tf.distribute.experimental.coordinator.ClusterCoordinator(strategy)


def say(text):
    if coordinator.is_chief:
        print(text, flush=True)


def per_worker_dataset_fn():
    return strategy.distribute_datasets_from_function(dataset_fn)


per_worker_dataset = coordinator.create_per_worker_dataset(per_worker_dataset_fn)
per_worker_iterator = iter(per_worker_dataset)

num_epoches = 4
steps_per_epoch = 5
for i in range(num_epoches):
    accuracy.reset_states()
    for _ in range(steps_per_epoch):
        coordinator.schedule(step_fn, args=(per_worker_iterator,))
    # Wait at epoch boundaries.
    coordinator.join()
    say(f"Finished epoch {i}, accuracy is {accuracy.result():f}.")

loss = coordinator.schedule(step_fn, args=(per_worker_iterator,))
say(f"Final loss is {loss.fetch():f}")

for variable in coordinator.variables():
    for shard in variable.shards:
        say(f"{shard.name} {shard.shape} on {shard.device}")

# Direct evaluation: the coordinator has the newest values.
eval_dataset = list(batches(feature_and_label_gen(num_examples=16), 8, repeat=False))
for batch_data, labels in eval_dataset:
    actual_pred = (model(batch_data) > 0.5).long()
    eval_accuracy.update_state(labels, actual_pred)
say(f"Evaluation accuracy: {eval_accuracy.result():f}")


# Distributed evaluation.
def eval_step(iterator):
    def replica_fn(batch_data, labels):
        actual_pred = (model(batch_data) > 0.5).long()
        eval_accuracy.update_state(labels, actual_pred)

    batch_data, labels = next(iterator)
    strategy.run(replica_fn, args=(batch_data, labels))


def eval_dataset_fn():
    return batches(feature_and_label_gen(num_examples=16), 8, repeat=True)


eval_accuracy.reset_states()
per_worker_eval_iterator = iter(coordinator.create_per_worker_dataset(eval_dataset_fn))

eval_steps_per_epoch = 2
for _ in range(eval_steps_per_epoch):
    coordinator.schedule(eval_step, args=(per_worker_eval_iterator,))
coordinator.join()
say(f"Distributed evaluation accuracy: {eval_accuracy.result():f}")
