"""What emitted code imports, and the symbols of the places that change beside Horovod's own."""

from migrator.api import Import

DEEPSPEED = Import("deepspeed")
DISTRIBUTOR = Import("pyspark.ml.deepspeed.deepspeed_distributor", "DeepspeedTorchDistributor")

INITIALIZE = "deepspeed.initialize"
NAME = "deepspeed.DeepSpeedEngine"
FORWARD = f"{NAME}.forward"
BACKWARD = f"{NAME}.backward"
STEP = f"{NAME}.step"
ZERO_GRAD = f"{NAME}.zero_grad"
CLIP = f"{NAME}.clip"
OBSTACLE = f"{NAME}.obstacle"
