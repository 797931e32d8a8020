/* int8 operators that CMSIS-NN's subset lacks, in portable C, with tflite-micro's arithmetic. */
#ifndef EDGEWISE_KERNELS_H
#define EDGEWISE_KERNELS_H
#include <stdint.h>

typedef struct { int32_t offset, multiplier, shift; } ew_scaled;
typedef struct { ew_scaled a, b, out; int32_t low, high; } ew_pair;

/* One row of an operator of two inputs: the steps are 1, or 0 for an input that the row shares. */
typedef void ew_row(const int8_t *a, int32_t step_a, const int8_t *b, int32_t step_b, const ew_pair *by, int8_t *out,
                    int32_t count);
ew_row ew_add_s8, ew_sub_s8, ew_mul_s8, ew_maximum_s8, ew_minimum_s8, ew_prelu_s8, ew_squared_difference_s8;

/* `loops` are nested, the outermost first: per loop a count, then the step in bytes of each pointer, `out` last. */
void ew_broadcast(ew_row *row, const int8_t *a, const int8_t *b, const ew_pair *by, int8_t *out, int32_t depth,
                  const int32_t *loops);
void ew_move(const int8_t *in, int8_t *out, int32_t depth, const int32_t *loops);
void ew_sum_s8(const int8_t *in, int32_t inner_depth, const int32_t *inner, int32_t subtract, const ew_scaled *out_by,
               int8_t *out, int32_t depth, const int32_t *loops);
/* The greatest value, or the least one where `sign` is -1; `arg` gives its place, the first of equal ones. */
void ew_extreme_s8(const int8_t *in, int32_t inner_depth, const int32_t *inner, int32_t sign, int8_t *out,
                   int32_t depth, const int32_t *loops);
void ew_arg_s8(const int8_t *in, int32_t outer, int32_t count, int32_t inner, int32_t sign, int32_t *out);

/* Rows, depth and columns; the steps of `a` along rows and depth, and of `b` along depth and columns. */
typedef struct { int32_t sizes[3], steps[4], a_offset, b_offset; ew_scaled out; } ew_product;
void ew_matmul_s8(const int8_t *a, const int8_t *b, const ew_product *by, int8_t *out, int32_t depth,
                  const int32_t *loops);

/* Shapes are height, width and channels; `weights` is output channels × height × width × input channels. */
typedef struct {
    int32_t in[3], kernel[2], out[3], stride[2], before[2], in_offset, out_offset, low, high;
    const int32_t *multipliers, *shifts, *bias;
} ew_transposed;
void ew_transpose_conv_s8(const int8_t *in, const int8_t *weights, const ew_transposed *by, int8_t *out);

/* A state holds `memory` values per filter, the latest last; they have `width` bytes, 1 or 2. `rank` filters make a unit. */
typedef struct {
    int32_t batches, inputs, units, rank, memory, width, in_zero;
    ew_scaled into, by;
    const int32_t *bias;
} ew_filter;
void ew_svdf_s8(const int8_t *in, const int8_t *features, const int8_t *times, const ew_filter *by, void *state,
                int8_t *out);

void ew_softmax_s8(const int8_t *in, int32_t rows, int32_t columns, int32_t multiplier, int32_t shift, int32_t diff_min,
                   int8_t *out);
void ew_l2_normalization_s8(const int8_t *in, int32_t rows, int32_t columns, int32_t zero_point, int8_t *out);
void ew_rsqrt_s8(const int8_t *in, int32_t zero_point, const ew_scaled *by, int8_t *out, int32_t count);

/* `ys` and `xs` hold, per place of the output, both neighbours and the distance from the first in units of 1/1024. */
void ew_resize_bilinear_s8(const int8_t *in, int32_t batches, int32_t height, int32_t width, int32_t channels,
                           int32_t out_height, int32_t out_width, const int32_t *ys, const int32_t *xs, int8_t *out);
void ew_lookup_s8(const int8_t *in, const int8_t *table, int8_t *out, int32_t count);
void ew_quantize_f32(const float *in, float scale, int32_t zero_point, int8_t *out, int32_t count);
void ew_dequantize_f32(const int8_t *in, float scale, int32_t zero_point, float *out, int32_t count);
void ew_copy(const int8_t *in, int8_t *out, int32_t count);
void ew_fill(int8_t *out, int32_t value, int32_t count);
#endif
