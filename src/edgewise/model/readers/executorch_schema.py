"""ExecuTorch's schemas as data, in the form of `edgewise.model.readers.tflite_schema`: programs, graphs, events.

After schema/program.fbs and backends/xnnpack/serialization/runtime_schema.fbs of ExecuTorch 1.5, which only add fields
to what earlier versions write.
"""

from __future__ import annotations

from edgewise.model.readers.tflite_schema import parse_schema
from edgewise.model.readers.tflite_tables import lay_out

_ONE = "input_id:u32 output_id:u32 flags:u32"
_TWO = "input1_id:u32 input2_id:u32 output_id:u32 flags:u32"
_PADDING = "padding_top:u32 padding_right:u32 padding_bottom:u32 padding_left:u32"
_CONVOLUTION = (
    f"{_PADDING} kernel_height:u32 kernel_width:u32 subsampling_height:u32 subsampling_width:u32 dilation_height:u32 "
    "dilation_width:u32 group_input_channels:u32 group_output_channels:u32 groups:u32 adjustment_height:u32 "
    "adjustment_width:u32 input1_id:u32 filter_id:u32 bias_id:u32 output_id:u32 flags:u32"
)
_POOLING = (
    f"{_PADDING} pooling_height:u32 pooling_width:u32 stride_height:u32 stride_width:u32 dilation_height:u32 "
    f"dilation_width:u32 {_ONE}"
)
_JOIN = "axis:u32 input1_id:u32 input2_id:u32 input3_id:u32 input4_id:u32 output_id:u32 flags:u32 input5_id:u32"

XNNPACK_NODES = {
    # In the order of the union XNodeUnion.
    "XNNAdd": _TWO,
    "XNNFullyConnected": "input1_id:u32 filter_id:u32 bias_id:u32 output_id:u32 flags:u32",
    "XNNSoftmax": _ONE,
    "XNNSigmoid": _ONE,
    "XNNStaticTranspose": f"num_dims:u32 perm:[u32] {_ONE}",
    "XNNClamp": _ONE,
    "XNNConv2d": _CONVOLUTION,
    "XNNDiv": _TWO,
    "XNNStaticResizeBilinear2D": f"new_height:u32 new_width:u32 {_ONE}",
    "XNNStaticConstantPad": f"pre_paddings:[u32] post_paddings:[u32] padding_value:f32 {_ONE}",
    "XNNAvgPooling2d": _POOLING,
    "XNNMinimum": _TWO,
    "XNNDepthwiseConv2d": _CONVOLUTION,
    "XNNMaxPooling2d": _POOLING,
    "XNNMultiply": _TWO,
    "XNNSubtract": _TWO,
    "XNNFloor": _ONE,
    "XNNConvert": _ONE,
    "XNNGlobalAvgPooling2d": _ONE,
    "XNNStaticReshape": f"num_dims:u32 new_shape:[u32] {_ONE}",
    "XNNArgMaxPooling2d":
        f"{_PADDING} pooling_height:u32 pooling_width:u32 input_id:u32 output_value_id:u32 output_index_id:u32 "
        "flags:u32",
    "XNNSquareRoot": _ONE,
    "XNNCeiling": _ONE,
    "XNNHardswish": _ONE,
    "XNNLeakyReLU": f"negative_slope:f32 {_ONE}",
    "XNNMaximum": _TWO,
    "XNNNegate": _ONE,
    "XNNSquare": _ONE,
    "XNNELU": f"alpha:f32 {_ONE}",
    "XNNAbs": _ONE,
    "XNNPReLU": _TWO,
    "XNNConcatenate2": _JOIN,
    "XNNConcatenate3": _JOIN,
    "XNNConcatenate4": _JOIN,
    "XNNStaticSlice": f"num_dims:u32 offsets:[u32] sizes:[u32] {_ONE}",
    "XNNScaledDotProductAttention":
        "query_id:u32 key_id:u32 value_id:u32 scale_id:u32 mask_id:u32 output_id:u32 flags:u32",
    "XNNBatchMatrixMultiply": _TWO,
    "XNNConcatenate5": _JOIN,
    "XNNConvTranspose2d": _CONVOLUTION,
    **dict.fromkeys(
        ("XNNReciprocalSquareRoot", "XNNLog", "XNNGelu", "XNNTanh", "XNNExp", "XNNSin", "XNNCopy", "XNNCos"), _ONE
    ),
}  # fmt: skip
"""Node of a graph of XNNPACK → its fields."""

_XNNPACK = {
    "XNNGraph":
        "version:text xnodes:[@XNode] xvalues:[@XValue] num_externs:u32 input_ids:[u32] output_ids:[u32] "
        "constant_buffer:[@XNNBuffer] mem_buffer_sizes:[u32] constant_data:[@ConstantDataOffset]",
    "XNode": "node_type:u8 node:<XNodeUnion> debug_handle:u32 output_min_max:@OutputMinMax",
    "OutputMinMax": "output_min:f32 output_max:f32",
    "XValue": "value_type:u8 value:<XValueUnion>",
    "XNNTensorValue":
        "datatype:i16 num_dims:u32 dims:[u32] constant_buffer_idx:u32 external_id:u32 flags:u32 id_out:u32 "
        "dq_datatype:i16",
    "XNNQuantizedTensorValue": "tensor_value:@XNNTensorValue params_type:u8 params:<XNNQuantParams>",
    "PerChannelQuant": "scale:[f32] channel_dim:i32 scale_buffer_idx:u32 num_scales:u32",
    "PerTensorQuant": "scale:f32 zero_point:i32",
    "PerTokenDynamicQuant": "num_nonbatch_dims:i32",
    "PerChannelGroupQuant":
        "scale:[f32] channel_dim:i32 group_size:i32 - scale_buffer_idx:u32 num_scales:u32",
    "XNNBuffer": "storage:[u8]",
    "ConstantDataOffset": "offset:u64 size:u64 named_key:text",
    **XNNPACK_NODES,
}  # fmt: skip

