"""Trains under one strategy and prints what every replica saw; run as a process of its own.

python strategy_runs.py KIND DATA_DIR [INDEX COUNT PORT]

Prints lines of JSON: {"epoch", "step", "replica", "numbers"}, and at the end {"loss": [...]}. The
numbers are those of the examples, which tests/test_strategies.py writes into the pixels.
"""

# ruff: noqa: E402 - what is read when TensorFlow, Keras and JAX are imported is set before.

import json
import os
import sys

KIND, DATA_DIR = sys.argv[1:3]
INDEX, COUNT, PORT = map(int, sys.argv[3:6]) if len(sys.argv) > 3 else (0, 1, 0)
EPOCHS = 2
BATCH = 12

if KIND == "jax":
    os.environ["KERAS_BACKEND"] = "jax"
    os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=2"
if COUNT > 1:
    workers = [f"localhost:{PORT + number}" for number in range(COUNT)]
    task = {"type": "worker", "index": INDEX}
    os.environ["TF_CONFIG"] = json.dumps({"cluster": {"worker": workers}, "task": task})

import keras
import numpy as np
import tensorflow as tf
import tensorflow_datasets as tfds

import tfrds


def load(batch_size=BATCH, **options):
    return tfrds.load(
        "numbered",
        data_dir=DATA_DIR,
        split="train",
        batch_size=batch_size,
        as_supervised=True,
        shuffle=True,
        seed=1,
        **options,
    )


def make_model():
    model = keras.Sequential(
        [
            keras.Input((2, 4, 1)),
            keras.layers.Rescaling(1 / 255),
            keras.layers.Flatten(),
            keras.layers.Dense(3, "softmax"),
        ]
    )
    model.compile(keras.optimizers.SGD(0.5), "categorical_crossentropy")
    return model


def numbers_of(images):
    """The first two pixels are the high and the low byte of the example's number."""
    flat = np.asarray(images).reshape(len(images), -1)
    return (flat[:, 0] * 256 + flat[:, 1]).astype(int).tolist()


def say(**content):
    print(json.dumps(content), flush=True)


def custom_loop(strategy, dataset, steps):
    with strategy.scope():
        model = make_model()
        optimizer = keras.optimizers.SGD(0.5)
        optimizer.build(model.trainable_variables)

    @tf.function
    def train(batch):
        def on_replica(images, labels):
            with tf.GradientTape() as tape:
                errors = keras.losses.categorical_crossentropy(labels, model(images))
                loss = tf.reduce_sum(errors) / BATCH
            gradients = tape.gradient(loss, model.trainable_variables)
            optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
            return images, loss

        return strategy.run(on_replica, batch)

    losses = []
    for epoch in range(EPOCHS):
        iterator = iter(dataset)
        for step in range(steps):
            images, loss = train(next(iterator))
            for number, seen in enumerate(strategy.experimental_local_results(images)):
                say(epoch=epoch, step=step, replica=INDEX + number, numbers=numbers_of(seen))
            losses.append(float(strategy.reduce("sum", loss, axis=None)))
    say(loss=losses)


def virtual_devices():
    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
    return tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])


if KIND == "mirrored":
    strategy = virtual_devices()
    dataset = load()
    custom_loop(strategy, strategy.experimental_distribute_dataset(dataset), len(dataset))
    with strategy.scope():
        model = make_model()
    train = load()
    history = model.fit(
        train,
        epochs=EPOCHS,
        shuffle=False,
        verbose=0,
        callbacks=[tfrds.keras.SyncEpoch(train)],
    )
    say(loss=history.history["loss"])
elif KIND.startswith("multi_worker"):
    strategy = tf.distribute.MultiWorkerMirroredStrategy(
        communication_options=tf.distribute.experimental.CommunicationOptions(
            implementation=tf.distribute.experimental.CommunicationImplementation.RING
        )
    )
    if KIND == "multi_worker":

        def make(context):
            config = tfds.ReadConfig(input_context=context)
            return load(context.get_per_replica_batch_size(BATCH), read_config=config)

        dataset = strategy.distribute_datasets_from_function(make)
        steps = len(load(BATCH // COUNT, worker=(INDEX, COUNT)))
    else:
        # tf.distribute takes batches for those of all workers, and gives each its part of them.
        is_share = KIND == "multi_worker_share"
        local = load(worker=(INDEX, COUNT)) if is_share else load()
        dataset = strategy.experimental_distribute_dataset(local)
        sizes = [len(images) for images, _ in local]
        part = BATCH // COUNT
        steps = sum(-(-size // part) for size in sizes) if is_share else len(sizes)
    custom_loop(strategy, dataset, steps)
elif KIND == "jax":
    import jax

    distribution = keras.distribution.DataParallel(devices=keras.distribution.list_devices())
    keras.distribution.set_distribution(distribution)
    model = make_model()
    train = load(drop_remainder=True)  # DataParallel needs batches that its devices share evenly
    history = model.fit(
        train,
        epochs=EPOCHS,
        shuffle=False,
        verbose=0,
        callbacks=[tfrds.keras.SyncEpoch(train)],
    )
    mesh = jax.sharding.Mesh(np.array(jax.devices()), ("batch",))
    sharding = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("batch"))
    for step, (images, _) in enumerate(load(drop_remainder=True).as_numpy_iterator()):
        for number, shard in enumerate(jax.device_put(images, sharding).addressable_shards):
            say(epoch=0, step=step, replica=number, numbers=numbers_of(shard.data))
    say(loss=history.history["loss"])
