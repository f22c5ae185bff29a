"""A loop of one's own: metrics, validation on every worker, an averaged value that decides when to stop."""
import os
import tempfile

import numpy as np
import tensorflow as tf

import horovod.tensorflow as hvd


def make_dataset(features, labels, batch_size, training):
    dataset = tf.data.Dataset.from_tensor_slices((features, labels))
    dataset = dataset.shard(num_shards=hvd.size(), index=hvd.rank())
    if training:
        dataset = dataset.shuffle(32, seed=4, reshuffle_each_iteration=True)
    return dataset.batch(batch_size, drop_remainder=training).prefetch(2)


class Trainer:
    def __init__(self, model, learning_rate):
        self.model = model
        self.optimizer = tf.keras.optimizers.Adam(learning_rate * hvd.size())
        self.loss_object = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        self.train_loss = tf.keras.metrics.Mean(name="train_loss")
        self.accuracy = tf.keras.metrics.SparseCategoricalAccuracy(name="accuracy")

    @tf.function
    def train_step(self, features, labels):
        with tf.GradientTape() as tape:
            loss = self.loss_object(labels, self.model(features, training=True))
        tape = hvd.DistributedGradientTape(tape)
        grads = tape.gradient(loss, self.model.trainable_variables)
        self.optimizer.apply_gradients(zip(grads, self.model.trainable_variables))
        self.train_loss.update_state(loss)

    def validate(self, dataset):
        losses = [self.loss_object(labels, self.model(features, training=False)) for features, labels in dataset]
        for features, labels in dataset:
            self.accuracy.update_state(labels, self.model(features, training=False))
        return hvd.allreduce(tf.add_n(losses) / len(losses), name="val_loss"), hvd.allreduce(self.accuracy.result())


def main():
    hvd.init()
    tf.random.set_seed(1234 + hvd.rank())
    random = np.random.RandomState(5)
    features = random.normal(size=(96, 4)).astype("float32")
    labels = (features[:, 0] + np.sin(3 * features[:, 1]) > 0).astype("int64")
    model = tf.keras.Sequential([tf.keras.layers.Dense(16, activation="tanh"), tf.keras.layers.Dense(2)])
    model.build((None, 4))
    model.set_weights([random.normal(scale=0.2, size=value.shape) for value in model.get_weights()])
    trainer = Trainer(model, 0.02)
    best, folder = float("inf"), tempfile.mkdtemp()
    train, test = make_dataset(features[:64], labels[:64], 6, True), make_dataset(features[64:], labels[64:], 10, False)
    for epoch in range(8):
        for step, (images, targets) in enumerate(train):
            trainer.train_step(images, targets)
            if epoch == 0 and step == 0:
                hvd.broadcast_variables(model.variables, root_rank=0)
                hvd.broadcast_variables(trainer.optimizer.variables(), root_rank=0)
        val_loss, val_accuracy = trainer.validate(test)
        print("TRACE", epoch, float(trainer.train_loss.result()), float(val_loss), float(val_accuracy))
        if float(val_loss) > best - 0.03:
            break
        best = float(val_loss)
        if hvd.rank() == 0:
            model.save_weights(os.path.join(folder, "best.weights.h5"))
        trainer.train_loss.reset_state()
        trainer.accuracy.reset_state()
    print("TRACE", "weights", [value.tolist() for value in model.get_weights()])


if __name__ == "__main__":
    main()