_PROGRAM = {
    "Program":
        "version:u32 execution_plan:[@ExecutionPlan] constant_buffer:[@StoredBuffer] "
        "backend_delegate_data:[@DelegateData] segments:[@DataSegment] constant_segment:@SubsegmentOffsets "
        "mutable_data_segments:[@SubsegmentOffsets] named_data:[@NamedData]",
    "ExecutionPlan":
        "name:text - values:[@EValue] inputs:[i32] outputs:[i32] chains:[@Chain] operators:[@KernelName] "
        "delegates:[@BackendDelegate] non_const_buffer_sizes:[i64]",
    "EValue": "value_type:u8 value:<KernelTypes>",
    "PlannedTensor":
        "scalar_type:i8 storage_offset:i32 sizes:[i32] dim_order:[u8] - data_buffer_idx:u32 "
        "allocation_info:@AllocationDetails - shape_dynamism:i8 extra_tensor_info:@ExtraTensorInfo",
    "AllocationDetails": "memory_id:u32 memory_offset_low:u32 memory_offset_high:u32",
    "ExtraTensorInfo": "mutable_data_segments_idx:u64 fully_qualified_name:text location:i8",
    "Null": "",
    "Int": "value:i64",
    "Bool": "value:bool",
    "Double": "value:f64",
    "String": "value:text",
    "IntList": "items:[i64]",
    "DoubleList": "items:[f64]",
    "BoolList": "items:[bool]",
    "TensorList": "items:[i32]",
    "OptionalTensorList": "items:[i32]",
    "Chain": "inputs:[i32] outputs:[i32] instructions:[@Instruction]",
    "Instruction": "arguments_type:u8 arguments:<InstructionArguments>",
    "KernelCall": "op_index:i32 args:[i32]",
    "DelegateCall": "delegate_index:i32 args:[i32]",
    "MoveCall": "move_from:i32 move_to:i32",
    "JumpFalseCall": "cond_value_index:i32 destination_instruction:i32",
    "FreeCall": "value_index:i32",
    "KernelName": "name:text overload:text",
    "BackendDelegate": "id:text processed:@DelegateReference",
    "DelegateReference": "location:i8 index:u32",
    "StoredBuffer": "storage:[u8]",
    "DelegateData": "data:[u8]",
    "DataSegment": "offset:u64 size:u64",
    "SubsegmentOffsets": "segment_index:u32 offsets:[u64]",
    "NamedData": "key:text segment_index:u32",
}  # fmt: skip

_EVENTS = {
    # What ExecuTorch records of inferences: devtools/etdump/etdump_schema_flatcc.fbs.
    "ETDump": "version:u32 run_data:[@RunData]",
    "RunData": "name:text bundled_input_index:i32 - events:[@Event]",
    "Event": "profile_event:@ProfileEvent",
    "ProfileEvent":
        "name:text chain_index:i32 instruction_id:i32=-1 delegate_debug_id_int:i32=-1 delegate_debug_id_str:text "
        "delegate_debug_metadata:[u8] start_time:u64 end_time:u64",
}  # fmt: skip

LAYOUTS = lay_out(
    parse_schema(
        _PROGRAM | _XNNPACK | _EVENTS,
        {
            "KernelTypes": (
                "NONE", "Null", "Int", "Bool", "Double", "PlannedTensor", "String", "IntList", "DoubleList",
                "BoolList", "TensorList", "OptionalTensorList",
            ),
            "InstructionArguments": (
                "NONE", "KernelCall", "DelegateCall", "MoveCall", "JumpFalseCall", "FreeCall",
            ),
            "XNodeUnion": ("NONE", *XNNPACK_NODES),
            "XValueUnion": ("NONE", "XNNTensorValue", "XNNQuantizedTensorValue"),
            "XNNQuantParams": (
                "NONE", "PerChannelQuant", "PerTensorQuant", "PerTokenDynamicQuant", "PerChannelGroupQuant",
            ),
        },
    )
)  # fmt: skip
"""What `edgewise.model.readers.tflite_tables` needs to read them."""

DTYPES = {
    0: "uint8", 1: "int8", 2: "int16", 3: "int32", 4: "int64", 5: "float16", 6: "float32", 7: "float64", 11: "bool",
    15: "bfloat16", 23: "float8_e5m2", 24: "float8_e4m3fn", 25: "float8_e5m2fnuz", 26: "float8_e4m3fnuz", 27: "uint16",
    28: "uint32", 29: "uint64",
}  # fmt: skip
"""ScalarType by number."""

XNNPACK_DTYPES = {
    1: "float32", 2: "float16", 3: "int8", 4: "uint8", 5: "int32", 6: "int8", 7: "int32", 8: "int4", 9: "int8",
    10: "int4", 11: "int8", 12: "int32", 13: "float32", 14: "bfloat16",
}  # fmt: skip
"""XNNDatatype by number."""
