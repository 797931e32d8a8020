"""The 80 classes of COCO 2017 with their category ids, which run to 90 with gaps."""

from __future__ import annotations

_NAMES = (
    "person,bicycle,car,motorcycle,airplane,bus,train,truck,boat,traffic light,fire hydrant,,stop sign,parking meter,"
    "bench,bird,cat,dog,horse,sheep,cow,elephant,bear,zebra,giraffe,,backpack,umbrella,,,handbag,tie,suitcase,frisbee,"
    "skis,snowboard,sports ball,kite,baseball bat,baseball glove,skateboard,surfboard,tennis racket,bottle,,wine glass,"
    "cup,fork,knife,spoon,bowl,banana,apple,sandwich,orange,broccoli,carrot,hot dog,pizza,donut,cake,chair,couch,"
    "potted plant,bed,,dining table,,,toilet,,tv,laptop,mouse,remote,keyboard,cell phone,microwave,oven,toaster,sink,"
    "refrigerator,,book,clock,vase,scissors,teddy bear,hair drier,toothbrush"
)

COCO91: tuple[str | None, ...] = tuple(name or None for name in _NAMES.split(","))
"""By category id less 1; None where COCO has no class of that id. The order of TensorFlow's models."""

COCO80: tuple[str, ...] = tuple(name for name in COCO91 if name is not None)
"""Without the gaps: the order of the YOLO family."""
