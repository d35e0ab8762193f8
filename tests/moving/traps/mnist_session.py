"""The MNIST program as many wrote it: a loop of one's own; for `scan`, and not run.

A comment says after `trap:`, in words, which rules are to find its line, and after `no trap:` why
none is. Changes that a codebase needs once, such as `compat install`, have no mark.
"""

import mnist_data
import tensorflow as tf  # trap: tensorflow 1

BATCH_SIZE = 100


def network(images, labels, training):
    net = tf.layers.conv2d(images, 8, [3, 3], padding="same")
    norm = tf.layers.BatchNormalization(fused=True)  # no trap: of no model_fn
    net = norm.apply(net, training=training)
    net = tf.layers.flatten(net)
    logits = tf.layers.dense(
        net,
        10,
        kernel_initializer=tf.contrib.layers.xavier_initializer(),  # trap: contrib name
    )
    return logits, tf.losses.sparse_softmax_cross_entropy(labels, logits)


def main():
    images = tf.placeholder(tf.float32, [BATCH_SIZE, 28, 28, 1])
    labels = tf.placeholder(tf.int64, [BATCH_SIZE])
    _, loss = network(images, labels, True)
    train_op = tf.train.AdamOptimizer(1e-3).minimize(loss)
    with tf.Session() as session:  # trap: session loop
        session.run(tf.global_variables_initializer())
        for _ in range(1000):
            rows = mnist_data.next_batch(BATCH_SIZE)
            session.run(train_op, {images: rows[0], labels: rows[1]})


if __name__ == "__main__":
    main()
