"""Trains with PyTorch's DistributedDataParallel over a data source; one process for each rank.

python ddp_run.py DATA_DIR RANK COUNT PORT

Prints lines of JSON: {"epoch", "numbers"} of what this rank saw, at the end {"loss", "weights"}.
"""

# ruff: noqa: E402 - PyTorch reads variables when it starts a group.

import json
import os
import sys

DATA_DIR = sys.argv[1]
RANK, COUNT, PORT = map(int, sys.argv[2:5])
EPOCHS, BATCH = 2, 6

os.environ |= {"MASTER_ADDR": "localhost", "MASTER_PORT": str(PORT)}

import torch

import tfrds

torch.distributed.init_process_group("gloo", rank=RANK, world_size=COUNT)
torch.manual_seed(0)
source = tfrds.data_source("numbered", split="train", data_dir=DATA_DIR, label_mode="int")
sampler = torch.utils.data.distributed.DistributedSampler(source, shuffle=True, seed=1)
loader = torch.utils.data.DataLoader(source, batch_size=BATCH, sampler=sampler, num_workers=1)
model = torch.nn.parallel.DistributedDataParallel(
    torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(8, 3))
)
optimizer = torch.optim.SGD(model.parameters(), 0.5)

losses = []
for epoch in range(EPOCHS):
    sampler.set_epoch(epoch)
    for batch in loader:
        images = batch["image"]
        flat = images.reshape(len(images), -1)
        numbers = (flat[:, 0] * 256 + flat[:, 1]).int().tolist()
        print(json.dumps({"epoch": epoch, "numbers": numbers}), flush=True)
        loss = torch.nn.functional.cross_entropy(model(images / 255), batch["label"].long())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss))
weights = [round(float(value), 5) for value in next(model.parameters()).flatten()]
print(json.dumps({"loss": losses, "weights": weights}), flush=True)
if "tensorflow" in sys.modules:
    sys.exit("a data source imported TensorFlow")
torch.distributed.destroy_process_group()
