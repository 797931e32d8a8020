"""TFLite's schema as data: enumerations, operators, and what every field of every table holds.

After tensorflow/lite/schema/schema.fbs as of LiteRT 2.3. A table is a line of fields in the order of their numbers,
``name:type`` or ``name:type=default``, ``-`` for one that is no longer used. A type is a number (``i32``), the name of
an enumeration, ``text``, a vector of numbers (``[i32]``), another table (``@Tensor``), a vector of tables
(``[@Tensor]``), or a union (``<BuiltinOptions>``), whose type is the field before it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from edgewise.model.readers.tflite_options import BUILTIN_OPTIONS, BUILTIN_OPTIONS_2, OPTION_FIELDS

_OPERATORS = (
    "ADD AVERAGE_POOL_2D CONCATENATION CONV_2D DEPTHWISE_CONV_2D DEPTH_TO_SPACE DEQUANTIZE EMBEDDING_LOOKUP FLOOR "
    "FULLY_CONNECTED HASHTABLE_LOOKUP L2_NORMALIZATION L2_POOL_2D LOCAL_RESPONSE_NORMALIZATION LOGISTIC "
    "LSH_PROJECTION LSTM MAX_POOL_2D MUL RELU RELU_N1_TO_1 RELU6 RESHAPE RESIZE_BILINEAR RNN SOFTMAX SPACE_TO_DEPTH "
    "SVDF TANH CONCAT_EMBEDDINGS SKIP_GRAM CALL CUSTOM EMBEDDING_LOOKUP_SPARSE PAD UNIDIRECTIONAL_SEQUENCE_RNN GATHER "
    "BATCH_TO_SPACE_ND SPACE_TO_BATCH_ND TRANSPOSE MEAN SUB DIV SQUEEZE UNIDIRECTIONAL_SEQUENCE_LSTM STRIDED_SLICE "
    "BIDIRECTIONAL_SEQUENCE_RNN EXP TOPK_V2 SPLIT LOG_SOFTMAX DELEGATE BIDIRECTIONAL_SEQUENCE_LSTM CAST PRELU MAXIMUM "
    "ARG_MAX MINIMUM LESS NEG PADV2 GREATER GREATER_EQUAL LESS_EQUAL SELECT SLICE SIN TRANSPOSE_CONV SPARSE_TO_DENSE "
    "TILE EXPAND_DIMS EQUAL NOT_EQUAL LOG SUM SQRT RSQRT SHAPE POW ARG_MIN FAKE_QUANT REDUCE_PROD REDUCE_MAX PACK "
    "LOGICAL_OR ONE_HOT LOGICAL_AND LOGICAL_NOT UNPACK REDUCE_MIN FLOOR_DIV REDUCE_ANY SQUARE ZEROS_LIKE FILL "
    "FLOOR_MOD RANGE RESIZE_NEAREST_NEIGHBOR LEAKY_RELU SQUARED_DIFFERENCE MIRROR_PAD ABS SPLIT_V UNIQUE CEIL "
    "REVERSE_V2 ADD_N GATHER_ND COS WHERE RANK ELU REVERSE_SEQUENCE MATRIX_DIAG QUANTIZE MATRIX_SET_DIAG ROUND "
    "HARD_SWISH IF WHILE NON_MAX_SUPPRESSION_V4 NON_MAX_SUPPRESSION_V5 SCATTER_ND SELECT_V2 DENSIFY SEGMENT_SUM "
    "BATCH_MATMUL PLACEHOLDER_FOR_GREATER_OP_CODES CUMSUM CALL_ONCE BROADCAST_TO RFFT2D CONV_3D IMAG REAL COMPLEX_ABS "
    "HASHTABLE HASHTABLE_FIND HASHTABLE_IMPORT HASHTABLE_SIZE REDUCE_ALL CONV_3D_TRANSPOSE VAR_HANDLE READ_VARIABLE "
    "ASSIGN_VARIABLE BROADCAST_ARGS RANDOM_STANDARD_NORMAL BUCKETIZE RANDOM_UNIFORM MULTINOMIAL GELU "
    "DYNAMIC_UPDATE_SLICE RELU_0_TO_1 UNSORTED_SEGMENT_PROD UNSORTED_SEGMENT_MAX UNSORTED_SEGMENT_SUM ATAN2 "
    "UNSORTED_SEGMENT_MIN SIGN BITCAST BITWISE_XOR RIGHT_SHIFT STABLEHLO_LOGISTIC STABLEHLO_ADD STABLEHLO_DIVIDE "
    "STABLEHLO_MULTIPLY STABLEHLO_MAXIMUM STABLEHLO_RESHAPE STABLEHLO_CLAMP STABLEHLO_CONCATENATE "
    "STABLEHLO_BROADCAST_IN_DIM STABLEHLO_CONVOLUTION STABLEHLO_SLICE STABLEHLO_CUSTOM_CALL STABLEHLO_REDUCE "
    "STABLEHLO_ABS STABLEHLO_AND STABLEHLO_COSINE STABLEHLO_EXPONENTIAL STABLEHLO_FLOOR STABLEHLO_LOG "
    "STABLEHLO_MINIMUM STABLEHLO_NEGATE STABLEHLO_OR STABLEHLO_POWER STABLEHLO_REMAINDER STABLEHLO_RSQRT "
    "STABLEHLO_SELECT STABLEHLO_SUBTRACT STABLEHLO_TANH STABLEHLO_SCATTER STABLEHLO_COMPARE STABLEHLO_CONVERT "
    "STABLEHLO_DYNAMIC_SLICE STABLEHLO_DYNAMIC_UPDATE_SLICE STABLEHLO_PAD STABLEHLO_IOTA STABLEHLO_DOT_GENERAL "
    "STABLEHLO_REDUCE_WINDOW STABLEHLO_SORT STABLEHLO_WHILE STABLEHLO_GATHER STABLEHLO_TRANSPOSE DILATE "
    "STABLEHLO_RNG_BIT_GENERATOR REDUCE_WINDOW STABLEHLO_COMPOSITE STABLEHLO_SHIFT_LEFT STABLEHLO_CBRT STABLEHLO_CASE"
)
OPERATORS = tuple(_OPERATORS.split())
"""Names of BuiltinOperator, by number."""

_DTYPES = (
    "float32 float16 int32 uint8 int64 string bool int16 complex64 int8 float64 complex128 uint64 resource variant "
    "uint32 uint16 int4 bfloat16 int2 uint4 float8_e4m3fn float8_e5m2"
)
DTYPES: dict[int, str] = dict(enumerate(_DTYPES.split()))
"""TensorType by number; numpy's name, or the format's own in lower case where numpy has none."""

_COMPARISONS = ("EQ", "NE", "GE", "GT", "LE", "LT")
_COMPARED = ("NOTYPE", "FLOAT", "FLOAT_TOTAL_ORDER", "SIGNED", "UNSIGNED")
ENUMERATIONS: dict[str, tuple[str, ...]] = {
    "Padding": ("SAME", "VALID"),
    "ActivationFunctionType": ("NONE", "RELU", "RELU_N1_TO_1", "RELU6", "TANH", "SIGN_BIT"),
    "TensorType": tuple(name.upper() for name in DTYPES.values()),
    "FullyConnectedOptionsWeightsFormat": ("DEFAULT", "SHUFFLED4x16INT8"),
    "LSTMKernelType": ("FULL", "BASIC"),
    "CombinerType": ("SUM", "MEAN", "SQRTN"),
    "LSHProjectionType": ("UNKNOWN", "SPARSE", "DENSE"),
    "MirrorPadMode": ("REFLECT", "SYMMETRIC"),
    "RngAlgorithm": ("DEFAULT", "PHILOX", "THREEFRY"),
    "CustomOptionsFormat": ("FLEXBUFFERS",),
    "ReduceWindowFunction": ("UNSUPPORTED", "ADD", "MUL", "MINIMUM", "MAXIMUM", "ALL", "ANY"),
    "StablehloPrecisionConfig": ("DEFAULT", "HIGH", "HIGHEST"),
    "StablehloComparisonDirection": tuple(f"STABLEHLO_COMPARISON_DIRECTION_{how}" for how in _COMPARISONS),
    "StablehloComparisonType": tuple(f"STABLEHLO_COMPARISON_TYPE_{what}" for what in _COMPARED),
}
"""Enumeration → its names by number."""

_WIDE = {"StablehloComparisonDirection", "StablehloComparisonType", "StablehloPrecisionConfig"}
"""Enumerations of 32 bits without a sign; one is of 32 bits with it, the others of 8."""

Unions = Mapping[str, Sequence[str]]
"""Union → the tables that it may be, by number; 0 is none."""

_UNIONS: Unions = {
    "BuiltinOptions": BUILTIN_OPTIONS,
    "BuiltinOptions2": BUILTIN_OPTIONS_2,
    "QuantizationDetails": ("NONE", "CustomQuantization", "BlockwiseQuantization", "MultiAxisQuantization"),
    "SparseIndexVector": ("NONE", "Int32Vector", "Uint16Vector", "Uint8Vector"),
    "ContentProperties": ("NONE", "FeatureProperties", "ImageProperties"),
    "ProcessUnitOptions": ("NONE", "NormalizationOptions"),
}

_TABLES = {
    "Model":
        "version:u32 operator_codes:[@OperatorCode] subgraphs:[@SubGraph] description:text buffers:[@Buffer] "
        "metadata_buffer:[i32] metadata:[@Metadata] signature_defs:[@SignatureDef] "
        "external_buffer_groups:[@ExternalBufferGroup] external_buffers:[@ExternalBuffer]",
    "OperatorCode": "deprecated_builtin_code:i8 custom_code:text version:i32=1 builtin_code:i32",
    "SubGraph":
        "tensors:[@Tensor] inputs:[i32] outputs:[i32] operators:[@Operator] name:text debug_metadata_index:i32=-1",
    "Tensor":
        "shape:[i32] type:i8 buffer:u32 name:text quantization:@QuantizationParameters is_variable:bool "
        "sparsity:@SparsityParameters shape_signature:[i32] has_rank:bool variant_tensors:[@VariantSubType] "
        "external_buffer:u32",
    "VariantSubType": "shape:[i32] type:i8 has_rank:bool",
    "QuantizationParameters":
        "min:[f32] max:[f32] scale:[f32] zero_point:[i64] details_type:u8 details:<QuantizationDetails> "
        "quantized_dimension:i32",
    "CustomQuantization": "custom:[u8]",
    "BlockwiseQuantization": "scales:i32 zero_points:i32 block_size:i32 block_shape:[i32]",
    "MultiAxisQuantization": "scales:i32 zero_points:i32 block_size:i32 quantized_dimensions:[i32]",
    "SparsityParameters": "traversal_order:[i32] block_map:[i32] dim_metadata:[@DimensionMetadata]",
    "DimensionMetadata":
        "format:i8 dense_size:i32 array_segments_type:u8 array_segments:<SparseIndexVector> "
        "array_indices_type:u8 array_indices:<SparseIndexVector>",
    "Int32Vector": "values:[i32]",
    "Uint16Vector": "values:[u16]",
    "Uint8Vector": "values:[u8]",
    "Operator":
        "opcode_index:u32 inputs:[i32] outputs:[i32] builtin_options_type:u8 builtin_options:<BuiltinOptions> "
        "custom_options:[u8] custom_options_format:CustomOptionsFormat mutating_variable_inputs:[bool] "
        "intermediates:[i32] large_custom_options_offset:u64 large_custom_options_size:u64 builtin_options_2_type:u8 "
        "builtin_options_2:<BuiltinOptions2> debug_metadata_index:i32=-1",
    "Buffer": "data:[u8] offset:u64 size:u64",
    "Metadata": "name:text buffer:u32",
    "SignatureDef": "inputs:[@TensorMap] outputs:[@TensorMap] signature_key:text - subgraph_index:u32",
    "TensorMap": "name:text tensor_index:u32",
    "ExternalBufferGroup": "name:text",
    "ExternalBuffer": "id:u32 group:u32 offset:u64 length:u64 packing:text",
    # What the converter of TensorFlow keeps in a buffer: tensorflow/lite/schema/conversion_metadata.fbs.
    "ConversionMetadata": "environment:@Environment",
    "Environment": "tensorflow_version:text",
    # TensorFlow Lite Metadata 1.1.0, as far as edgewise reads it (`edgewise.evaluating.litert_metadata`):
    # tensorflow_lite_support/metadata/metadata_schema.fbs of https://github.com/tensorflow/tflite-support.
    "ModelMetadata": "- - - subgraph_metadata:[@SubGraphMetadata]",
    "SubGraphMetadata": "- - input_tensor_metadata:[@TensorMetadata] output_tensor_metadata:[@TensorMetadata]",
    "TensorMetadata":
        "- - - content:@Content process_units:[@ProcessUnit] - associated_files:[@AssociatedFile]",
    "Content": "content_properties_type:u8 content_properties:<ContentProperties>",
    "FeatureProperties": "",
    "ImageProperties": "color_space:i8",
    "ProcessUnit": "options_type:u8 options:<ProcessUnitOptions>",
    "NormalizationOptions": "mean:[f32] std:[f32]",
    "AssociatedFile": "name:text - type:i8 locale:text",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Field:
    """What a field holds.

    Attributes:
        layout: `struct`'s letter of a number or of a vector's items, "" otherwise.
        width: bytes of a number or of one of a vector's items.
        table: name of a table, or of an enumeration for numbers that stand for names.
        union: number → name of a table.
    """

    name: str
    slot: int
    kind: Literal["number", "vector", "text", "table", "tables", "union"]
    layout: str = ""
    width: int = 4
    table: str = ""
    union: Sequence[str] = ()
    default: int | float | bool | str | None = None


_LAYOUTS = {
    "i8": ("b", 1), "u8": ("B", 1), "bool": ("?", 1), "i16": ("h", 2), "u16": ("H", 2), "i32": ("i", 4),
    "u32": ("I", 4), "f32": ("f", 4), "i64": ("q", 8), "u64": ("Q", 8), "f64": ("d", 8),
}  # fmt: skip


def name_value(enumeration: str, number: int) -> str:
    """Name of a value, or its number where a newer schema has added it."""
    names = ENUMERATIONS[enumeration]
    return names[number] if 0 <= number < len(names) else str(number)


def _number_of(kind: str) -> tuple[str, int, str]:
    """Letter, width and enumeration of a type of number."""
    if kind in _LAYOUTS:
        return *_LAYOUTS[kind], ""
    return *_LAYOUTS["u32" if kind in _WIDE else "i32" if kind == "ReduceWindowFunction" else "i8"], kind


def _parse_field(slot: int, text: str, unions: Unions) -> Field:
    name, kind = text.split(":")
    kind, _, default = kind.partition("=")
    match kind[0], kind.strip("[]"):
        case _, "text":
            return Field(name, slot, "text")
        case "<", _:
            return Field(name, slot, "union", union=unions[kind[1:-1]])
        case "@", _:
            return Field(name, slot, "table", table=kind[1:])
        case "[", inner if inner.startswith("@"):
            return Field(name, slot, "tables", table=inner[1:])
        case "[", inner:
            layout, width, table = _number_of(inner)
            return Field(name, slot, "vector", layout, width, table)
    layout, width, table = _number_of(kind)
    number = {"f": float, "d": float, "?": bool}.get(layout, int)(int(default or 0))
    return Field(
        name, slot, "number", layout, width, table, default=name_value(table, int(number)) if table else number
    )


def parse_schema(tables: Mapping[str, str], unions: Unions) -> dict[str, tuple[Field, ...]]:
    """Table → its fields, of tables that are written as this module says."""
    return {
        name: tuple(_parse_field(slot, text, unions) for slot, text in enumerate(fields.split()) if text != "-")
        for name, fields in tables.items()
    }


SCHEMA: Mapping[str, tuple[Field, ...]] = parse_schema(
    dict.fromkeys([*BUILTIN_OPTIONS[1:], *BUILTIN_OPTIONS_2[1:]], "") | OPTION_FIELDS | _TABLES, _UNIONS
)
"""Table → its fields."""
