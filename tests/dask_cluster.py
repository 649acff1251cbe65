"""A local Dask cluster in a process of its own, which a test can kill.

Prints its scheduler's address. Arguments: number of workers, threads of each.
"""

import sys

import dask
import distributed

if __name__ == "__main__":
    n_workers, threads = map(int, sys.argv[1:])
    # A local cluster looks 15 seconds after a worker has died whether it lives again. When it has
    # just been killed once more, it is not replaced any longer.
    dask.config.set({"distributed.deploy.lost-worker-timeout": "1h"})
    cluster = distributed.LocalCluster(
        n_workers=n_workers, threads_per_worker=threads, processes=True, dashboard_address=":0"
    )
    print(cluster.scheduler_address, flush=True)
    sys.stdin.read()
