"""The options of TFLite's operators: which table each number of the unions stands for, and what each table holds.

After tensorflow/lite/schema/schema.fbs as of LiteRT 2.3. A field's notation is that of `tflite_schema`.
"""

from __future__ import annotations

_BUILTIN_OPTIONS = (
    "NONE Conv2DOptions DepthwiseConv2DOptions ConcatEmbeddingsOptions LSHProjectionOptions Pool2DOptions SVDFOptions "
    "RNNOptions FullyConnectedOptions SoftmaxOptions ConcatenationOptions AddOptions L2NormOptions "
    "LocalResponseNormalizationOptions LSTMOptions ResizeBilinearOptions CallOptions ReshapeOptions SkipGramOptions "
    "SpaceToDepthOptions EmbeddingLookupSparseOptions MulOptions PadOptions GatherOptions BatchToSpaceNDOptions "
    "SpaceToBatchNDOptions TransposeOptions ReducerOptions SubOptions DivOptions SqueezeOptions SequenceRNNOptions "
    "StridedSliceOptions ExpOptions TopKV2Options SplitOptions LogSoftmaxOptions CastOptions DequantizeOptions "
    "MaximumMinimumOptions ArgMaxOptions LessOptions NegOptions PadV2Options GreaterOptions GreaterEqualOptions "
    "LessEqualOptions SelectOptions SliceOptions TransposeConvOptions SparseToDenseOptions TileOptions "
    "ExpandDimsOptions EqualOptions NotEqualOptions ShapeOptions PowOptions ArgMinOptions FakeQuantOptions "
    "PackOptions LogicalOrOptions OneHotOptions LogicalAndOptions LogicalNotOptions UnpackOptions FloorDivOptions "
    "SquareOptions ZerosLikeOptions FillOptions BidirectionalSequenceLSTMOptions BidirectionalSequenceRNNOptions "
    "UnidirectionalSequenceLSTMOptions FloorModOptions RangeOptions ResizeNearestNeighborOptions LeakyReluOptions "
    "SquaredDifferenceOptions MirrorPadOptions AbsOptions SplitVOptions UniqueOptions ReverseV2Options AddNOptions "
    "GatherNdOptions CosOptions WhereOptions RankOptions ReverseSequenceOptions MatrixDiagOptions QuantizeOptions "
    "MatrixSetDiagOptions HardSwishOptions IfOptions WhileOptions DepthToSpaceOptions NonMaxSuppressionV4Options "
    "NonMaxSuppressionV5Options ScatterNdOptions SelectV2Options DensifyOptions SegmentSumOptions BatchMatMulOptions "
    "CumsumOptions CallOnceOptions BroadcastToOptions Rfft2dOptions Conv3DOptions HashtableOptions "
    "HashtableFindOptions HashtableImportOptions HashtableSizeOptions VarHandleOptions ReadVariableOptions "
    "AssignVariableOptions RandomOptions BucketizeOptions GeluOptions DynamicUpdateSliceOptions "
    "UnsortedSegmentProdOptions UnsortedSegmentMaxOptions UnsortedSegmentMinOptions UnsortedSegmentSumOptions "
    "ATan2Options SignOptions BitcastOptions BitwiseXorOptions RightShiftOptions"
)
BUILTIN_OPTIONS = tuple(_BUILTIN_OPTIONS.split())
"""Tables of the union BuiltinOptions, by number."""

_BUILTIN_OPTIONS_2 = (
    "NONE StablehloConcatenateOptions StablehloBroadcastInDimOptions StablehloSliceOptions "
    "StablehloConvolutionOptions StablehloCustomCallOptions StablehloReduceOptions StablehloScatterOptions "
    "StablehloCompareOptions StablehloDynamicSliceOptions StablehloPadOptions StablehloIotaOptions "
    "StablehloDotGeneralOptions StablehloReduceWindowOptions StablehloSortOptions StablehloWhileOptions "
    "StablehloGatherOptions StablehloTransposeOptions DilateOptions StablehloRngBitGeneratorOptions "
    "ReduceWindowOptions StableHLOCompositeOptions StablehloShiftLeftOptions StablehloCaseOptions"
)
BUILTIN_OPTIONS_2 = tuple(_BUILTIN_OPTIONS_2.split())
"""Tables of the union BuiltinOptions2, by number."""

