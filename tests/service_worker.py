"""A worker of the tf.data service, in a process of its own: python service_worker.py ADDRESS."""

import sys
import time

import tensorflow as tf

server = tf.data.experimental.service.WorkerServer(
    tf.data.experimental.service.WorkerConfig(dispatcher_address=sys.argv[1])
)
print("ready", flush=True)
while sys.stdin.readline():
    time.sleep(0.01)