OPTION_FIELDS: dict[str, str] = {
    "Conv2DOptions":
        "padding:Padding stride_w:i32 stride_h:i32 fused_activation_function:ActivationFunctionType "
        "dilation_w_factor:i32=1 dilation_h_factor:i32=1 quantized_bias_type:TensorType",
    "DepthwiseConv2DOptions":
        "padding:Padding stride_w:i32 stride_h:i32 depth_multiplier:i32 "
        "fused_activation_function:ActivationFunctionType dilation_w_factor:i32=1 dilation_h_factor:i32=1",
    "ConcatEmbeddingsOptions": "num_channels:i32 num_columns_per_channel:[i32] embedding_dim_per_channel:[i32]",
    "LSHProjectionOptions": "type:LSHProjectionType",
    "Pool2DOptions":
        "padding:Padding stride_w:i32 stride_h:i32 filter_width:i32 filter_height:i32 "
        "fused_activation_function:ActivationFunctionType",
    "SVDFOptions": "rank:i32 fused_activation_function:ActivationFunctionType asymmetric_quantize_inputs:bool",
    "RNNOptions": "fused_activation_function:ActivationFunctionType asymmetric_quantize_inputs:bool",
    "FullyConnectedOptions":
        "fused_activation_function:ActivationFunctionType weights_format:FullyConnectedOptionsWeightsFormat "
        "keep_num_dims:bool asymmetric_quantize_inputs:bool quantized_bias_type:TensorType quant_spec:[u8]",
    "SoftmaxOptions": "beta:f32",
    "ConcatenationOptions": "axis:i32 fused_activation_function:ActivationFunctionType",
    "AddOptions": "fused_activation_function:ActivationFunctionType pot_scale_int16:bool=1",
    "L2NormOptions": "fused_activation_function:ActivationFunctionType",
    "LocalResponseNormalizationOptions": "radius:i32 bias:f32 alpha:f32 beta:f32",
    "LSTMOptions":
        "fused_activation_function:ActivationFunctionType cell_clip:f32 proj_clip:f32 kernel_type:LSTMKernelType "
        "asymmetric_quantize_inputs:bool",
    "ResizeBilinearOptions": "- - align_corners:bool half_pixel_centers:bool",
    "CallOptions": "subgraph:u32",
    "ReshapeOptions": "new_shape:[i32]",
    "SkipGramOptions": "ngram_size:i32 max_skip_size:i32 include_all_ngrams:bool",
    "SpaceToDepthOptions": "block_size:i32",
    "EmbeddingLookupSparseOptions": "combiner:CombinerType",
    "MulOptions": "fused_activation_function:ActivationFunctionType",
    "GatherOptions": "axis:i32 batch_dims:i32",
    "ReducerOptions": "keep_dims:bool",
    "SubOptions": "fused_activation_function:ActivationFunctionType pot_scale_int16:bool=1",
    "DivOptions": "fused_activation_function:ActivationFunctionType",
    "SqueezeOptions": "squeeze_dims:[i32]",
    "SequenceRNNOptions":
        "time_major:bool fused_activation_function:ActivationFunctionType asymmetric_quantize_inputs:bool",
    "StridedSliceOptions":
        "begin_mask:i32 end_mask:i32 ellipsis_mask:i32 new_axis_mask:i32 shrink_axis_mask:i32 offset:bool",
    "SplitOptions": "num_splits:i32",
    "CastOptions": "in_data_type:TensorType out_data_type:TensorType",
    "ArgMaxOptions": "output_type:TensorType",
    "TransposeConvOptions":
        "padding:Padding stride_w:i32 stride_h:i32 fused_activation_function:ActivationFunctionType "
        "quantized_bias_type:TensorType",
    "SparseToDenseOptions": "validate_indices:bool",
    "ShapeOptions": "out_type:TensorType",
    "ArgMinOptions": "output_type:TensorType",
    "FakeQuantOptions": "min:f32 max:f32 num_bits:i32 narrow_range:bool",
    "PackOptions": "values_count:i32 axis:i32",
    "OneHotOptions": "axis:i32",
    "UnpackOptions": "num:i32 axis:i32",
    "BidirectionalSequenceLSTMOptions":
        "fused_activation_function:ActivationFunctionType cell_clip:f32 proj_clip:f32 merge_outputs:bool "
        "time_major:bool=1 asymmetric_quantize_inputs:bool",
    "BidirectionalSequenceRNNOptions":
        "time_major:bool fused_activation_function:ActivationFunctionType merge_outputs:bool "
        "asymmetric_quantize_inputs:bool",
    "UnidirectionalSequenceLSTMOptions":
        "fused_activation_function:ActivationFunctionType cell_clip:f32 proj_clip:f32 time_major:bool "
        "asymmetric_quantize_inputs:bool diagonal_recurrent_tensors:bool",
    "ResizeNearestNeighborOptions": "align_corners:bool half_pixel_centers:bool",
    "LeakyReluOptions": "alpha:f32",
    "MirrorPadOptions": "mode:MirrorPadMode",
    "SplitVOptions": "num_splits:i32",
    "UniqueOptions": "idx_out_type:TensorType=2",
    "ReverseSequenceOptions": "seq_dim:i32 batch_dim:i32",
    "IfOptions": "then_subgraph_index:i32 else_subgraph_index:i32",
    "WhileOptions": "cond_subgraph_index:i32 body_subgraph_index:i32",
    "DepthToSpaceOptions": "block_size:i32",
    "BatchMatMulOptions": "adj_x:bool adj_y:bool asymmetric_quantize_inputs:bool",
    "CumsumOptions": "exclusive:bool reverse:bool",
    "CallOnceOptions": "init_subgraph_index:i32",
    "Conv3DOptions":
        "padding:Padding stride_d:i32 stride_w:i32 stride_h:i32 fused_activation_function:ActivationFunctionType "
        "dilation_d_factor:i32=1 dilation_w_factor:i32=1 dilation_h_factor:i32=1",
    "HashtableOptions": "table_id:i32 key_dtype:TensorType value_dtype:TensorType",
    "VarHandleOptions": "container:text shared_name:text",
    "RandomOptions": "seed:i64 seed2:i64",
    "BucketizeOptions": "boundaries:[f32]",
    "GeluOptions": "approximate:bool",
    "StablehloConcatenateOptions": "dimension:i64",
    "StablehloBroadcastInDimOptions": "broadcast_dimensions:[i64]",
    "StablehloSliceOptions": "start_indices:[i64] limit_indices:[i64] strides:[i64]",
    "StablehloConvolutionOptions":
        "window_strides:[i64] padding:[i64] lhs_dilation:[i64] rhs_dilation:[i64] window_reversal:[bool] "
        "input_batch_dimension:i64 input_feature_dimension:i64 input_spatial_dimensions:[i64] "
        "kernel_input_feature_dimension:i64 kernel_output_feature_dimension:i64 kernel_spatial_dimensions:[i64] "
        "output_batch_dimension:i64 output_feature_dimension:i64 output_spatial_dimensions:[i64] "
        "feature_group_count:i64 batch_group_count:i64 precision_config:[StablehloPrecisionConfig]",
    "StablehloCustomCallOptions":
        "call_target_name:text has_side_effect:bool backend_config:text api_version:i32 called_computations:[i32] "
        "custom_attributes:[u8]",
    "StablehloReduceOptions": "dimensions:[i64] body_subgraph_index:i32",
    "StablehloScatterOptions":
        "indices_are_sorted:bool update_window_dims:[i64] inserted_window_dims:[i64] "
        "scatter_dims_to_operand_dims:[i64] index_vector_dim:i64 unique_indices:bool "
        "update_computation_subgraph_index:i32",
    "StablehloCompareOptions": "comparison_direction:StablehloComparisonDirection compare_type:StablehloComparisonType",
    "StablehloDynamicSliceOptions": "slice_sizes:[i64]",
    "StablehloPadOptions": "edge_padding_low:[i64] edge_padding_high:[i64] interior_padding:[i64]",
    "StablehloIotaOptions": "iota_dimension:i64",
    "StablehloDotGeneralOptions":
        "lhs_batching_dimensions:[i64] rhs_batching_dimensions:[i64] lhs_contracting_dimensions:[i64] "
        "rhs_contracting_dimensions:[i64] precision_config:[StablehloPrecisionConfig]",
    "StablehloReduceWindowOptions":
        "window_dimensions:[i64] window_strides:[i64] base_dilations:[i64] window_dilations:[i64] padding:[i64] "
        "body_subgraph_index:i32",
    "StablehloSortOptions": "dimension:i64 is_stable:bool comparator_subgraph_index:i32",
    "StablehloWhileOptions": "cond_subgraph_index:i32 body_subgraph_index:i32",
    "StablehloGatherOptions":
        "offset_dims:[i64] collapsed_slice_dims:[i64] start_index_map:[i64] index_vector_dim:i64 slice_sizes:[i64] "
        "indices_are_sorted:bool",
    "StablehloTransposeOptions": "permutation:[i64]",
    "StablehloRngBitGeneratorOptions": "algorithm:RngAlgorithm",
    "ReduceWindowOptions": "reduce_function:ReduceWindowFunction",
    "StableHLOCompositeOptions":
        "name:text decomposition_subgraph_index:i32 composite_attributes:[u8] "
        "composite_attributes_format:CustomOptionsFormat version:i32",
    "StablehloCaseOptions": "branch_subgraph_indices:[i32]",
}  # fmt: skip
"""Table → its fields in order. The tables that are not here hold nothing."""
